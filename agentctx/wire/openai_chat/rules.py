"""The rules of Chat Completions, in the order in which they are looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentctx.core.profile import ModelProfile
from agentctx.core.violation import Violation
from agentctx.wire.openai_chat import rules_message as of_message
from agentctx.wire.openai_chat import rules_request as of_request
from agentctx.wire.openai_chat.rules_round import rounds
from agentctx.wire.openai_chat.view import Rule, opened

RULES: tuple[Rule, ...] = (
    of_message.messages_present,
    of_message.role,
    of_message.content_required,
    of_message.content_type,
    of_message.media_role,
    of_message.tool_calls,
    of_message.call_ids,
    of_message.call_bodies,
    of_message.strings,
    rounds,
    of_request.tools,
    of_request.tool_choice,
    of_request.function_call,
    of_request.json_word,
    of_request.cache_keys,
    of_request.reasoning_bytes,
    of_request.unknown_keys,
)
"""Each looks at the whole request and yields what it finds wrong."""


def validate(
    request: Mapping[str, Any], profile: ModelProfile | None, before: Mapping[str, Any] | None
) -> tuple[Violation, ...]:
    """Every rule that the request breaks, those of the request as a whole last; never raises for JSON-like input.

    Args:
        request: ``messages`` and what else the provider takes.
        profile: The model's profile, if known; else the request's ``model`` names the model.
        before: The request that this one was made from: its reasoning must be unchanged where it is still there.
    """
    model = None if profile is None else profile.family
    origin = None if before is None else opened(before, model)
    view = opened(request, model, origin)
    found = [violation for rule in RULES for violation in rule(view)]
    last = view.total
    return tuple(sorted(found, key=lambda one: last if one.index is None else one.index))
