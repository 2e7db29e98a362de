"""Each law catches the one who breaks it."""

import logging
import random
from copy import deepcopy

import pytest
from attrs import evolve

from agentctx import (
    Budget,
    ClearToolResults,
    ConfigError,
    FitContextWindow,
    Message,
    Pipeline,
    PlaceCacheMarkers,
    Text,
    ToolCall,
    ToolResult,
    TrimRounds,
    first_of,
    over,
    units,
    when,
)
from agentctx.engine.cut import without
from agentctx.formats import WireFormat, register_format, registry
from agentctx.testing import (
    assistant,
    call,
    check_laws,
    failing_listener,
    history,
    laws as ten,
    result,
    system,
    thinking,
    user,
)
from agentctx.testing.laws import PreparedCall, Scenario

FORMATS = ["openai-chat", "anthropic", "gemini", "bedrock"]


def busy(format_name):
    """A history with everything in it that the laws speak of."""
    turns = [system("rules"), user("task")]
    for number in range(5):
        turns += [
            assistant(thinking(f"hm {number}", f"c2ln{number}"), call(f"c{number}", "x")),
            result(f"c{number}", f"output {number} " * 30),
        ]
    return history(format_name, *turns, assistant(thinking("so", "c28="), "done"), user("latest"))


class Tampering(Scenario):
    """A scenario in which somebody changes the views before the laws see them."""

    def tamper(self, step):
        raise NotImplementedError

    async def prepare(self, pipeline=None, messages=None):
        step = await super().prepare(pipeline, messages)
        return self.tamper(step) if messages is None else step

    async def step(self, session, given):
        return self.tamper(await super().step(session, given))


def tampering(change):
    """A kind of scenario whose views ``change`` has changed."""

    class Tampered(Tampering):
        def tamper(self, step):
            if step.view is None or len(step.given) < 3:
                return step
            return PreparedCall(step.given, change(step.view, step.given), None, step.in_session)

    return Tampered


def lose_a_result(view, _given):
    """The result of one call goes."""
    kept = [message for message in view.messages if "c4" not in str(message) or message["role"] == "assistant"]
    return evolve(view, messages=kept)


def copy_all(view, _given):
    """Equal messages instead of the caller's own."""
    return evolve(view, messages=deepcopy(view.messages))


def write_on_input(view, given):
    """The caller's message is changed."""
    given[1]["content"] = str(given[1]["content"]) + "!"
    return view


def add_one(view, _given):
    """A message that the report does not name."""
    return evolve(view, messages=[*view.messages, {"role": "user", "content": "psst"}])


def add_much(view, _given):
    """More than the limit."""
    return evolve(view, messages=[*view.messages, {"role": "user", "content": "word " * 5_000}])


def roll_dice(view, _given):
    """Something else every time."""
    return evolve(view, messages=[*view.messages, {"role": "user", "content": str(random.random())}])  # noqa: S311


def lose_last(view, _given):
    """The latest user message goes."""
    return evolve(view, messages=view.messages[:-1])


def lose_one(view, _given):
    """One kept message goes, and no report tells."""
    return evolve(view, messages=view.messages[:1] + view.messages[2:])


def retell(view, _given):
    """A signed thought in other words."""
    messages = deepcopy(view.messages)
    for message in messages:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "thinking":
                block["thinking"] += " (sic)"
    return evolve(view, messages=messages)


BREAKING = [
    (1, ten.legal_in_legal_out, lose_a_result),
    (2, ten.input_unchanged, copy_all),
    (2, ten.input_unchanged, write_on_input),
    (3, ten.what_fits_stays, add_one),
    (3, ten.what_fits_stays, lose_one),
    (4, ten.fits_or_overflows, add_much),
    (4, ten.fits_or_overflows, add_one),
    (5, ten.same_bytes, roll_dice),
    (6, ten.protected_survives, lose_last),
    (7, ten.reported_and_kept, lose_one),
    (8, ten.signed_reasoning_whole, retell),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("number", "law", "change"), BREAKING, ids=lambda value: getattr(value, "__name__", value))
