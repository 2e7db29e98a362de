"""What a run of the pipeline did, for people and for machines."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

from attrs import asdict, field, frozen

from agentctx.core.compare import Change, HeadChange, Outcome
from agentctx.core.forecast import Forecast
from agentctx.core.ledger import Ledger
from agentctx.core.report_text import report_text

_MARKS = (Outcome.MARKED, Outcome.KEPT)


@frozen
class StageReport:
    """What one stage did.

    Args:
        stage: Its name.
        changes: The messages that it did not leave as they were.
        tokens_before: Size of the request when the stage began, in tokens.
        tokens_after: Size of the request when it ended, in tokens.
        seconds: How long it took.
        notes: What else the stage had to say.
        head: What it did to the system prompt where that is kept apart, and to the tools.
    """

    stage: str
    changes: tuple[Change, ...]
    tokens_before: int
    tokens_after: int
    seconds: float
    notes: tuple[str, ...] = ()
    head: tuple[HeadChange, ...] = ()

    @property
    def acted(self) -> bool:
        """Whether it changed anything."""
        return bool(self.changes) or bool(self.notes) or bool(self.head)

    @property
    def marks_only(self) -> bool:
        """Whether it changed nothing but cache markers, and had nothing to say."""
        outcomes = chain((change.outcome for change in self.changes), (change.outcome for change in self.head))
        return not self.notes and all(outcome in _MARKS for outcome in outcomes)


@frozen
class Report:
    """What happened to a request on its way to the model.

    Args:
        stages: What each stage did at this step, in order.
        ledger: Every change that holds now, also those decided at earlier steps of a session, kept small.
        messages_before: Number of messages passed in.
        messages_after: Number of messages that go out.
        tokens_before: Size of the request passed in, in tokens.
        tokens_after: Size of the request that goes out, in tokens.
        bytes_before: Size of the texts passed in, in bytes of UTF-8.
        bytes_after: Size of the texts that go out, in bytes of UTF-8.
        limit: The most tokens that the request could have, or None when there is no budget.
        first_changed: Index of the first outgoing message that differs from the previous view of the session (or,
            without a session, from what was passed in); None when that one is a prefix of this one.
        prefix_tokens: Tokens at the start of the request that equal the previous view's, in a session.
        rebilled_tokens: Tokens of the previous view that must be billed again because the prefix moved.
        seconds: How long all of it took.
        bill: Works out what this call costs with and without what was done at this step; None without prices.
    """

    stages: tuple[StageReport, ...]
    ledger: Ledger = field(eq=False, repr=False)
    messages_before: int
    messages_after: int
    tokens_before: int
    tokens_after: int
    bytes_before: int = 0
    bytes_after: int = 0
    limit: int | None = None
    first_changed: int | None = None
    prefix_tokens: int = 0
    rebilled_tokens: int = 0
    seconds: float = 0.0
    bill: Callable[[], Forecast] | None = field(default=None, eq=False, repr=False)

    @property
    def forecast(self) -> Forecast | None:
        """What this call costs with and without what was done at this step, and when that has paid for itself.

        None when no model was named, or its prices are not known.
        """
        return None if self.bill is None else self.bill()

    @property
    def in_force(self) -> tuple[Change, ...]:
        """Every change that holds now, also those decided at earlier steps of a session, by message."""
        return tuple(self.ledger)

    @property
    def changes(self) -> tuple[Change, ...]:
        """The changes of this step, stage by stage."""
        return tuple(change for stage in self.stages for change in stage.changes)

    @property
    def head(self) -> tuple[HeadChange, ...]:
        """What was done to the system prompt and the tools that were passed in, stage by stage."""
        return tuple(change for stage in self.stages for change in stage.head)

    @property
    def acted(self) -> bool:
        """Whether any stage changed anything at this step."""
        return any(stage.acted for stage in self.stages)

    @property
    def fates(self) -> tuple[Outcome, ...]:
        """What became of each message passed in, by its index."""
        fates = [Outcome.KEPT] * self.messages_before
        for change in self.ledger:
            marked = change.outcome is Outcome.MARKED and fates[change.index] is not Outcome.KEPT
            if change.outcome is not Outcome.ADDED and not marked:
                fates[change.index] = change.outcome
        return tuple(fates)

    def __str__(self) -> str:
        """What happened to the request, for people: see ``agentctx.show.report.report_text``."""
        return report_text(self)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON values."""
        plain = asdict(self, filter=lambda attribute, _: attribute.name not in ("ledger", "bill"))
        forecast = self.forecast
        return plain | {
            "in_force": [asdict(change) for change in self.ledger],
            "head": [asdict(change) for change in self.head],
            "forecast": None if forecast is None else asdict(forecast),
        }
