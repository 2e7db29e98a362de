"""The rules by which providers refuse requests: a file for each format, loaded when a request is validated."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from agentctx.models.profile import ModelProfile
from agentctx.wire_format import Violation, WireFormat

_RULES = {
    f"agentctx.formats.{file}": f"agentctx.rules.{file}"
    for file in ("openai_chat", "openai_responses", "anthropic", "gemini", "bedrock")
}
"""The module with the rules of the format that each module defines."""


def find_violations(
    wire: WireFormat,
    request: Mapping[str, Any],
    profile: ModelProfile | None = None,
    before: Mapping[str, Any] | None = None,
) -> tuple[Violation, ...]:
    """Return every rule that a request breaks, in the order of its messages.

    A format that inherits one of the library's has the rules of that one, and those of its own ``validate``.

    Args:
        wire: The format of the request.
        request: The request, as it is sent.
        profile: The properties of the model; None where the model is unknown.
        before: The request that this one was made from; None when there is none.

    Example:
        >>> from agentctx.formats.registry import format_named
        >>> from agentctx.rules import find_violations
        >>> [violation.rule for violation in find_violations(format_named("anthropic"), {"messages": []})]
        ['anth.messages_empty']
    """
    own = wire.validate(request, profile, before)
    home = next((_RULES[kind.__module__] for kind in type(wire).__mro__ if kind.__module__ in _RULES), None)
    if home is None:
        return own
    found: tuple[Violation, ...] = import_module(home).violations(wire, request, profile, before)
    return *found, *own
