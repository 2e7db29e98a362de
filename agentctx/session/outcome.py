"""What comes out of a step: the view, and the report on it."""

from __future__ import annotations

from attrs import frozen

from agentctx.core.change_log import ChangesInForce
from agentctx.core.message import Native
from agentctx.core.report import Report, View
from agentctx.engine.plan import relief, since
from agentctx.engine.reasoning import options_of
from agentctx.session.cost import bill
from agentctx.session.step import Step


@frozen
class Prefix:
    """How a request begins, compared to the one before.

    Args:
        first_changed: The first message that is not as it was; None when all that was sent is still there.
        tokens: Tokens at the start that the request before had too.
        sent: Tokens of the request before.
    """

    first_changed: int | None
    tokens: int
    sent: int


def report_on(step: Step, in_force: ChangesInForce, prefix: Prefix, started: float) -> Report:
    """The report on a step.

    Args:
        step: The step, committed.
        in_force: The changes in force.
        prefix: How the request begins.
        started: When the step began, by the clock of ``plan.since``.
    """
    record, around = step.record, step.around
    tail = sum(map(around.source.meter.weight, record.view[record.settled :]))
    budget, reports = around.budget, step.trail.reports
    began = reports[0].tokens_before if reports else step.tokens
    taken_off = relief(around.given, around.context(()), around.bare_call, began)
    return Report(
        stages=(*taken_off, *reports),
        in_force=in_force,
        messages_before=len(record),
        messages_after=len(record.view),
        tokens_before=sum(stage.tokens_before - began for stage in taken_off) + around.fixed + record.given_tokens,
        tokens_after=step.tokens,
        bytes_before=around.fixed_bytes + record.given_bytes,
        bytes_after=around.fixed_bytes + record.view_bytes + tail,
        limit=None if budget is None else budget.limit,
        first_changed=prefix.first_changed,
        prefix_tokens=prefix.tokens,
        rebilled_tokens=max(0, prefix.sent - prefix.tokens),
        seconds=since(started),
        forecast=bill(
            around.source.profile,
            sent=prefix.sent,
            given=began,
            prefix=prefix.tokens,
            size=step.tokens,
            warmth=step.warmth,
        ),
    )


def view_of_step(step: Step, system: Native, tools: Native, report: Report) -> View:
    """The view that a step made.

    Args:
        step: The step, committed.
        system: The system prompt as the caller passed it; handed back when no stage touched it.
        tools: The tools, likewise.
        report: The report on the step.
    """
    record, chosen, around = step.record, step.trail.context, step.around
    if chosen.tools is not around.given.tools:
        tools = [tool.source for tool in chosen.tools]
    if chosen.system is not around.given.system:
        system = None if chosen.system is None else around.source.wire.write_system(chosen.system)
    return View(
        list(record.out), system, tools, report, around.context(record.view), options_of(step.trail, around.bare_call)
    )