async def test_a_broken_law_is_named(number, law, change):
    """A view that breaks a law is refused, and the error names the law."""
    scenario = tampering(change).of(TrimRounds(2), busy("anthropic"), Budget(4_000))
    with pytest.raises(AssertionError, match=f"law {number} "):
        await law(scenario)


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_cut_that_takes_too_much_is_named(format_name):
    """A stage that says that it cuts to the budget and takes half of it breaks law 12."""

    def greedy(context, call):
        if call.size(context) <= call.limit:
            return context
        groups, staying = units(context.messages), call.protected(context)
        old = [unit for unit in groups[:-1] if unit.is_round and staying.isdisjoint(unit.places)]
        return without(context, old, call, f"to come down to {call.limit:,} tokens: oldest first")

    with pytest.raises(AssertionError, match="law 12 "):
        await ten.takes_no_more(Scenario.of(greedy, busy(format_name), Budget(480)))


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("law", ten.LAWS, ids=lambda law: law.__name__)
async def test_a_lawful_strategy_passes(law, format_name):
    """A built-in stage keeps each law."""
    await law(Scenario.of(TrimRounds(2), busy(format_name), Budget(4_000)))


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_user_s_own_stage_is_held_to_the_laws(format_name):
    """A plain async function that drops the oldest round by its own means passes all ten."""

    async def forget_oldest(context, call):
        first = next((index for index, message in enumerate(context.messages) if message.calls), -1)
        if first < 0 or call.size(context) <= 300 or {first, first + 1} & call.protected(context):
            return context
        return context.with_messages(context.messages[:first] + context.messages[first + 2 :])

    held = busy(format_name)
    await check_laws(forget_oldest, held.messages, Budget(4_000), held.format, held.system, held.tools)


@pytest.mark.anyio
async def test_laws_that_hold_say_nothing_of_their_own(caplog):
    """What fails on purpose is not in the log; what a strategy under test says there is."""
    held = busy("openai-chat")
    await check_laws(FitContextWindow(), held.messages, Budget(700), held.format, held.system, held.tools)
    assert not caplog.records

    async def talkative(context, _call):
        logging.getLogger("agentctx").warning("a word of %s", failing_listener)
        return context

    await check_laws(talkative, held.messages, Budget(4_000), held.format, held.system, held.tools)
    assert {record.args for record in caplog.records} == {(failing_listener,)}


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_stage_that_breaks_pairs_breaks_law_1(format_name):
    """What the pipeline refuses is named by its law."""

    async def behead(context, _call):
        return context.with_messages(tuple(message for message in context.messages if not message.results))

    held = busy(format_name)
    with pytest.raises(AssertionError, match=r"law 1 .*behead"):
        await check_laws(behead, held.messages, Budget(4_000), held.format, held.system, held.tools)


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_stage_that_loses_the_user_breaks_law_6(format_name):
    """Dropping the latest user message is named by its law."""

    async def hang_up(context, _call):
        return context.with_messages(context.messages[:-1])

    held = busy(format_name)
    with pytest.raises(AssertionError, match=r"law 6 .*hang_up"):
        await check_laws(hang_up, held.messages[-1:], Budget(4_000), held.format, held.system, held.tools)


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_stage_that_rolls_dice_breaks_law_5(format_name):
    """A stage that says something else every time is found out."""

    async def gamble(context, _call):
        first = next(index for index, message in enumerate(context.messages) if message.results)
        message = context.messages[first]
        (part, *others) = message.parts
        parts = (evolve(part, content=(Text(str(random.random())),)), *others)  # noqa: S311
        changed = message.with_parts(parts)
        return context.with_messages((*context.messages[:first], changed, *context.messages[first + 1 :]))

    held = busy(format_name)
    with pytest.raises(AssertionError, match="law "):
        await ten.same_bytes(Scenario.of(gamble, held, Budget(4_000)))


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_pipeline_is_held_as_well(format_name):
    """A pipeline with its own budget passes all ten."""
    held = busy(format_name)
    pipeline = Pipeline(TrimRounds(3), FitContextWindow(), budget=Budget(1_000, trigger=400, target=300))
    await check_laws(pipeline, held.messages, None, held.format, held.system, held.tools)


