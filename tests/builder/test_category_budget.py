"""A window divided by categories: sums, floors and ceilings, and when a conversation is compacted."""

import anyio
import pytest
from hypothesis import given, strategies as st

from agentctx import Budget, Call, ConfigError, Context, Message, Pipeline, Text, Tool, TrimRounds, when
from agentctx.builder import Category, CategoryBudget
from agentctx.builder.categories import FIXED, FULL_SIZE, LEAST_FILES, RESERVED, SLOTS, CategorySlot, measure
from agentctx.testing import assistant, call, result, system, transcript, user
from agentctx.tokens import FixedCounter, TiktokenCounter
from agentctx.tokens.counting import MessageMeter

SIZES = [8_000, 32_000, 128_000, 200_000, 1_000_000]
CONVERSATIONS = [0, 5_000, 80_000, 500_000]
WINDOWS = st.one_of(st.integers(1, 40_000), st.integers(1, 3_000_000))


def divided(window, conversation=0, **used):
    """The division of a window beside a conversation of so many tokens."""
    known = {name.replace("_", " "): tokens for name, tokens in used.items()}
    return CategoryBudget(window).divide({**known, "conversation": conversation})


@pytest.mark.parametrize(
    ("window", "slots", "compact_from"),
    [
        (32_000, [3_000, 2_000, 2_000, 1_000, 300, 5_000, 12_460, 4_000, 2_240], 15_461),
        (128_000, [3_840, 2_560, 2_560, 1_280, 500, 19_200, 76_300, 12_800, 8_960], 89_101),
        (200_000, [5_000, 3_000, 4_000, 2_000, 500, 30_000, 121_500, 20_000, 14_000], 141_501),
        (1_000_000, [5_000, 3_000, 4_000, 2_000, 500, 30_000, 920_500, 20_000, 15_000], 940_501),
    ],
)
def test_slots_of_known_windows(window, slots, compact_from):
    """The slots of known windows, and the size from which a conversation is compacted."""
    assert list(divided(window).tokens.values()) == slots
    assert not divided(window, compact_from - 1).should_compact
    assert divided(window, compact_from).should_compact


@pytest.mark.parametrize(
    ("conversation", "files"),
    [(0, 30_000), (1_000, 29_859), (20_000, 27_174), (50_000, 22_933), (80_000, 18_693), (141_500, 10_000)],
)
def test_files_give_way_evenly(conversation, files):
    """At 200k the files give way to the conversation evenly."""
    assert divided(200_000, conversation).files == files


def test_floors_hold_at_32k():
    """At 32k the floors hold, all parts are positive, and they add up to the window."""
    part = divided(32_000)
    floors = {category: slot.floor for category, slot in SLOTS.items() if category is not Category.SAFETY_MARGIN}
    assert {category: part[category] for category in floors} == floors
    assert all(tokens > 0 for tokens in part.tokens.values())
    assert sum(part.tokens.values()) == 32_000


def test_ceilings_hold_at_200k():
    """At 200k the ceilings hold, and the files have at least 20,000 tokens."""
    part = divided(200_000)
    for category in (*FIXED, Category.OUTPUT_RESERVE):
        assert part[category] == SLOTS[category].ceiling
    assert part.files >= 20_000
    assert sum(part.tokens.values()) == 200_000


def test_ceilings_hold_at_a_million():
    """At a million every ceiling holds exactly, and the conversation has more than 500,000 tokens."""
    part = divided(1_000_000)
    assert {category: part[category] for category in SLOTS} == {name: slot.ceiling for name, slot in SLOTS.items()}
    assert part.conversation > 500_000


def test_files_have_their_slot_beside_an_empty_conversation():
    """Beside an empty conversation the files have their slot, and the conversation has the rest, to the token."""
    for window in SIZES:
        part = divided(window)
        assert part.files == CategoryBudget(window).laid_out[Category.FILES]
        assert sum(part.tokens.values()) == window


def test_a_long_conversation_has_fewer_files():
    """A long conversation has fewer files beside it, and no less room than an empty one."""
    empty, long = divided(200_000), divided(200_000, 80_000)
    assert long.files < empty.files
    assert long.conversation >= empty.conversation


