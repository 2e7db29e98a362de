"""Everything that agentctx raises.

The tree::

    AgentctxError
    ├── InvalidInput        what came in cannot be read: names the place (``messages[3].role``) and what is wrong
    │   └── AmbiguousFormat the payload fits several wire formats: pass ``format=``
    ├── ConfigError         an option makes no sense (also a ValueError)
    │   └── UnknownModel    the model table does not know this name: says what to pass
    ├── StageError          a stage broke a promise (a pair, a protected message): names the stage
    ├── ContextOverflow     the request cannot be made to fit: raised before anything is sent
    ├── VocabularyError     a shipped vocabulary is damaged
    ├── StoreError          a store cannot keep or find what it was asked for
    └── SourceError         a source of context cannot be read: names the file, the command or the section
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class AgentctxError(Exception):
    """The root of the tree: catch it to catch all that agentctx raises."""


class InvalidInput(AgentctxError, ValueError):
    """What was passed cannot be read as a request.

    Args:
        where: The place, as a path into the request, for example ``messages[3].tool_calls[0].id``.
        what: What is wrong there, in one sentence.
    """

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}")
        self.where = where
        self.what = what


class AmbiguousFormat(InvalidInput):
    """The payload could belong to more than one wire format, and the caller named none."""


class ConfigError(AgentctxError, ValueError):
    """An option, or options together, make no sense."""


class UnknownModel(ConfigError):
    """The model table has no entry for this model name."""


class StageError(AgentctxError):
    """A stage broke a promise; its output was never sent.

    Args:
        stage: Name of the stage.
        what: The promise that was broken, with the message index.
    """

    def __init__(self, stage: str, what: str) -> None:
        super().__init__(f"stage {stage}: {what}")
        self.stage = stage
        self.what = what


class BigItem(tuple[str, str, int]):
    """One of the biggest items of an overflowing request: place, what it is, tokens."""

    __slots__ = ()

    @property
    def place(self) -> str:
        """Where it is, for example ``messages[7]``."""
        return self[0]

    @property
    def kind(self) -> str:
        """What it is: a role, ``system`` or ``tools``."""
        return self[1]

    @property
    def tokens(self) -> int:
        """Its size in tokens."""
        return self[2]


class ContextOverflow(AgentctxError):
    """The request cannot be made to fit the budget; nothing was sent.

    Args:
        tokens: The smallest size that could be reached, in tokens.
        limit: The tokens that were available.
        biggest: The biggest items that had to stay, largest first.
    """

    def __init__(self, tokens: int, limit: int, biggest: Sequence[BigItem] = ()) -> None:
        named = "; ".join(f"{item.place} ({item.kind}) {item.tokens:,}" for item in biggest)
        super().__init__(
            f"the request needs {tokens:,} tokens and {limit:,} are available "
            f"({tokens - limit:,} too many) after everything that may be left out was left out"
            + (f"; biggest items: {named}" if named else "")
        )
        self.tokens = tokens
        self.limit = limit
        self.biggest = tuple(biggest)


class VocabularyError(AgentctxError):
    """A shipped vocabulary file is missing or does not have its published hash."""


class StoreError(AgentctxError):
    """A store cannot keep what it was given, or has not what it was asked for."""


class SourceError(AgentctxError):
    """A source of context cannot be read, or what was read does not fit.

    Args:
        where: The file, the command or the section.
        what: What is wrong with it, in one sentence.
    """

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"{where}: {what}")
        self.where = where
        self.what = what
