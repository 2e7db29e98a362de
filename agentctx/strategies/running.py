"""Run one stage, whoever runs it: an error names it, and what it gives is a context."""

from __future__ import annotations

from inspect import isawaitable

from agentctx.core.message import Context
from agentctx.core.wellformed import flaw
from agentctx.errors import StageError
from agentctx.protocols import Call, ContextStrategy
from agentctx.strategies.naming import Naming, name_of


async def run(stage: ContextStrategy, context: Context, call: Call) -> Context:
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
    return after if after is context else _checked(name, context, after)


def _checked(name: str, before: Context, after: object) -> Context:
    if not isinstance(after, Context):
        raise StageError(name, f"returned {type(after).__name__} instead of a Context")
    if after.tools is not before.tools and not isinstance(after.tools, tuple):
        raise StageError(name, f"tools: expected a tuple of tools, got {type(after.tools).__name__}")
    known = set(map(id, before.messages))
    for index, message in enumerate(after.messages):
        if id(message) not in known:
            wrong = flaw(message)
            if wrong is not None:
                raise StageError(name, f"messages[{index}]{wrong[0]} of what it returned is {wrong[1]}")
    return after if type(after.messages) is tuple else after.with_messages(tuple(after.messages))
