"""Run one stage, whoever runs it: an error names it, and what it gives is a context."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from inspect import isawaitable
from typing import NamedTuple

from agentctx.core.budget import Budget
from agentctx.core.compare import shared
from agentctx.core.message import Context, Message
from agentctx.core.pace import paced
from agentctx.core.wellformed import flaw
from agentctx.errors import StageError
from agentctx.offload import offload
from agentctx.protocols import Call, ContextStrategy, Phase, Scope, holds_stages
from agentctx.strategies.naming import Naming, name_of


class Made(NamedTuple):
    """What a stage made of a context.

    Args:
        context: What it made; the same object when it changed nothing.
        shared: How many messages at the start are the very objects that it was given.
    """

    context: Context
    shared: int


async def run(stage: ContextStrategy, context: Context, call: Call) -> Made:
    """What a stage makes of a context.

    Args:
        stage: The stage.
        context: What it is given.
        call: What it is told.

    Raises:
        StageError: If it is not async, or gave something else than a context of messages.
    """
    name = name_of(stage)
    with Naming(name):
        answer = stage(context, call)
        if not isawaitable(answer):
            raise StageError(name, f"is not async: calling it gave {type(answer).__name__}, which cannot be awaited")
        after = await answer
    return Made(context, len(context.messages)) if after is context else await _checked(name, context, after)


async def run_alone(stage: ContextStrategy, context: Context, call: Call) -> Context:
    """What a stage makes of a context, all messages counted; for a stage that holds it and is called itself."""
    after = (await run(stage, context, call)).context
    await call.meter.settle(after.messages)
    return after


def in_phase(stages: Iterable[ContextStrategy], phase: Phase, governing: Budget | None) -> tuple[ContextStrategy, ...]:
    """The stages that run in a phase of a step, also those within stages.

    Args:
        stages: The stages, in order.
        phase: The part of the step.
        governing: The budget, as it was configured, that holds around them.
    """
    narrowed = (_narrowed(stage, phase, governing) for stage in stages)
    return tuple(stage for stage in narrowed if stage is not None)


def _narrowed(stage: ContextStrategy, phase: Phase, governing: Budget | None) -> ContextStrategy | None:
    holding = holds_stages(stage)
    if holding is not None:
        return holding.in_phase(phase, governing)
    return stage if getattr(stage, "scope", Scope.ALWAYS) in phase.scopes else None


def concerns(stage: ContextStrategy, call: Call) -> bool:
    """Whether a stage, or one that it holds, has anything to do with this model; one that does not say so has."""
    holding = holds_stages(stage)
    if holding is not None:
        return any(concerns(inner, call) for inner in holding.stages)
    asked = getattr(stage, "concerns", None)
    return asked is None or bool(asked(call))


async def _checked(name: str, before: Context, after: object) -> Made:
    if not isinstance(after, Context):
        raise StageError(name, f"returned {type(after).__name__} instead of a Context")
    if after.tools is not before.tools and not isinstance(after.tools, tuple):
        raise StageError(name, f"tools: expected a tuple of tools, got {type(after.tools).__name__}")
    if type(after.messages) is not tuple:
        after = after.with_messages(tuple(after.messages))
    start = shared(before.messages, after.messages)
    work = partial(_check_new, name, before.messages, after.messages, start)
    await offload(work, max(len(before.messages), len(after.messages)) - start)
    return Made(after, start)


def _check_new(name: str, before: Sequence[Message], after: Sequence[Message], start: int) -> None:
    """What the stage made itself, from ``start`` on, is made of messages."""
    known = set(map(id, before[start:]))
    for index, message in paced(enumerate(after[start:], start)):
        if id(message) not in known:
            wrong = flaw(message)
            if wrong is not None:
                raise StageError(name, f"messages[{index}]{wrong[0]} of what it returned is {wrong[1]}")
