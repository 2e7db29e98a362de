"""One section of a system prompt, and where its words come from."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from anyio import CapacityLimiter
from attrs import field, frozen

from agentctx.errors import ConfigError
from agentctx.protocols import ContextProvider
from agentctx.sources.ask import answer_of, checked
from agentctx.sources.fence import section

Load = Callable[[], Awaitable[str] | str]
"""Says what a section says now; empty when it says nothing. May be async; one that is not runs in a thread."""

_KEY = re.compile(r"[\w][\w./-]{0,127}")


def _check_key(_instance: object, _attribute: object, key: str) -> None:
    if not isinstance(key, str) or _KEY.fullmatch(key) is None:
        msg = f"PromptSection: key: expected a name of letters, digits and ./_-, got {key!r}"
        raise ConfigError(msg)


def _check_load(_instance: object, _attribute: object, load: Any) -> None:  # noqa: ANN401 - checked here
    if not callable(load):
        msg = f"PromptSection: load: expected a function that returns the section's text, got {load!r}"
        raise ConfigError(msg)


@frozen
class PromptSection:
    """One section of a system prompt.

    Args:
        key: Its name, the same for the life of a conversation.
        load: Says what it says now.
        header: What stands above it, when it says anything.

    Raises:
        ConfigError: If the key is no name, or there is nothing to load.
    """

    key: str = field(validator=_check_key)
    load: Load = field(validator=_check_load)
    header: str = ""

    def written(self, value: str) -> str:
        """The section with what it says; empty when it says nothing."""
        value = value.strip()
        return f"{self.header}\n{value}" if value and self.header else value

    @property
    def title(self) -> str:
        """What it is called when it is spoken of."""
        return self.header.strip().lstrip("# ").rstrip(":") or self.key


def section_from(provider: ContextProvider, key: str, header: str = "") -> PromptSection:
    """A section that says what a source finds: its items under their titles, in fences, in its own order."""

    async def load() -> str:
        items = checked(key, await answer_of(provider, "", threads=CapacityLimiter(1)))
        return "".join(section(item.title, item.content) for item in items)

    return PromptSection(key, load, header)
