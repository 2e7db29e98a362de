"""What the parts of a request have."""

from __future__ import annotations

from agentctx.core.message import SYSTEM_ROLES, Context
from agentctx.protocols import Call
from agentctx.tiers.category import Category


def measure(context: Context, call: Call) -> dict[Category, int]:
    """Tokens of system prompt, tool definitions and conversation; together the size of the request.

    System and developer messages count as system prompt, wherever they stand.
    """
    size = call.size(context)
    bare = call.meter.fixed(Context((), context.system))
    tools = call.meter.fixed(context) - bare
    words = sum(call.count(message) for message in context.messages if message.role in SYSTEM_ROLES)
    return {
        Category.SYSTEM_PROMPT: bare + words,
        Category.TOOL_DEFINITIONS: tools,
        Category.CONVERSATION: size - bare - tools - words,
    }
