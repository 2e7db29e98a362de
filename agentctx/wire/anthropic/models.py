"""What Claude models take and refuse beside the token limits.

Source: https://docs.anthropic.com/en/docs/about-claude/models and the pages on extended thinking, prefill, forced
tool choice and mid-conversation system messages.
"""

from __future__ import annotations

import re

from attrs import frozen

from agentctx.core.profile import ModelProfile
from agentctx.tokens import families

_NO_FORCED_CHOICE = re.compile(r"claude-(?:(?:opus|sonnet)-5-5|(?:fable|mythos)-5-1)(?!\d)")


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
    name = ((model or "") if profile is None else profile.family).lower().replace(".", "-")
    forced_choice = not _NO_FORCED_CHOICE.search(name)
    if profile is not None:
        return Traits(
            profile.bound_thinking, profile.system_in_messages, profile.prefill, forced_choice, profile.window
        )
    if "claude" not in name:
        return Traits()
    return Traits(
        bound_thinking=bool(families.BOUND_THINKING.search(name)),
        system_in_messages=bool(families.SYSTEM_IN_MESSAGES.search(name)),
        prefill=not families.NO_PREFILL.search(name),
        forced_choice=forced_choice,
    )
