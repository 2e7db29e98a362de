"""The rules by which providers refuse requests: a file for each format, loaded when a request is validated."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from agentctx.models.profile import ModelProfile
from agentctx.wire_format import Violation, WireFormat

if TYPE_CHECKING:
    from agentctx.rules.rule import Rules, Validator

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
    rules = _rules_of(wire)
    own = wire.validate(request, profile, before)
    return own if rules is None else (*rules.violations(request, profile, before), *own)


def validator(wire: WireFormat, profile: ModelProfile | None) -> Validator:
    """Return a function that finds what ``find_violations`` finds in the requests of one conversation.

    The function may remember messages from call to call. A dict that was edited in place is read again; an object of an
    SDK must not be edited.

    Args:
        wire: The format of the requests.
        profile: The properties of the model; None where the model is unknown.
    """
    rules = _rules_of(wire)
    growing = None if rules is None else rules.validator(profile)

    def violations(request: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> tuple[Violation, ...]:
        own = wire.validate(request, profile, before)
        return own if growing is None else (*growing(request, before), *own)

    return violations


def _rules_of(wire: WireFormat) -> Rules | None:
    """Return the rules of the library's format that a format is or inherits."""
    for kind in type(wire).__mro__:
        if kind.__module__ in _RULES:
            rules: Rules = import_module(_RULES[kind.__module__]).rules_of(wire)
            return rules
    return None
