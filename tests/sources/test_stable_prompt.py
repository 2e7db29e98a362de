"""A prompt of sections whose beginning stays while what they say changes."""

import json
import threading
from functools import partial

import anyio
import pytest
from hypothesis import given, strategies as st

from agentctx import Budget, ConfigError, InvalidInput, Message, SourceError, Text, validate
from agentctx.builder import Block, ContextBuilder, Tier
from agentctx.sources import ContextItem, PromptSection, StablePrompt, section_from
from agentctx.sources.stable_prompt import CHANGED
from agentctx.tokens import TiktokenCounter

pytestmark = pytest.mark.anyio

COUNTER = TiktokenCounter()


class Values:
    """What sections say; an exception is raised instead."""

    def __init__(self, **values):
        self.now = values

    def section(self, key, header=None):
        """A section that says what is here under its key."""

        def load():
            value = self.now[key]
            if isinstance(value, Exception):
                raise value
            return value

        return PromptSection(key, load, f"# {key}" if header is None else header)

    def prompt(self, **options):
        """A prompt of all sections."""
        return StablePrompt([self.section(key) for key in self.now], **options)


async def test_the_baseline_has_headers_and_values_in_order():
    """The baseline is each section's header and value, in the caller's order."""
    prompt = Values(b="two", a="one").prompt()
    await prompt.start()
    assert prompt.baseline == "# b\ntwo\n\n# a\none"


async def test_what_did_not_change_is_no_update():
    """When nothing changed there is no update, and what is sent is the same to the byte."""
    prompt = Values(a="one").prompt()
    await prompt.start()
    before = prompt.build()
    assert await prompt.reconcile() is None
    assert prompt.build() == before


async def test_an_update_has_only_what_changed():
    """An update has the changed sections only; the baseline still says what it said."""
    values = Values(a="one", b="two")
    prompt = values.prompt()
    await prompt.start()
    values.now["b"] = "three"
    update = await prompt.reconcile()
    assert update.keys == ("b",)
    assert update.text == f"{CHANGED}\n\n# b\nthree"
    assert update.message == Message("user", (Text(update.text),))
    assert prompt.baseline == "# a\none\n\n# b\ntwo"
    assert prompt.build().text == f"{prompt.baseline}\n\n{update.text}"
    assert await prompt.reconcile() is None


async def test_a_restored_prompt_sees_no_change():
    """What goes on where a dump was made sees no change."""
    values = Values(a="one", b="two")
    prompt, other = values.prompt(), values.prompt()
    await prompt.start()
    other.restore(json.loads(json.dumps(prompt.dump())))
    assert await other.reconcile() is None
    assert other.build() == prompt.build()


async def test_a_restored_prompt_keeps_the_prefix():
    """After a restart the prefix is what was sent, and not written anew from the latest values."""
    values = Values(a="one", b="two")
    prompt, other = values.prompt(), values.prompt()
    await prompt.start()
    values.now["a"] = "changed"
    await prompt.reconcile()
    other.restore(json.loads(json.dumps(prompt.dump())))
    assert other.baseline == "# a\none\n\n# b\ntwo"
    assert other.build().text == prompt.build().text


async def test_a_change_while_nobody_was_there():
    """What changed while nobody was there is told."""
    values = Values(a="one")
    prompt, other = values.prompt(), values.prompt()
    await prompt.start()
    other.restore(prompt.dump())
    values.now["a"] = "changed"
    assert (await other.reconcile()).keys == ("a",)


@pytest.mark.parametrize("dump", [{}, {"version": 99}, {"version": 1, "texts": "a", "values": {}, "titles": {}}])
async def test_what_is_no_dump(dump):
    """What cannot be a dump of this version is refused."""
    with pytest.raises(InvalidInput):
        Values(a="one").prompt().restore(dump)


async def test_a_prompt_without_sections():
    """A prompt without sections is refused."""
    with pytest.raises(ConfigError):
        StablePrompt([])


async def test_a_section_that_says_nothing_is_left_out():
    """A section that says nothing is left out, header and all; without a header the value stands alone."""
    values = Values(a="", b=" \n", c="three")
    prompt = StablePrompt([values.section("a"), values.section("b"), values.section("c", header="")])
    await prompt.start()
    assert prompt.baseline == "three"


async def test_two_sections_of_one_key():
    """Two sections of one key are refused."""
    values = Values(a="one")
    with pytest.raises(ConfigError, match="each key once"):
        StablePrompt([values.section("a"), values.section("a")])


@pytest.mark.parametrize("key", ["", " ", "a b", "/a", "a\n", 7])
async def test_a_key_that_is_no_name(key):
    """A key that is no name is refused."""
    with pytest.raises(ConfigError):
        PromptSection(key, str)


async def test_a_section_without_a_function():
    """A section that has nothing to load is refused."""
    with pytest.raises(ConfigError):
        PromptSection("environment", None)


