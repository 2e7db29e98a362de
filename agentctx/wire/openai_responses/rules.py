"""The rules of the Responses API, in the order in which they are looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentctx.core.profile import ModelProfile
from agentctx.core.violation import Violation
from agentctx.wire.openai_responses import rules_groups, rules_items, rules_pairs, rules_request
from agentctx.wire.openai_responses.view import Rule, opened

RULES: tuple[Rule, ...] = (
    rules_items.input_present,
    rules_items.item_type,
    rules_items.role,
    rules_items.content_type,
    rules_items.call_bodies,
    rules_items.cache_marker,
    rules_items.strings,
    rules_pairs.call_ids,
    rules_pairs.pairs,
    rules_groups.item_ids,
    rules_groups.missing_reasoning,
    rules_groups.unfollowed,
    rules_groups.not_stored,
    rules_groups.sealed,
    rules_groups.same_family,
    rules_groups.reasoning_content,
    rules_groups.trigger_last,
    rules_request.chain,
    rules_request.json_word,
    rules_request.tools,
    rules_request.tool_choice,
    rules_request.cache_key,
)
"""Each looks at the whole request and yields what it finds wrong."""


def validate(
    request: Mapping[str, Any], profile: ModelProfile | None, before: Mapping[str, Any] | None
) -> tuple[Violation, ...]:
    """Every rule that the request breaks, those of the request as a whole last; never raises for JSON-like input.

    Args:
        request: ``input`` (or ``messages``) and what else the provider takes.
        profile: The model's profile, if known; else the request's ``model`` names the model.
        before: The request that this one was made from: reasoning and what it led to must still be together.
    """
    model = None if profile is None else profile.family
    origin = None if before is None else opened(before, None)
    view = opened(request, model, origin)
    found = [violation for rule in RULES for violation in rule(view)]
    last = view.total
    return tuple(sorted(found, key=lambda one: last if one.index is None else one.index))
