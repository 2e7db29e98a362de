"""What is left out of a report, or said wrongly in it, is found."""

import pytest
from attrs import evolve

from agentctx import Change, ClearToolResults, Context, Outcome, Pipeline, TrimRounds
from agentctx.changes import ChangesInForce
from agentctx.engine.reading import reader
from agentctx.engine.run_stages import UNSAID
from agentctx.stores import MemoryStore
from agentctx.testing import assistant, call, result, transcript, user
from agentctx.testing.assertions import PassedIn, report_errors

pytestmark = pytest.mark.anyio


async def prepared():
    """A view with a round left out, a result cut and a result put in; and what is found wrong with its report."""
    turns = [user("task")]
    for place in range(4):
        turns += [assistant(call(f"c{place}", "read")), result(f"c{place}", f"line {place} " * 50)]
    turns += [assistant(call("lost", "read")), user("go")]
    messages = transcript("openai-chat", *turns)
    stages = (TrimRounds(3), ClearToolResults(keep_last=1))
    view = await Pipeline(*stages, store=MemoryStore()).prepare(messages, format="openai-chat")
    source = reader(messages, format="openai-chat")
    before = Context(tuple(source.messages(messages)), *source.head(None, None))

    def wrong(**other):
        lines = other.pop("lines", None)
        if lines is not None:
            other["in_force"] = ChangesInForce(tuple(lines))
        report = evolve(view.report, **other)
        return list(report_errors(PassedIn(messages), before, evolve(view, report=report), source.meter))

    return view, wrong


async def test_a_whole_report_accounts_for_everything():
    """Nothing is found where everything is said."""
    view, wrong = await prepared()
    assert [] == wrong() == wrong(lines=view.report.in_force)
    outcomes = {change.outcome for change in view.report.in_force}
    assert outcomes == {Outcome.DROPPED, Outcome.EDITED, Outcome.ADDED}


async def test_a_line_that_is_missing_is_found():
    """Each line of a report is needed."""
    view, wrong = await prepared()
    lines = view.report.in_force
    for line in lines:
        assert wrong(lines=[each for each in lines if each is not line])


@pytest.mark.parametrize("field", ["stage", "reason", "role"])
async def test_a_line_without_stage_reason_or_role_is_found(field):
    """Each line says who did it, why, and to whose message."""
    view, wrong = await prepared()
    first, *others = view.report.in_force
    assert wrong(lines=[evolve(first, **{field: ""}), *others])


@pytest.mark.parametrize("said", [{"reason": UNSAID}, {"stage": "ClearToolResults"}])
async def test_an_added_line_of_another_stage_or_without_its_reason_is_found(said):
    """What repair has put in is named as that, with its reason."""
    view, wrong = await prepared()
    made = next(line for line in view.report.in_force if line.outcome is Outcome.ADDED)
    assert wrong(lines=[evolve(each, **said) if each is made else each for each in view.report.in_force])


@pytest.mark.parametrize("field", ["tokens_before", "tokens_after"])
async def test_a_line_with_another_size_is_found(field):
    """The sizes of every line add up to what is sent."""
    view, wrong = await prepared()
    lines = view.report.in_force
    for line in lines:
        more = {field: getattr(line, field) + 1}
        assert wrong(lines=[evolve(each, **more) if each is line else each for each in lines])


async def test_a_line_too_many_is_found():
    """A message that is sent as it came is not named as touched."""
    view, wrong = await prepared()
    kept = Change(0, "user", Outcome.EDITED, "Stage", "why", 5, 5)
    assert wrong(lines=[*view.report.in_force, kept])


@pytest.mark.parametrize("field", ["messages_before", "messages_after", "tokens_before", "tokens_after"])
async def test_a_wrong_total_is_found(field):
    """The totals of a report are counted."""
    view, wrong = await prepared()
    assert wrong(**{field: getattr(view.report, field) + 1})


async def test_stages_that_do_not_follow_each_other_are_found():
    """Each stage begins where the one before it ended."""
    view, wrong = await prepared()
    first, *others = view.report.stages
    assert wrong(stages=(evolve(first, tokens_after=first.tokens_after + 1), *others))


async def test_a_copy_of_what_was_passed_in_is_found():
    """What is sent as it came is the caller's own object."""
    messages = transcript("openai-chat", user("task"), assistant("yes"), user("go on"))
    view = await Pipeline().prepare(messages, format="openai-chat")
    source = reader(messages, format="openai-chat")
    before = Context(tuple(source.messages(messages)))
    copied = evolve(view, messages=[messages[0], {**messages[1]}, messages[2]])
    wrong = list(report_errors(PassedIn(messages), before, copied, source.meter))
    assert "messages[1] is sent as it came, and as a copy" in wrong