async def test_a_section_that_cannot_be_loaded_keeps_what_it_said():
    """A section that cannot be loaded keeps what it said, and the problem is told without its secrets."""
    values = Values(a="one", b="two")
    prompt = values.prompt()
    await prompt.start()
    values.now["a"] = OSError("password=hunter2")
    values.now["b"] = "three"
    assert (await prompt.reconcile()).keys == ("b",)
    assert prompt.problems == {"a": "OSError: password=[redacted]"}
    assert prompt.values["a"] == "one"
    values.now["a"] = "one"
    assert await prompt.reconcile() is None
    assert prompt.problems == {}


async def test_no_conversation_begins_with_half_a_prompt():
    """A conversation does not begin with half a prompt."""
    prompt = Values(a="one", b=OSError("gone")).prompt()
    with pytest.raises(SourceError, match="section b: unavailable at the start: OSError: gone"):
        await prompt.start()
    with pytest.raises(ConfigError):
        prompt.build()


async def test_a_section_that_is_gone_is_told_once():
    """A section that is gone is told once, and the prefix stays."""
    values = Values(a="one", b="two")
    prompt = values.prompt()
    await prompt.start()
    baseline = prompt.baseline
    prompt.use([values.section("a")])
    assert (await prompt.reconcile()).text == f"{CHANGED}\n\nb: no longer applies."
    assert await prompt.reconcile() is None
    assert prompt.build().text.startswith(baseline)


async def test_a_section_that_is_gone_after_a_restart():
    """The same after a restart with fewer sections."""
    values = Values(a="one", b="two")
    prompt = values.prompt()
    await prompt.start()
    other = StablePrompt([values.section("a")])
    other.restore(prompt.dump())
    assert (await other.reconcile()).keys == ("b",)
    assert await other.reconcile() is None


async def test_a_section_that_says_nothing_any_more():
    """The model is told that a section says nothing any more, and not shown an empty text."""
    values = Values(a="one")
    prompt = values.prompt()
    await prompt.start()
    values.now["a"] = ""
    assert (await prompt.reconcile()).text == f"{CHANGED}\n\na: no longer applies."


async def test_a_new_section_is_told():
    """A section that comes later is an update."""
    values = Values(a="one", b="two")
    prompt = StablePrompt([values.section("a")])
    await prompt.start()
    prompt.use([values.section("b"), values.section("a")])
    assert (await prompt.reconcile()).text == f"{CHANGED}\n\n# b\ntwo"


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ('{"a": [1, 2]}', '{ "a":[1,2] }\n', True),
        ("text", " text\n", True),
        ('{"a": 1}', '{"a": true}', False),
        ('{"a": 1}', '{"a": 2}', False),
        ("[" * 100_000, "[" * 100_001, False),
        ("a  b", "a b", False),
    ],
    ids=range(6),
)
async def test_json_is_compared_without_spaces(before, after, same):
    """JSON that is only spaced differently has not changed."""
    values = Values(a=before)
    prompt = values.prompt()
    await prompt.start()
    values.now["a"] = after
    assert (await prompt.reconcile() is None) is same


@pytest.mark.both_loops
async def test_a_section_that_hangs_costs_only_itself():
    """A section that does not load in time keeps what it said, whether it waits or blocks its thread."""
    release = threading.Event()
    hang = []

    async def waits():
        if hang:
            await anyio.sleep_forever()
        return "waits"

    def blocks():
        if hang:
            release.wait(300)
        return "blocks"

    values = Values(a="one")
    prompt = StablePrompt([PromptSection("w", waits), PromptSection("b", blocks), values.section("a")], deadline=1)
    await prompt.start()
    hang.append(True)
    values.now["a"] = "two"
    try:
        with anyio.fail_after(60):
            update = await prompt.reconcile()
    finally:
        release.set()
    assert update.keys == ("a",)
    assert set(prompt.problems) == {"w", "b"}


async def test_a_section_that_returns_no_text():
    """A section that returns something else than text is a problem, not a prompt."""
    prompt = StablePrompt([PromptSection("a", lambda: 7)])
    with pytest.raises(SourceError, match="returned int"):
        await prompt.start()


@pytest.mark.both_loops
async def test_two_tasks_tell_a_change_once():
    """Tasks that reconcile at the same time see a change in one of them only."""
    values = Values(a="one")
    prompt = values.prompt()
    await prompt.start()
    values.now["a"] = "two"
    told = []

    async def ask():
        told.append(await prompt.reconcile())

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(ask)
    assert [update is None for update in told].count(False) == 1


async def test_rebasing_says_everything_once():
    """A new baseline says what the sections say now, and saves what was superseded."""
    values = Values(a="one " * 50, b="two")
    prompt = values.prompt()
    await prompt.start()
    assert prompt.build().superseded == 0
    values.now["a"] = "three"
    await prompt.reconcile()
    before = prompt.build()
    prompt.rebase()
    assert prompt.build().text == "# a\nthree\n\n# b\ntwo"
    assert before.tokens - before.superseded == prompt.build().tokens


