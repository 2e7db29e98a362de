"""What every request is brought to at the end: it fits, its reasoning is taken, and messages stand where they may.

``guarantee`` runs behind the stages. ``let_answers_follow`` puts the words to the entry that ``guarantee`` had put to
the end of a request before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise, takewhile

from attrs import evolve

from agentctx.core.budget import Budget
from agentctx.core.message import Context, Message, Text
from agentctx.core.protection import GO_ON
from agentctx.core.report import StageReport
from agentctx.core.units import open_at_end
from agentctx.engine.cache_markers import KeepCacheMarkers, LimitCacheMarkers
from agentctx.engine.fit import FitGuarantee, FitRequestBytes, LimitImages, RecapCounts, RecapGivesWay, body_bytes
from agentctx.engine.reasoning import settle_reasoning
from agentctx.engine.recap import reserved
from agentctx.engine.repair import REPAIR, arranged_by
from agentctx.engine.run_stages import Trail, run_stage
from agentctx.errors import ContextOverflow, InvalidInput
from agentctx.protocols import Call, ContextStrategy


def refuse_empty(trail: Trail) -> None:
    """Refuse a request of which repair, and the rules of reasoning, left nothing to send.

    Raises:
        InvalidInput: If it left nothing.
    """
    if not trail.context.messages:
        where = "messages"
        what = "every message was empty, a tool result without a call, or reasoning that the provider would refuse"
        raise InvalidInput(where, f"nothing is left to send: {what}")


async def guarantee(
    trail: Trail,
    call: Call,
    budget: Budget | None,
    before: Context,
    last: str,
    most: int | None = None,
    telling: Sequence[ContextStrategy] = (),
) -> None:
    """Make sure that the request fits the budget, that its reasoning is taken, and that it may end as it does.

    Args:
        trail: Where the step stands; brought up to date.
        call: What the stages are told.
        budget: The budget in force.
        before: The request as it was when the model's reasoning was made.
        last: The role of the last message that was passed in.
        most: The tokens above which it is refused, where the budget is only aimed at; see ``Plan.refuses_above``.
        telling: The stages that tell in the recap what was left out, as far as there is room for it.

    Raises:
        ContextOverflow: If it cannot be made to fit.
        InvalidInput: If nothing is left to send.
    """
    call = evolve(call, growth=False)
    await _arrange(trail, call)
    acted = not all(report.marks_only for report in trail.reports)  # markers alone leave nothing out
    if acted and call.start is not None and trail.context is not call.start:
        await run_stage(RecapCounts(), trail, call)
    if budget is not None:
        if budget.media.images is not None:
            await run_stage(LimitImages(budget.media.images), trail, call)
        await _fit_or_say(trail, call, budget.limit, last, most, telling)
        if budget.request_bytes is not None:
            room = budget.request_bytes - (call.meter.weight(_GO_ON_MESSAGE) if _lacks_end(trail, call, last) else 0)
            await run_stage(FitRequestBytes(room, trail.origins), trail, call)
    await _arrange(trail, call)  # which costs nothing: it was counted before
    await settle_reasoning(trail, call, before)
    await _arrange(trail, call)
    if _lacks_end(trail, call, last):
        await run_stage(_append_go_on, trail, call, trusted=True)
    if trail.reports:
        await _keep_markers(trail, call, budget, before)
    await run_stage(LimitCacheMarkers(), trail, call, trusted=True)  # the request only gets smaller by it
    if not trail.start:
        refuse_empty(trail)


async def _fit_or_say(
    trail: Trail, call: Call, limit: int, last: str, most: int | None, telling: Sequence[ContextStrategy]
) -> None:
    """Make the request fit, or say that it cannot be made to, where more is taken than the budget aims at."""
    if most is None:
        return await _fit(trail, call, limit, last, telling)
    known = trail.copy()
    try:
        await _fit(trail, call, limit, last, telling)
    except ContextOverflow:
        trail.restore(known)
        note = f"{trail.tokens - limit:,} tokens over the {limit:,} of a pipeline within: no more may be left out"
        trail.reports.append(StageReport("FitGuarantee", (), trail.tokens, trail.tokens, 0.0, (note,)))
        await _fit(trail, call, most, last, telling)


async def _fit(trail: Trail, call: Call, limit: int, last: str, telling: Sequence[ContextStrategy]) -> None:
    """Make the request fit, without new handles where it does not fit with them: they are worth no error."""
    if call.shelf is None or call.shelf.tool is None:
        return await _fit_whole(trail, call, limit, last, telling)
    known = trail.copy()
    try:
        await _fit_whole(trail, call, limit, last, telling)
    except ContextOverflow:
        trail.restore(known)
        await _fit_whole(trail, evolve(call, shelf=call.shelf.unnamed()), limit, last, telling)


async def _fit_whole(trail: Trail, call: Call, limit: int, last: str, telling: Sequence[ContextStrategy]) -> None:
    """Make the request fit, with what has to stand between messages that only now are neighbours, or behind them."""

    def closing() -> int:
        return call.meter.message(_GO_ON_MESSAGE) if _lacks_end(trail, call, last) else 0

    aim, given = limit - closing(), trail.context
    if telling and trail.tokens > aim:
        call = evolve(call, reserved=await reserved(telling, evolve(call, start=given)))
    while trail.tokens + closing() > limit:
        try:
            await run_stage(FitGuarantee(aim, trail.origins), trail, call)
        except ContextOverflow as error:
            raise ContextOverflow(error.tokens + limit - aim, limit, error.biggest) from None
        await _arrange(trail, call)
        aim -= max(0, trail.tokens + closing() - limit)
    if trail.context is not given:
        for stage in telling:
            await run_stage(stage, trail, call)
        await run_stage(RecapGivesWay(limit - closing()), trail, call)


_GO_ON_MESSAGE = Message("user", (Text(GO_ON),))
"""Comes last where what was last when it was passed in stands further up, or cannot be sent."""

_ASKING = frozenset({"user", "tool"})


def is_go_on(message: Message) -> bool:
    """Whether it is what ``guarantee`` adds to the end of a request, for one step."""
    return message.role == _GO_ON_MESSAGE.role and message.parts == _GO_ON_MESSAGE.parts


def _lacks_end(trail: Trail, call: Call, last: str) -> bool:
    known = trail.context.messages[-1:] or (call.before() if call.before is not None else ())[-1:]
    return bool(known) and lacks_end(known[0], last, call) and not open_at_end(trail.context.messages)


def lacks_end(message: Message, last: str, call: Call) -> bool:
    """Whether the user has to speak behind this message at the end, which the model refuses there, or goes on with.

    Args:
        message: The last message of the request.
        last: The role of the last message that was passed in: to end on the assistant is up to the caller.
        call: What the stages are told.
    """
    return last in _ASKING and call.wire is not None and not call.wire.may_end_on(message)


async def let_answers_follow(
    trail: Trail, call: Call, role_at: Callable[[int], str], standing_before: tuple[Message, int | None] | None = None
) -> None:
    """Let the user speak before an answer of the assistant where what it answers stands further up by now, or is gone.

    When it was given, ``guarantee`` had put the same words there: reasoning may be bound to them.

    Args:
        trail: Where the step stands, repaired; brought up to date.
        call: What the stages are told; its ``before`` is asked only where the user may have to speak.
        role_at: The role of the message of the history at an index.
        standing_before: The last message before the trail's, with its index in the history.
    """
    if call.wire is None or not call.wire.minds_the_end:
        return
    new, start = trail.context.messages, 0 if standing_before is None else 1
    known = [*([] if standing_before is None else [standing_before]), *zip(new, trail.origins, strict=True)]
    answers = {
        id(message)
        for place, ((before, asked), (message, answered)) in enumerate(pairwise(known), 1 - start)
        if message.role == before.role == "assistant" and asked is not None and answered is not None
        if any(role_at(index) in _ASKING for index in range(asked + 1, answered))
        if _ended((*(call.before() if call.before else ()), *new[:place]), call)
    }
    if not answers:
        return

    async def parted(context: Context, call: Call, /) -> Context:
        out: list[Message] = []
        for message in context.messages:
            if id(message) in answers:
                out.append(Message(_GO_ON_MESSAGE.role, _GO_ON_MESSAGE.parts))
                call.note(out[-1], "the assistant answered what stands further up, or was left out")
            out.append(message)
        return context.with_messages(tuple(out))

    parted.__name__ = REPAIR  # it follows from the history alone, too
    await run_stage(parted, trail, call, trusted=True)


def _ended(messages: Sequence[Message], call: Call) -> bool:
    """Whether messages end with a turn of the assistant that is over, and its model would not be asked with it last."""
    turn = takewhile(lambda message: message.role == "assistant", reversed(messages))
    calls = any(message.calls for message in turn)  # whose results stand behind the turn
    return not calls and not open_at_end(messages) and lacks_end(messages[-1], "user", call)


async def _append_go_on(context: Context, call: Call, /) -> Context:
    """Let the user speak last, who did so when the request came in."""
    said = Message(_GO_ON_MESSAGE.role, _GO_ON_MESSAGE.parts)
    call.note(said, "the request came in ending on the user or a tool, and would end on the assistant for this model")
    return context.with_messages((*context.messages, said))


_append_go_on.__name__ = "ArrangeMessages"  # as all that is done so that messages stand where the model takes them


async def _arrange(trail: Trail, call: Call) -> None:
    """Let messages stand where the model takes them, after what stood around them went."""
    if trail.start:
        return
    await run_stage(_arranged, trail, call, trusted=True)
    if trail.reports and call.wire is not None and call.wire.reads_places:
        await run_stage(_neighboured, trail, call, trusted=True)


async def _arranged(context: Context, call: Call, /) -> Context:
    if call.wire is None:
        return context
    arranged = call.wire.arrange_for(context.messages, call.profile, call.note)
    return context if arranged is context.messages else context.with_messages(tuple(arranged))


async def _neighboured(context: Context, call: Call, /) -> Context:
    if call.wire is None:
        return context
    arranged = arranged_by(context.messages, call, call.wire)
    return context if arranged is context.messages else context.with_messages(tuple(arranged))


_neighboured.__name__ = "ArrangeMessages"
_arranged.__name__ = "ArrangeMessages"


async def _keep_markers(trail: Trail, call: Call, budget: Budget | None, before: Context) -> None:
    """Move markers whose blocks went, where the request still fits with them: nothing is left out for a marker."""
    known = trail.copy()
    await run_stage(KeepCacheMarkers(before.messages), trail, call, trusted=True)
    if trail.context is known.context or budget is None:
        return
    most = budget.request_bytes
    if trail.tokens > budget.limit or (most is not None and body_bytes(trail.context, call) > most):
        trail.restore(known)
        note = "cache markers whose blocks went are left out: the request would not fit with them"
        trail.reports.append(StageReport("KeepCacheMarkers", (), trail.tokens, trail.tokens, 0.0, (note,)))
