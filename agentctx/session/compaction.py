"""How a step comes to its size: as it is, where it fits; else compacted, once, enough, and never in circles.

``bring_to_size`` is called at every step; in most nothing is compacted. In this order:

1. without a budget the stages for pressure run at every step; below the trigger, and where
   reasoning of the open round makes a compaction wait, those of every step do
2. else the stages for pressure run (``_come_down_to_target``), and what freed little is taken back
3. with any of these the fit is guaranteed (``_run_and_guarantee``); only what is new is looked at where nothing has to
   be done
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain

from attrs import evolve

from agentctx.budget import Budget
from agentctx.engine.cache_markers import LiftCacheMarkers, allowed, carries_refused, find_marked
from agentctx.engine.cut import lay_out
from agentctx.engine.guarantee import guarantee, lacks_end
from agentctx.engine.recap import reserved
from agentctx.engine.run_stages import run_stage
from agentctx.message import Context
from agentctx.offload import offload
from agentctx.protocols import ContextStrategy, declared
from agentctx.reports import StageReport
from agentctx.session.step_context import Step
from agentctx.unit import is_user_turn, signed
from agentctx.wire_format import head_markers

TAKEN_BACK_ABOVE = 0.9
"""A compaction that leaves more than this share of the context is taken back: it would break the cache for little."""


GROWTH = 1.1
"""After a compaction that did not get far enough the context must grow by this factor before the next try."""


async def bring_to_size(step: Step) -> None:
    """Run the stages whose time it is on the whole context, compact it under pressure, and make sure that it fits.

    Raises:
        ContextOverflow: If it cannot be made to fit.
    """
    if not step.remembered:
        await run_at_once(step)
        return
    plan, budget, size = step.ctx.plan, step.ctx.budget, step.trail.tokens
    at_target = budget is not None and size <= budget.target_tokens  # the caller itself may have come down to it
    step.quiet_until = 0 if at_target else step.record.quiet_until
    if budget is None:
        await _run_unless_it_must_wait(step, plan.under_pressure, None)
    elif size <= budget.limit and (size <= budget.trigger_tokens or size <= step.quiet_until):
        await _run_unless_it_must_wait(step, step.ctx.at_every_step, budget.limit)
    elif size <= budget.limit and waits(step):
        _say_that_it_waits(step)
        await _run_unless_it_must_wait(step, step.ctx.at_every_step, budget.limit)
    else:
        await _come_down_to_target(step, budget)


async def run_at_once(step: Step) -> None:
    """Run all stages on the whole history, as a call without a session does, and make sure that the request fits.

    Raises:
        ContextOverflow: If it cannot be made to fit.
    """
    await _run_and_guarantee(step, step.ctx.plan.at_once, step.ctx.limit)


async def _come_down_to_target(step: Step, budget: Budget) -> None:
    """Come down to the target; take it back when that freed next to nothing and the request fits anyway."""
    arrived, size, plan = step.trail.copy(), step.trail.tokens, step.ctx.plan
    step.widen()
    context, call = step.trail.context, step.call()
    aim = await offload(lambda: budget.target_above(call.floor(context)), len(context.messages))
    await _run_unless_it_must_wait(step, plan.under_pressure, aim)
    if step.trail.tokens > size * TAKEN_BACK_ABOVE and size <= budget.limit:
        said = [report for report in step.trail.reports[len(arrived.reports) :] if report.notes and not report.changes]
        step.trail.restore(arrived)
        step.trail.reports += said
        await _run_unless_it_must_wait(step, step.ctx.at_every_step, budget.limit)
    stuck = step.trail.tokens > budget.trigger_tokens
    step.quiet_until = int(step.trail.tokens * GROWTH) if stuck else 0
    if stuck and not step.record.quiet_until:
        step.trail.reports.append(_floor_report(step, budget))


async def _run_unless_it_must_wait(step: Step, stages: Sequence[ContextStrategy], aim: int | None) -> None:
    """Run stages and the guarantee; without the stages where the reasoning of the open round asks to wait for it."""
    budget = step.ctx.budget
    fits = budget is not None and step.trail.tokens <= budget.limit  # without a limit it would wait for ever
    arrived = step.trail.copy() if stages and fits else None
    await _run_and_guarantee(step, stages, aim)
    if arrived is None or not step.trail.lost_open:
        return
    done = step.trail.copy()
    step.trail.restore(arrived)
    if waits(step):  # asked only now, since it may have to look far back
        _say_that_it_waits(step)
        await _run_and_guarantee(step, (), aim)
    else:
        step.trail.restore(done)


async def _run_and_guarantee(step: Step, stages: Sequence[ContextStrategy], aim: int | None) -> None:
    """Run stages on the whole view and guarantee the fit; only look at what is new where neither has anything to do."""
    budget = step.ctx.budget
    stages = step.ctx.concerned(stages) if stages else ()
    foreign = False
    if step.marked_for != step.ctx.model:  # the view may carry cache markers that this model does not take
        view, reader = step.record.view[: step.trail.start], step.ctx.reader
        foreign = await offload(lambda: carries_refused(view, reader.wire, reader.profile), len(view))
    if await _needs_whole_view(step, stages, foreign=foreign):
        step.widen()
    elif not step.trail.reports:
        return  # nothing new was touched, and `_needs_whole_view` has seen that it fits
    if foreign:
        await run_stage(LiftCacheMarkers(), step.trail, step.call(aim), by="fit", trusted=True)
    sees_all = step.trail.start == 0
    before = step.trail.copy() if sees_all else step.trail
    call = evolve(step.call(aim), late=step.late, given=partial(before.after, -1))
    if sees_all:
        left_out = partial(step.left_out, before.reports)
        call = evolve(call, known=(before.context, before.tokens), start=before.context, left_out=left_out)
    telling = () if budget is None else step.ctx.concerned(step.ctx.plan.telling)
    recaps = telling or any(declared(stage).recaps for stage in stages)
    if recaps and (aim is None or step.trail.tokens > aim):  # else nothing is cut down to it
        call = evolve(call, reserved=await reserved(stages, call))
    for stage in stages:
        await run_stage(stage, step.trail, call)
    untold = tuple(stage for stage in telling if step.ctx.plan.tells(stage, step.trail.told))
    view = step.record.view[: step.record.final] if step.trail.start == 0 else []
    system, tools = step.reasoning_made_with or (step.trail.context.system, step.ctx.tools)
    reasoned_on = Context((*view, *step.read.messages), system, tools)
    await guarantee(step.trail, call, budget, reasoned_on, step.last_role, step.ctx.most, untold)


async def _needs_whole_view(step: Step, stages: Sequence[ContextStrategy], *, foreign: bool) -> bool:
    """Whether the whole view has to be seen: a stage runs, or what is new does not fit, or may not stand, as it is."""
    if stages or foreign:  # what runs may change anything
        return True
    budget = step.ctx.budget
    if budget is not None and (budget.request_bytes is not None or budget.media.images is not None):
        return True  # these are limits of the whole request
    if budget is not None and step.trail.tokens > budget.limit:
        return True
    call, trail, view = step.ctx.bare_call, step.trail, step.record.view
    if step.reasoning_made_with is not None or trail.unbound_from is not None:
        return True  # where reasoning lost its prefix is a place of the whole view
    if step.ctx.reader.wire.minds_the_end:
        last = trail.context.messages[-1:] or view[trail.start - 1 : trail.start]
        if any(lacks_end(message, step.last_role, call) for message in last):
            return True  # the last of the history's messages stands further up
    return await offload(partial(_is_misplaced, step), len(step.read.messages))


def _is_misplaced(step: Step) -> bool:
    """Whether what is new, or a cache marker of it, may not stand where it does."""
    return _marks_too_much(step) or _stands_wrong(step)


def _marks_too_much(step: Step) -> bool:
    """Whether cache markers that are new are more than the provider takes beside those that are there."""
    ctx, start = step.ctx, step.trail.start
    markers = ctx.reader.wire.cache_markers
    if markers is None:
        return False
    new = step.marked
    if new is None:  # what repair took may have to move
        new = find_marked(step.read.messages if step.trail.reports else step.trail.context.messages, markers)
    if not new:
        return False
    earlier = find_marked(step.record.view[:start], markers)
    known = earlier | {start + place: found for place, found in new.items()}
    return not allowed(head_markers(ctx.context(()), markers), known, markers)


def _stands_wrong(step: Step) -> bool:
    """Whether new messages, or system messages before them, may not stand where they are for the model."""
    ctx, view, place = step.ctx, step.record.view, step.trail.start
    wire, new = ctx.reader.wire, step.trail.context.messages
    if not new:
        return False
    while place and view[place - 1].role == "system":
        place -= 1
    known = (*view[place : step.trail.start], *new)
    standing_before = view[place - 1] if place else None
    return wire.arrange_for(known, ctx.reader.profile, lambda _message, _why: None, standing_before) is not known


def waits(step: Step) -> bool:
    """Whether an edit has to wait: the open tool round holds reasoning that it would part from its prefix."""
    call, record = step.ctx.bare_call, step.record
    bound = call.profile is not None and call.profile.bound_thinking
    if call.thinking != "postpone" or not bound or step.reasoning_made_with is not None:
        return False
    for message in chain(reversed(step.trail.context.messages), reversed(record.view[: step.trail.start])):
        if is_user_turn(message):
            return False
        if signed(message):
            return True
    return False


def _say_that_it_waits(step: Step) -> None:
    """Say it once: the steps until the end of the round wait for the same reason."""
    if not step.record.waiting:
        note = "postponed to the end of the open tool round, whose reasoning is bound to what stands before it"
        step.trail.reports.append(StageReport("Session", (), step.trail.tokens, step.trail.tokens, 0.0, (note,)))
    step.waiting = True


def _floor_report(step: Step, budget: Budget) -> StageReport:
    """Says once, with the arithmetic, why the session cannot get below its trigger; widens the step to see it."""
    step.widen()
    layout = lay_out(step.trail.context, step.call())
    head = step.ctx.head_tokens
    note = (
        f"the context stays above the trigger of {budget.trigger_tokens:,} tokens: {step.trail.tokens:,} = "
        f"{head:,} system and tools + {layout.floor - head:,} protected messages and open round + "
        f"{step.trail.tokens - layout.floor:,} that the stages left in; next try above {step.quiet_until:,}"
    )
    return StageReport("Session", (), step.trail.tokens, step.trail.tokens, 0.0, (note,))
