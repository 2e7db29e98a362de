"""Run one stage, whoever runs it: an error names it, and what it gives is a context."""

from __future__ import annotations

from inspect import isawaitable

from agentctx.core.ledger import ROLES
from agentctx.core.message import Context, Message
from agentctx.core.parts import Media, Opaque, Text, Thinking, ToolCall, ToolResult
from agentctx.errors import StageError
from agentctx.protocols import Call, ContextStrategy
from agentctx.strategies.naming import Naming, name_of

_PARTS = (Text, Media, Thinking, ToolCall, ToolResult, Opaque)


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
            _check_message(name, f"messages[{index}]", message)
    return after if type(after.messages) is tuple else after.with_messages(tuple(after.messages))


def _check_message(name: str, where: str, message: object) -> None:
    if not isinstance(message, Message):
        raise StageError(name, f"{where} of what it returned is no Message, but {type(message).__name__}")
    if message.role not in ROLES:
        raise StageError(name, f"{where}.role of what it returned is {message.role!r}, not one of {', '.join(ROLES)}")
    for place, part in enumerate(message.parts):
        if not isinstance(part, _PARTS):
            raise StageError(name, f"{where}.parts[{place}] of what it returned is no part, but {type(part).__name__}")