def test_compaction_begins_above_the_room():
    """Half of the room needs no compaction; more than all of it does."""
    room = divided(128_000).compact_above
    assert not divided(128_000, room // 2).should_compact
    assert divided(128_000, room + 1).should_compact


def test_a_small_model_has_a_smaller_conversation():
    """A small model has a smaller conversation."""
    assert divided(32_000).conversation < divided(200_000).conversation


def test_files_never_grow_with_the_conversation():
    """At 0, 20k and 80k, and every 1k to 150k, the files do not grow."""
    files = [divided(200_000, conversation).files for conversation in range(0, 150_001, 1_000)]
    assert files == sorted(files, reverse=True)
    assert files[0] > files[20] > files[80]


def test_a_conversation_larger_than_the_window():
    """A conversation of 100k in 32k makes nothing negative."""
    assert min(divided(32_000, 100_000).tokens.values()) >= 0


def test_every_part_is_positive_at_8k():
    """At 8k nothing is negative."""
    assert min(divided(8_000).tokens.values()) > 0


@pytest.mark.parametrize("window", SIZES)
@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_parts_add_up_to_the_window(window, conversation):
    """The parts add up to the window for every size and every conversation; there is no remainder to add."""
    assert sum(divided(window, conversation).tokens.values()) == window


@pytest.mark.parametrize(
    ("slot", "window", "tokens"),
    [
        (CategorySlot(0.1, 10, 20), 50, 10),
        (CategorySlot(0.1, 10, 20), 150, 15),
        (CategorySlot(0.1, 10, 20), 500, 20),
        (CategorySlot(0.1, 10, 20), 100, 10),
        (CategorySlot(0.1, 10, 20), 200, 20),
        (CategorySlot(0.07), 32_000, 2_240),
        (CategorySlot(0.29), 100, 29),
        (CategorySlot(0, 7), 100, 7),
    ],
)
def test_a_slot_is_a_share_between_floor_and_ceiling(slot, window, tokens):
    """A slot is a share of the window, not below its floor and not above its ceiling."""
    assert slot.tokens(window) == tokens


def test_the_usage_report_names_all_categories():
    """The usage report has the total in its first line, all eleven labels, shares, and at least twelve lines."""
    lines = divided(128_000).usage_report().splitlines()
    assert "128,000" in lines[0]
    assert len(lines) >= 12
    text = "\n".join(lines).lower()
    assert all(label in text for label in ("context budget", *Category, "remaining"))
    assert "%" in text


def test_the_usage_report_says_when_to_compact():
    """It says that a compaction is needed only when one is, and nothing of an empty conversation."""
    assert "COMPACT NEEDED" in divided(128_000, 90_000).usage_report()
    assert "COMPACT NEEDED" not in divided(128_000, 80_000).usage_report()
    assert "Conversation: 80,000 / 89,100 tokens" in divided(128_000, 80_000).usage_report()
    assert "Conversation:" not in divided(128_000).usage_report()


@given(WINDOWS, st.integers(0, 3_000_000))
def test_no_part_is_negative_in_any_window(window, conversation):
    """No part is negative, in any window."""
    part = divided(window, conversation)
    assert min(part.tokens.values()) >= 0
    assert sum(part.tokens.values()) == window


@pytest.mark.parametrize("window", [1, 10, 100, 1_000, 8_000, 14_299])
def test_small_windows_have_room_for_a_conversation(window):
    """Also the smallest window has room for a conversation, so that not any is compacted."""
    part = divided(window, 1)
    assert part.compact_above >= 1
    assert not part.should_compact


@given(WINDOWS, st.integers(20, 100_000))
def test_more_window_is_never_less_room(window, more):
    """More window is never less of it for anybody.

    Twenty tokens more are the least for which that holds: each of eight slots may be rounded up by one.
    """
    small, large = divided(window), divided(window + more)
    assert all(large[category] >= small[category] for category in (*FIXED, *RESERVED, Category.FILES))
    assert large.conversation >= small.conversation
    assert large.compact_above >= small.compact_above


def test_small_windows_keep_proportions():
    """Below 32k the window is divided as at 32k, in proportion, and not by floors that do not fit."""
    half, full = divided(FULL_SIZE // 2), divided(FULL_SIZE)
    assert all(abs(2 * half[category] - full[category]) <= 1 for category in Category)


def test_what_is_above_its_slot_takes_from_others():
    """A system prompt of 12k and tools of 9k are seen: they take from files and conversation."""
    part = divided(200_000, system_prompt=12_000, tool_definitions=9_000)
    assert part[Category.SYSTEM_PROMPT] == 12_000
    assert part.compact_above == divided(200_000).compact_above - 7_000 - 6_000
    assert part.overfull == {Category.SYSTEM_PROMPT: 7_000, Category.TOOL_DEFINITIONS: 6_000}
    assert "System prompt: 7,000 tokens too many" in part.usage_report()


def test_unused_slots_are_lent():
    """What a category does not use is lent to the conversation."""
    part = divided(200_000, repository_map=0, memory=500, files=3_000)
    usual = divided(200_000)
    assert part.conversation == usual.conversation + 4_000 + 1_500 + 27_000
    assert part.compact_above == usual.compact_above + 4_000 + 1_500 + 7_000


def test_what_cannot_fit_is_told():
    """What does not fit whatever is compacted is named, and never makes a part negative."""
    part = divided(32_000, system_prompt=40_000)
    others = 2_000 + 2_000 + 1_000 + 300
    assert part.missing == 40_000 + others - (32_000 - 4_000 - 2_240)
    assert min(part.tokens.values()) >= 0
    assert divided(32_000).missing == 0


def test_the_reserve_is_what_the_model_can_answer():
    """The reserve is what the model can answer, or what the caller says."""
    for model in ("gpt-4o", "claude-sonnet-4-5"):
        budget = CategoryBudget.for_model(model)
        whole = Budget.for_model(model)
        assert (budget.window, budget.divide()[Category.OUTPUT_RESERVE]) == (whole.window, whole.reserved)
    part = CategoryBudget(200_000, output_reserve=64_000).divide()
    assert part[Category.OUTPUT_RESERVE] == 64_000
    assert sum(part.tokens.values()) == 200_000


def test_a_compaction_goes_down_to_half():
    """A compaction goes down to half of the room, so that the next is far away."""
    part = divided(200_000, 141_501)
    assert part.compact_to == 70_750
    whole = CategoryBudget(200_000).whole()
    assert whole.limit == 200_000 - 20_000 - 14_000
    assert whole.target_tokens == whole.limit - (141_500 - 70_750)


def test_few_huge_messages_are_compacted():
    """Twenty messages or fewer are compacted when they are large: only tokens count."""
    turns = [user("task")]
    for number in range(4):
        turns += [assistant(call(f"c{number}", "read", {"n": number})), result(f"c{number}", "some words " * 900)]
    budget = CategoryBudget(8_000)
    view = anyio.run(Pipeline(when(budget.full, TrimRounds(1))).prepare, transcript("openai-chat", *turns))
    assert len(turns) <= 20
    assert len(view.messages) == 3


def test_sizes_are_measured_part_by_part():
    """The sizes of a request are measured, part by part, and add up to its size."""
    made = Call(MessageMeter(TiktokenCounter()))
    tools = (Tool("read", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}}),)
    words = (Message("system", (Text("rules " * 50),)), Message("user", (Text("task " * 20),)))
    context = Context(words, Message("system", (Text("prompt " * 30),)), tools)
    found = measure(context, made)
    assert sum(found.values()) == made.size(context)
    assert found[Category.SYSTEM_PROMPT] > 80
    assert found[Category.TOOL_DEFINITIONS] > 10
    assert found[Category.CONVERSATION] == made.count(words[1])