async def test_a_source_can_be_a_section():
    """What a source finds can be a section, whether the source waits or not."""

    def found(query):
        assert query == ""
        return [ContextItem("branch", "main")]

    prompt = StablePrompt([section_from(found, "git", "# Git")])
    await prompt.start()
    assert prompt.baseline == "# Git\n### branch\n```\nmain\n```"


LONG = "word " * 2_000


@pytest.mark.parametrize(
    ("baseline", "updates", "points"),
    [
        ("short", [], []),
        (LONG, [], [0]),
        (LONG, ["short"], [0]),
        (LONG, ["more " * 2_000], [0, 1]),
        (LONG, ["word " * 600, "word " * 601], [0, 2]),
        ("short", [LONG], [1]),
        ("short", ["short", "shorter"], []),
    ],
)
async def test_cache_points_stand_where_they_pay(baseline, updates, points):
    """Behind the baseline and behind the last update, where more than the provider's least stands before them."""
    values = Values(a=baseline)
    prompt = values.prompt(min_cache=1_024)
    await prompt.start()
    for update in updates:
        values.now["a"] = update
        await prompt.reconcile()
    pieces = prompt.build().pieces
    assert [place for place, piece in enumerate(pieces) if piece.cache] == points
    assert [piece.tokens for piece in pieces] == [COUNTER.count(piece.text) for piece in pieces]


USER = {
    "anthropic": {"role": "user", "content": "hi"},
    "bedrock": {"role": "user", "content": [{"text": "hi"}]},
    "gemini": {"role": "user", "parts": [{"text": "hi"}]},
    "openai-chat": {"role": "user", "content": "hi"},
    "openai-responses": {"role": "user", "content": "hi"},
}
MARKS = {"anthropic": "cache_control", "bedrock": "cachePoint"}


@pytest.mark.parametrize("form", USER)
async def test_every_provider_gets_the_same_beginning(form):
    """Whatever changes, the words sent before begin the next request, and marks stand where the provider has them."""
    said = {"role": "You help. " * 400, "rules": "Be brief. " * 400, "date": "Monday"}
    prompt = StablePrompt([PromptSection(key, partial(said.__getitem__, key)) for key in said])
    before, texts, marks = "", [], []
    for key, value in (("date", "Monday"), ("date", "Tuesday"), ("role", "You know. " * 400), ("rules", "")):
        said[key] = value
        await prompt.reconcile()
        builder = ContextBuilder(Budget(60_000), format=form)
        built = await builder.add(*prompt.build().blocks, Block("task", [USER[form]], Tier.HISTORY)).build()
        request = {"messages": built.messages} | ({} if built.system is None else {"system": built.system})
        assert [each for each in validate(request, format=form) if each.severity == "error"] == []
        words = "".join(_words(built.messages if built.system is None else built.system))
        assert words.startswith(before)
        before = words.removesuffix("hi")
        texts.append(before)
        marks.append(str(request).count(MARKS.get(form, "cache")))
    assert len(set(texts)) == 4
    assert marks == ([1, 1, 2, 2] if form in MARKS else [0, 0, 0, 0])


def _words(native):
    """All texts of a native request, in order."""
    if isinstance(native, dict):
        for key, value in native.items():
            yield from [value] if key in ("text", "content") and isinstance(value, str) else _words(value)
    elif isinstance(native, list):
        for each in native:
            yield from _words(each)


async def test_the_cache_points_are_written():
    """Built for Anthropic, the baseline is a block with its mark, and stays it when a section changes."""
    values = Values(a=LONG, b="two")
    prompt = values.prompt()
    await prompt.start()

    async def system():
        user = Block("task", [{"role": "user", "content": "Hello."}])
        return (await ContextBuilder(50_000, format="anthropic").add(*prompt.build().blocks, user).build()).system

    (first,) = await system()
    values.now["b"] = "three"
    await prompt.reconcile()
    baseline, update = await system()
    assert baseline == first == {"type": "text", "text": prompt.baseline, "cache_control": {"type": "ephemeral"}}
    assert update == {"type": "text", "text": f"{CHANGED}\n\n# b\nthree"}


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.sampled_from(["", "x", "y y", "z\nz"])), max_size=6))
def test_nothing_ever_moves(both_loops, changes):
    """Whatever changes, what was sent before is the beginning of what is sent next."""

    async def run():
        values = Values(a="one", b="two", c="")
        prompt = values.prompt()
        await prompt.start()
        sent = prompt.build().text
        for change in changes:
            values.now |= change
            update = await prompt.reconcile()
            text = prompt.build().text
            assert text.startswith(sent)
            assert (update is None) == (text == sent)
            sent = text

    both_loops(run)
