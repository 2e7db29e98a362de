"""The frozen facts that listeners are told."""

from __future__ import annotations

from attrs import field, frozen

from agentctx.core.compare import Change
from agentctx.core.report import StageReport


@frozen
class Compaction:
    """A request was changed on its way to the model.

    Args:
        stages: The stages that acted, with what each did and why.
        messages_before: Number of messages before.
        messages_after: Number of messages after.
        tokens_before: Size of the request before, in tokens.
        tokens_after: Size of the request after, in tokens.
        session: The session's id, or None for a stateless call.
        step: The number of the session's step, from 0; None for a stateless call.
        first_changed: Index of the first outgoing message that is not as in the session's view before: there the
            provider's cache breaks. None when only new messages were treated. Without a session: compared to what
            was passed in.
        rebilled_tokens: Tokens of the session's view before that are billed again for that.
    """

    stages: tuple[StageReport, ...]
    messages_before: int
    messages_after: int
    tokens_before: int
    tokens_after: int
    session: str | None = None
    step: int | None = None
    first_changed: int | None = field(default=None, kw_only=True)
    rebilled_tokens: int = field(default=0, kw_only=True)

    @property
    def prefix_moved(self) -> bool:
        """Whether the request does not begin with the one before: a real cut, and not only new messages shortened."""
        return self.first_changed is not None

    @property
    def changes(self) -> tuple[Change, ...]:
        """What was dropped, edited or added, stage by stage, and why."""
        return tuple(change for stage in self.stages for change in stage.changes)

    def __str__(self) -> str:
        """One line for a log."""
        acted = ", ".join(stage.stage for stage in self.stages)
        what = "compaction" if self.prefix_moved or self.step is None else "arrivals changed"
        prefix = f", prefix moved at message {self.first_changed}" if self.prefix_moved else ", prefix kept"
        return (
            f"{what} by {acted}: {self.messages_before} -> {self.messages_after} messages, "
            f"{self.tokens_before:,} -> {self.tokens_after:,} tokens{prefix if self.step is not None else ''}"
        )


@frozen
class SilentTruncationSuspected(Compaction):
    """A request was probably changed on its way to the model by the server: it cut the prompt without a word.

    It is the model that does not know then what stands in the history, although no error says so. Ollama does it at
    ``num_ctx``, and whoever sets no window of their own there gets its small default. Said once a conversation and
    model. ``tokens_before`` is the prompt as it was sent, by our count as far as it is calibrated; ``tokens_after``
    what was billed, by the provider's count; the one stage in ``stages`` is the server.

    Args:
        why: What speaks for it, in one sentence with the numbers.
        window: The model's window, in tokens; None when it is not known.
    """

    why: str = field(kw_only=True)
    window: int | None = field(default=None, kw_only=True)

    @property
    def sent(self) -> int:
        """The prompt by our count, in tokens."""
        return self.tokens_before

    @property
    def billed(self) -> int:
        """The prompt by the provider's count, in tokens."""
        return self.tokens_after

    def __str__(self) -> str:
        """One line for a log."""
        return f"silent truncation suspected: {self.why}"
