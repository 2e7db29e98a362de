"""What Claude models take and refuse beside the token limits, by generation.

Source: https://docs.anthropic.com/en/docs/about-claude/models and the pages on extended thinking, prefill and
mid-conversation system messages.
"""

from __future__ import annotations

import re

from attrs import frozen

from agentctx.core.profile import ModelProfile

_NAME = re.compile(
    r"claude-(?:(?P<family>opus|sonnet|haiku|fable|mythos)-(?P<major>\d{1,2})(?:[-.](?P<minor>\d{1,2}))?"
    r"|(?P<old_major>\d)(?:[-.](?P<old_minor>\d))?-(?P<old_family>opus|sonnet|haiku))(?!\d)"
)
_PREFILL_ENDS = (4, 6)
_BOUND = frozenset(
    {("opus", 5, 5), ("sonnet", 5, 5), ("haiku", 5, 5)}
    | {(family, 5, minor) for family in ("fable", "mythos") for minor in (1, 2)}
)
_NO_FORCED_CHOICE = frozenset({("opus", 5, 5), ("sonnet", 5, 5), ("fable", 5, 1), ("mythos", 5, 1)})


@frozen
class Traits:
    """What a model takes; where the model is not known, everything that some model takes.

    Args:
        bound_thinking: Whether each thinking block is bound to all that stands before it.
        system_in_messages: Whether system messages may stand among the messages.
        prefill: Whether the request may end on words of the assistant.
        forced_choice: Whether ``tool_choice`` may force a tool.
        window: The context window in tokens, when known.
    """

    bound_thinking: bool = False
    system_in_messages: bool = True
    prefill: bool = True
    forced_choice: bool = True
    window: int | None = None


def traits(model: str | None, profile: ModelProfile | None) -> Traits:
    """What a model takes: by its profile when there is one, else by its name.

    Args:
        model: The name in the request, if any.
        profile: The model's profile, if known.
    """
    named = _by_name(model if profile is None else model or profile.name)
    if profile is None:
        return named
    return Traits(
        profile.bound_thinking, profile.system_in_messages, profile.prefill, named.forced_choice, profile.window
    )


def _by_name(model: str | None) -> Traits:
    found = _NAME.search(model or "")
    if found is None:
        return Traits()
    family = found["family"] or found["old_family"]
    version = int(found["major"] or found["old_major"]), int(found["minor"] or found["old_minor"] or 0)
    return Traits(
        bound_thinking=(family, *version) in _BOUND,
        system_in_messages=version >= {"opus": (4, 8), "fable": (5, 0), "mythos": (5, 0)}.get(family, (99, 0)),
        prefill=version < _PREFILL_ENDS,
        forced_choice=(family, *version) not in _NO_FORCED_CHOICE,
    )
