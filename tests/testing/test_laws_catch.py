"""Each law catches the one who breaks it."""

import random
from copy import deepcopy

import pytest
from attrs import evolve

from agentctx import Budget, FitContextWindow, Pipeline, Text, TrimRounds
from agentctx.testing import assistant, call, check_laws, history, result, system, thinking, user
from agentctx.testing import laws as ten
from agentctx.testing.trial import Step, Trial

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


class Tampering(Trial):
    """A trial in which somebody changes the views before the laws see them."""

    def tamper(self, step):
        raise NotImplementedError

    async def prepare(self, pipeline=None, messages=None):
        step = await super().prepare(pipeline, messages)
        return self.tamper(step) if messages is None else step

    async def step(self, session, given):
        return self.tamper(await super().step(session, given))


def tampering(change):
    """A kind of trial whose views ``change`` has changed."""

    class Tampered(Tampering):
        def tamper(self, step):
            if step.view is None or len(step.given) < 3:
                return step
            return Step(step.given, change(step.view, step.given), None, step.in_session)

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
    trial = tampering(change).of(TrimRounds(2), busy("anthropic"), Budget(4_000))
    with pytest.raises(AssertionError, match=f"law {number} "):
        await law(trial)


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("law", ten.LAWS, ids=lambda law: law.__name__)
async def test_a_lawful_strategy_passes(law, format_name):
    """A built-in stage keeps each law."""
    await law(Trial.of(TrimRounds(2), busy(format_name), Budget(4_000)))


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
        await ten.same_bytes(Trial.of(gamble, held, Budget(4_000)))


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_pipeline_is_held_as_well(format_name):
    """A pipeline with its own budget passes all ten."""
    held = busy(format_name)
    pipeline = Pipeline(TrimRounds(3), FitContextWindow(), budget=Budget(1_000, trigger=400, target=300))
    await check_laws(pipeline, held.messages, None, held.format, held.system, held.tools)
