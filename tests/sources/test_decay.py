"""Notes whose weight fades with time and comes back with use."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, strategies as st

from agentctx import ConfigError, ContextOverflow, SourceError
from agentctx.sources import Decay
from agentctx.sources.decay import HEADING
from agentctx.tokens import TiktokenCounter

COUNTER = TiktokenCounter()


class Clock:
    """A clock that is moved by hand."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        """The time."""
        return self.now


@pytest.fixture
def clock():
    """A clock that is moved by hand."""
    return Clock()


@pytest.fixture
def decay(clock):
    """Entries with a half-life of 10."""
    return Decay(10, clock=clock)


def test_the_half_life_is_what_it_was_set_to():
    """A half-life is what it was set to; without one it is half an hour; no weight is told below 0.1."""
    assert Decay(600).half_life == 600
    assert Decay().half_life == 1_800
    assert Decay().min_weight == 0.1


@pytest.mark.parametrize("half_life", [0, -300, float("nan")])
def test_a_half_life_that_makes_no_sense(half_life):
    """A half-life that makes no sense is refused: nothing is guessed."""
    with pytest.raises(ConfigError, match="half_life"):
        Decay(half_life)


def test_a_new_entry(decay):
    """A new entry has a name, its full weight, and is not pinned."""
    entry = decay.get(decay.add("content", "notes"))
    assert entry.id.startswith("ctx_")
    assert (entry.weight, entry.pinned, entry.accesses, entry.category) == (1.0, False, 0, "notes")


def test_entries_are_counted_as_they_are_written(decay):
    """An entry is counted as it is written."""
    assert decay.get(decay.add("content")).tokens == COUNTER.count("- content\n")


def test_a_fresh_entry_and_an_unknown_one(decay):
    """A fresh entry has nearly its full weight; an unknown one is None."""
    assert decay.get(decay.add("content")).weight > 0.99
    assert decay.get("ctx_unknown") is None


def test_after_five_half_lives_an_entry_is_at_the_floor(decay, clock):
    """After five half-lives an entry is at the floor."""
    name = decay.add("content")
    clock.now = 50
    assert decay.get(name).weight <= 0.11


@pytest.mark.parametrize(("half_lives", "weight"), [(0.5, 0.7071), (1, 0.5), (2, 0.25), (3, 0.125)])
def test_a_weight_is_decayed_once(decay, clock, half_lives, weight):
    """A weight is decayed once, however often it is asked for."""
    name = decay.add("content")
    for step in range(1, 11):
        clock.now = half_lives * step
        decay.entries()
        decay.prune(0.0)
    assert decay.get(name).weight == pytest.approx(weight, abs=1e-4)


def test_a_pinned_entry_keeps_its_weight(decay, clock):
    """A pinned entry keeps its full weight."""
    name = decay.add("content", pinned=True)
    clock.now = 1_000
    assert decay.get(name).weight == 1.0


def test_a_use_gives_weight_back(decay, clock):
    """A use gives weight back, as much as the boost and not all of it, and is counted."""
    name = decay.add("content")
    clock.now = 10
    assert decay.access(name).weight == pytest.approx(0.7)
    assert decay.get(name).accesses == 1
    clock.now = 20
    assert decay.get(name).weight == pytest.approx(0.35)


def test_using_what_is_not_there(decay):
    """Using what is not there does nothing."""
    assert decay.access("ctx_unknown") is None


def test_what_is_unpinned_fades_from_then_on(decay, clock):
    """What is unpinned fades from that moment on, and not from its last use."""
    name = decay.add("content")
    clock.now = 10
    decay.pin(name)
    clock.now = 100
    decay.unpin(name)
    assert decay.get(name).weight == 1.0
    clock.now = 110
    assert decay.get(name).weight == 0.5


def test_pinning_what_is_not_there(decay):
    """Pinning, unpinning or removing what is not there is an error that names it."""
    for change in (decay.pin, decay.unpin, decay.remove):
        with pytest.raises(SourceError, match="ctx_9"):
            change("ctx_9")


@pytest.mark.parametrize(("there", "wanted", "got"), [(3, 2, 2), (1, 5, 1), (3, 0, 0)])
def test_as_many_as_are_asked_for(decay, there, wanted, got):
    """As many as were asked for, or as there are."""
    for n in range(there):
        decay.add(f"entry {n}")
    assert len(decay.top(wanted)) == got


def test_a_negative_number_of_entries(decay):
    """A negative number is an error that says so."""
    with pytest.raises(ConfigError):
        decay.top(-1)


def test_pinned_entries_come_first(decay):
    """Pinned entries stand first, before fresh ones."""
    decay.add("fresh")
    pinned = decay.add("pinned", pinned=True)
    decay.add("fresher")
    assert decay.top(1)[0].id == pinned


def test_entries_of_one_weight_have_an_order(decay, clock):
    """Entries of one weight stand by how often they were used, then the newest first."""
    names = [decay.add(f"entry {n}") for n in range(4)]
    decay.access(names[1])
    clock.now = 1_000
    assert [entry.id for entry in decay.entries()] == [names[1], names[3], names[2], names[0]]


def test_entries_fit_the_room(decay):
    """Of entries of 10, 50 and 100 words at least two go into 80 tokens, and no more than fit."""
    for words in (10, 50, 100):
        decay.add("word " * words)
    chosen = decay.within(80)
    assert len(chosen) >= 2
    assert COUNTER.count(decay.render(80)) <= 80


@pytest.mark.parametrize("room", [0, -5, 3])
def test_nothing_fits_in_nothing(decay, room):
    """Nothing fits in nothing, and nothing is not an error."""
    assert decay.within(100) == ()
    decay.add("content")
    assert decay.within(room) == ()
    assert decay.render(room) == ""


def test_an_entry_that_does_not_fit_is_passed_over(decay):
    """An entry that does not fit is passed over for one that does."""
    decay.add("huge " * 500)
    tiny = decay.add("tiny")
    assert [entry.id for entry in decay.within(60)] == [tiny]


def test_a_pinned_entry_is_never_passed_over(decay):
    """A pinned entry that is too large is an error that names it."""
    name = decay.add("huge " * 500, pinned=True)
    with pytest.raises(ContextOverflow, match=name):
        decay.within(60)


def test_pinned_is_never_left_out_for_a_counter(clock):
    """Where a counter has more for entries together than apart, what is pinned is an error and not left out."""

    class Squares:
        def count(self, text):
            return text.count("\n") ** 2

    decay = Decay(clock=clock, counter=Squares())
    decay.add("one", pinned=True)
    decay.add("two", pinned=True)
    assert [entry.tokens for entry in decay.entries()] == [1, 1]
    for shown in (decay.within, decay.render):
        with pytest.raises(ContextOverflow, match="needs 16 tokens and 8 are available"):
            shown(8)
    assert len(decay.within(16)) == 2
    assert decay.render(16).count("- ") == 2


@pytest.mark.parametrize(
    "options", [{"half_life": "5"}, {"half_life": True}, {"min_weight": 1.1}, {"boost": -0.1}, {"boost": None}]
)
def test_numbers_that_make_no_sense(options):
    """Options are checked when it is built."""
    with pytest.raises(
        ConfigError, match=rf"^Decay\.{next(iter(options))} must be a number (above 0|from 0 to 1), got "
    ):
        Decay(**options)


def test_pruning_takes_what_has_faded(decay, clock):
    """Pruning takes out what has faded, and keeps what is pinned."""
    decay.add("old")
    pinned = decay.add("pinned", pinned=True)
    clock.now = 20
    fresh = decay.add("fresh")
    assert decay.prune(0.5) == 1
    assert {entry.id for entry in decay.entries()} == {pinned, fresh}
    assert decay.prune(1.1) == 1
    assert [entry.id for entry in decay.entries()] == [pinned]


def test_pruning_leaves_what_is_fresh(decay):
    """Nothing is pruned that is fresh."""
    decay.add("fresh")
    assert decay.prune(0.5) == 0


def test_pruning_goes_by_the_true_weight(decay, clock):
    """Pruning goes by the true weight, and not by the one that is told, which is never below the floor."""
    decay.add("old")
    clock.now = 100
    assert decay.entries()[0].weight == 0.1
    assert decay.prune(0.1) == 1


def test_the_text_has_no_weights(decay):
    """The text has a heading and the contents, and no weights: they would change it at every step."""
    decay.add("remember the milk")
    assert decay.render(100) == f"{HEADING}- remember the milk\n"


def test_the_table_for_people(decay, clock):
    """People see weights, pins and what is fading, and are told when there is nothing."""
    assert decay.table() == "(empty)"
    decay.add("pinned", pinned=True)
    decay.add("old")
    clock.now = 30
    decay.add("aged")
    clock.now = 30 + 10 * 0.2345
    assert decay.table().splitlines() == ["[1.00] 📌 pinned", "[0.85] aged", "[0.11] old (fading)"]


def test_numbers_of_entries_pins_and_tokens(decay, clock):
    """Numbers of entries, pins and tokens, their average weight, the oldest and the newest; zeros when empty."""
    empty = decay.stats()
    assert (empty.entries, empty.pinned, empty.tokens, empty.average_weight, empty.oldest) == (0, 0, 0, 0.0, None)
    decay.add("one", pinned=True)
    clock.now = 10
    names = [decay.add("two"), decay.add("three")]
    stats = decay.stats()
    assert (stats.entries, stats.pinned, stats.oldest, stats.newest) == (3, 1, 0.0, 10.0)
    assert stats.tokens == sum(decay.get(name).tokens for name in ("ctx_1", *names))
    assert stats.average_weight == 1.0


def test_fifty_threads_lose_no_entry(decay):
    """Fifty threads add and use entries, and none is lost."""

    def work(number):
        name = decay.add(f"entry {number}")
        decay.access(name)
        decay.entries()
        return name

    with ThreadPoolExecutor(50) as threads:
        names = list(threads.map(work, range(50)))
    assert len(set(names)) == decay.stats().entries == 50


def test_names_are_unique(decay):
    """A hundred entries that say the same have a hundred names."""
    assert len({decay.add("same") for _ in range(100)}) == 100


def test_another_floor(clock):
    """The floor is what it was set to."""
    decay = Decay(10, min_weight=0.05, clock=clock)
    name = decay.add("content")
    clock.now = 1_000
    assert decay.get(name).weight == 0.05


def test_entries_are_values(decay):
    """What was asked for does not change when the entry does."""
    name = decay.add("content")
    before = decay.get(name)
    decay.access(name)
    assert before.accesses == 0


def test_the_task_decides_between_equals(decay):
    """With a task, the entry that has its words comes first."""
    wanted = decay.add("how the parser works")
    decay.add("something else")
    assert decay.entries("fix the parser")[0].id == wanted


def test_turns_are_a_clock():
    """With a clock that counts turns nothing fades while nobody speaks."""
    turns = []
    decay = Decay(2, clock=lambda: float(len(turns)))
    name = decay.add("content")
    assert decay.get(name).weight == 1.0
    turns += ["one", "two"]
    assert decay.get(name).weight == 0.5


def test_a_clock_that_goes_back(decay, clock):
    """A clock that is set back makes nothing heavier than it was."""
    clock.now = 100
    name = decay.add("content")
    clock.now = 0
    assert decay.get(name).weight == 1.0


STEPS = st.lists(st.tuples(st.sampled_from(["add", "access", "pin", "unpin", "wait"]), st.integers(0, 9)), max_size=30)


@given(STEPS, st.integers(0, 120))
def test_weights_and_budgets_hold(steps, room):
    """Whatever is done, weights lie between the floor and 1, the text fits, and the same steps give the same text."""

    def run():
        clock = Clock()
        decay, names = Decay(5, clock=clock), []
        for what, number in steps:
            if what == "add":
                names.append(decay.add(f"entry {number}\n" * number, pinned=number == 9))
            elif what == "wait":
                clock.now += number
            elif names:
                getattr(decay, what)(names[number % len(names)])
        assert all(0.1 <= entry.weight <= 1.0 for entry in decay.entries())
        try:
            return decay.render(room)
        except ContextOverflow as error:
            return str(error)

    first = run()
    assert first == run()
    assert "available" in first or COUNTER.count(first) <= room