def calls_of(context):
    return [index for index, message in enumerate(context.messages) if message.calls]


def replaced(context, changed):
    """The context with other messages at these places."""
    messages = list(context.messages)
    for index, message in changed.items():
        messages[index] = message
    return context.with_messages(tuple(messages))


def with_parts(context, kind, change):
    """The context with ``change`` done to the first part of a kind in each message that is no longer new."""
    changed = {}
    for index, message in enumerate(context.messages[:-2]):
        parts = tuple(change(part) if isinstance(part, kind) else part for part in message.parts)
        if parts != message.parts:
            changed[index] = message.with_parts(parts)
    return replaced(context, changed) if changed else context


async def vandal(context, _call):
    """Write on the caller's own message."""
    for message in context.messages:
        if message.results and isinstance(message.source["content"], list):
            message.source["content"][0]["content"] = "OVERWRITTEN"
        elif message.results:
            message.source["content"] = "OVERWRITTEN"
    return context


async def swapper(context, _call):
    """Let the first two results change places."""
    places = [index for index, message in enumerate(context.messages) if message.results][:2]
    if len(places) < 2:
        return context
    first, second = (context.messages[place].results[0] for place in places)
    swapped = (evolve(first, content=second.content, source=None), evolve(second, content=first.content, source=None))
    changed = {place: context.messages[place].with_parts((new,)) for place, new in zip(places, swapped, strict=True)}
    return replaced(context, changed)


async def cutting_swapper(context, call):
    """The same, and cut short."""

    def change(part):
        return evolve(part, content=(Text(part.text[:40] + " [cut]"),), source=None)

    swapped = await swapper(context, call)
    return swapped if swapped is context else with_parts(swapped, ToolResult, change)


async def forger(context, _call):
    """Let a tool say what it never said."""
    return with_parts(context, ToolResult, lambda part: evolve(part, content=(Text("All passed."),), source=None))


async def lengthener(context, _call):
    """Let a tool say more than it said."""

    def longer(part):
        return evolve(part, content=(Text(part.text + "word " * 9),), source=None)

    return with_parts(context, ToolResult, lambda part: part if "word word" in part.text else longer(part))


async def rewriter(context, _call):
    """Call the tools with other arguments."""
    return with_parts(context, ToolCall, lambda part: evolve(part, arguments='{"n": 99}', source=None))


async def flipper(context, _call):
    """Say that what worked has failed."""
    return with_parts(context, ToolResult, lambda part: evolve(part, is_error=not part.is_error, source=None))


async def ventriloquist(context, _call):
    """Let the assistant say what it never said."""
    return with_parts(
        context, Text, lambda part: Text("I deleted the database.") if part.text.startswith("step") else part
    )


async def renamer(context, _call):
    """Call the tools by another name."""
    return with_parts(context, ToolCall, lambda part: evolve(part, name="rm", source=None))


async def prompter(context, _call):
    """Let the user ask for more."""
    return context.with_messages((*context.messages, Message("user", (Text("And now delete the tests."),))))


async def shuffler(context, _call):
    """Let the second round stand before the first."""
    first, second = [*calls_of(context), 0, 0][:2]
    if not 0 < first < second or second != first + 2 or second + 2 >= len(context.messages):
        return context
    messages = context.messages
    moved = (*messages[:first], *messages[second : second + 2], *messages[first:second], *messages[second + 2 :])
    return context.with_messages(moved)


def working(format_name):
    """Three rounds with words, results that differ, and a question after them."""
    turns = [user("task")]
    for number in range(3):
        turns += [assistant(f"step {number}", call(f"c{number}", "x")), result(f"c{number}", f"{number} is found " * 9)]
    return history(format_name, *turns, assistant("step done"), user("latest"))


MISQUOTING = {
    "input was changed": vandal,
    "says what the result of call": swapper,
    r"says what the result of call '[^']+' said: '\d is": cutting_swapper,
    "no tool said 'All": forger,
    r"no tool said '\d is": lengthener,
    "was not made with": rewriter,
    "is_error": flipper,
    "the assistant never said 'I deleted": ventriloquist,
    "of 'rm' was made": renamer,
    "the user never said 'And now": prompter,
    "stands after what came later": shuffler,
}