def test_the_division_is_a_condition_for_a_stage():
    """What the division says is done: a stage runs when the conversation has outgrown its part."""
    budget = CategoryBudget(320)
    messages = transcript("openai-chat", system("s"), user("t"), assistant("a"), user("b"), assistant("c"))
    for tokens, runs in ((20, False), (60, True)):
        made = Call(MessageMeter(FixedCounter(tokens)))
        context = Context(tuple(Message(each["role"], (Text(each["content"]),)) for each in messages))
        assert budget.full(context, made) == runs


@pytest.mark.parametrize(
    "make",
    [
        lambda: CategoryBudget(0),
        lambda: CategoryBudget(1_000, output_reserve=1_000),
        lambda: CategoryBudget(1_000, output_reserve=-1),
        lambda: CategoryBudget(200_000, slots={Category.MEMORY: CategorySlot(0.9)}),
        lambda: CategoryBudget(200_000, slots={Category.CONVERSATION: CategorySlot(0.5)}),
        lambda: CategoryBudget(200_000).divide({"convers": 5}),
        lambda: CategoryBudget(200_000).divide({"memory": -1}),
        lambda: CategoryBudget(200_000).divide({"output reserve": 5}),
        lambda: CategoryBudget(200_000).divide({"memory": 1.5}),
        lambda: CategoryBudget(200_000).divide({"memory": "5"}),
        lambda: CategoryBudget(200_000, slots={Category.MEMORY: 5}),
        lambda: CategoryBudget(200_000, slots={"memories": CategorySlot(0.1)}),
        lambda: CategorySlot("0.1"),
        lambda: CategorySlot(0.1, 5.5),
        lambda: CategorySlot(1.5),
        lambda: CategorySlot(0.1, -1),
        lambda: CategorySlot(0.1, 5, 4),
    ],
)
def test_what_makes_no_sense_is_refused(make):
    """Amounts are checked, and the error names what is wrong."""
    with pytest.raises(ConfigError):
        make()


def test_slots_of_ones_own():
    """A caller's slot takes the place of the usual one."""
    part = CategoryBudget(100_000, slots={Category.MEMORY: CategorySlot(0.2)}, least_files=CategorySlot(0.0)).divide()
    assert part[Category.MEMORY] == 20_000
    assert part.compact_above == part.conversation + part.files
    assert LEAST_FILES.floor > 0