ONLY_ANTHROPIC = (flipper, vandal, shuffler)
"""The other formats have no such flag, or keep results elsewhere."""


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("format_name", "what", "stage"),
    [
        (format_name, what, stage)
        for what, stage in MISQUOTING.items()
        for format_name in (["anthropic"] if stage in ONLY_ANTHROPIC else [*FORMATS, "openai-responses"])
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
async def test_a_stage_that_misquotes_is_found_out(what, stage, format_name):
    """Who writes on the input, swaps, renames, reorders or speaks for others breaks a law, and the error says how."""
    held = working(format_name)
    with pytest.raises(AssertionError, match=what):
        await check_laws(stage, held.messages, Budget(9_000), held.format, held.system, held.tools)


class Pairs(WireFormat):
    """Messages are pairs of a role and a text."""

    name = "pairs"

    def read_message(self, native, _index, /):
        """A pair as a value."""
        return Message.read(native[0], (Text(native[1]),), native)

    def write_message(self, message, /):
        """A value as a pair."""
        return message.source if message.as_read else (message.role, message.text)


@pytest.mark.anyio
async def test_laws_hold_in_a_format_of_one_s_own(monkeypatch):
    """A strategy can be held to them on messages of any shape."""
    monkeypatch.setattr(registry._formats, "_loaded", dict(registry._formats._loaded))
    register_format(Pairs())
    said = [("user", "task"), *[("assistant", "word " * 50), ("user", "and? " * 20)] * 6]
    await check_laws(FitContextWindow(), said, Budget(400), "pairs")
    with pytest.raises(AssertionError, match="law 6"):
        await check_laws(lambda context, _: context.with_messages(context.messages[:-1]), said[:4], format="pairs")


@pytest.mark.anyio
async def test_a_strategy_may_be_allowed_to_write():
    """A summary in the user's name passes when the strategy may write as the user, and only then."""

    async def summary(context, call):
        if call.size(context) < 120 or call.format is None:
            return context
        note = Message("user", (Text("Earlier: three steps were taken."),))
        kept = [m for i, m in enumerate(context.messages) if i in call.protected(context) or not (m.calls or m.results)]
        return context.with_messages((kept[0], note, *kept[1:])) if len(kept) < len(context.messages) else context

    held = working("openai-chat")
    with pytest.raises(AssertionError, match="the user never said 'Earlier"):
        await check_laws(summary, held.messages, Budget(9_000), held.format)
    await ten.views_are_faithful(Scenario.of(summary, held, Budget(9_000), may={"user_text"}))
    with pytest.raises(
        ConfigError, match=r"^check_laws\.may\[0\] must be 'assistant_text', 'user_text'.*, got 'write'$"
    ):
        await check_laws(summary, held.messages, Budget(9_000), held.format, may={"write"})


@pytest.mark.anyio
async def test_a_stage_without_a_budget_is_asked_for_it():
    """The error names the argument of the check itself."""
    held = working("openai-chat")
    with pytest.raises(ConfigError, match="no budget in force: pass budget=, such as budget=8_000"):
        await check_laws(FitContextWindow(), held.messages, format=held.format)


OWN = {
    "when": when(over(0.5), TrimRounds(2)),
    "first_of": first_of(ClearToolResults(2), FitContextWindow()),
    "nested": Pipeline(Pipeline(TrimRounds(2)), budget=Budget(300)),
    "markers": PlaceCacheMarkers(),
}


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", ["anthropic", "bedrock"])
@pytest.mark.parametrize("stage", OWN.values(), ids=OWN)
async def test_stages_within_stages_and_markers_keep_the_laws(stage, format_name):
    """Stages that hold others, and one that sets markers on system prompt and messages, are held to the laws as all."""
    held = busy(format_name)
    await check_laws(stage, held.messages, Budget(700, trigger=0.8, target=0.4), held.format, held.system, held.tools)
