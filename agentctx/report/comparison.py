"""The page of a comparison: many recorded sessions, each through several pipelines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from agentctx.comparison import Measured
from agentctx.errors import InvalidInput
from agentctx.printable import printable
from agentctx.report.page import document, fact_list, packed

_NUMBERS = (
    *("calls", "tokens_given", "tokens_sent", "prefix_tokens", "usd", "compactions", "invalid", "overflowed"),
    *("values", "visible", "recallable", "said", "kept", "seconds"),
)

_EXPECTED = "expected what agentctx compare writes with --json or --out"


def read_rows(text: str, where: str) -> list[Measured]:
    """The rows that ``agentctx compare`` wrote, with ``--json`` or into the file of ``--out``.

    Args:
        text: JSON lines.
        where: What to call them in an error.

    Raises:
        InvalidInput: If a line is no such row, or there is none.
    """
    rows = list(_rows(text, where))
    if not rows:
        raise InvalidInput(where, f"has no rows: {_EXPECTED}")
    return rows


def _rows(text: str, where: str) -> Iterator[Measured]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            yield Measured.from_dict(json.loads(line))
        except (ValueError, TypeError, AttributeError, RecursionError):
            at = f"{where}, line {number}"
            raise InvalidInput(at, f"is no row of a comparison: {_EXPECTED}") from None


def comparison_page(rows: Sequence[Measured]) -> str:
    """The page of a comparison: sums by pipeline, cost against what stays visible, and each session.

    Args:
        rows: What was measured; of a session, a model and a pipeline that are there twice, the last.

    Example:
        >>> from agentctx.comparison import Contender, measure
        >>> from agentctx.replay import Recording
        >>> from agentctx.report import comparison_page
        >>> said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
        >>> row = measure(Recording(said), Contender.of("small", preset="coding_agent", window=4_000), session="one")
        >>> comparison_page([row]).startswith("<!doctype html>")
        True
    """
    found = {(_Session(printable(row.session), _model(row)), printable(row.pipeline)): row for row in rows}
    sessions = list(dict.fromkeys(session for session, _ in found))
    pipelines = list(dict.fromkeys(pipeline for _, pipeline in found))
    return document(
        "comparison.html",
        ("session.js", "charts.js", "comparison.js"),
        facts=fact_list(_facts(found, sessions, pipelines)),
        data=packed(_values(found, sessions, pipelines)),
    )


@frozen
class _Session:
    """A session as it is shown: once for each model that it was counted and paid for."""

    place: str
    model: str


def _model(row: Measured) -> str:
    return printable(row.model or "no model named")


def _facts(
    found: Mapping[tuple[_Session, str], Measured], sessions: Sequence[_Session], pipelines: Sequence[str]
) -> Iterator[tuple[str, str, str]]:
    models = sorted({session.model for session in sessions})
    calls = {session: row.calls for (session, _), row in found.items()}
    yield "Sessions", f"{len(sessions):,}", f"{sum(calls.values()):,} model calls"
    yield "Pipelines", f"{len(pipelines):,}", ", ".join(pipelines)
    yield "Models", f"{len(models):,}", ", ".join(models[:4]) + (", …" if len(models) > 4 else "")
    missing = len(sessions) * len(pipelines) - len(found)
    yield "Replays", f"{len(found):,}", f"{missing:,} missing" if missing else "every session with every pipeline"


def _values(
    found: Mapping[tuple[_Session, str], Measured], sessions: Sequence[_Session], pipelines: Sequence[str]
) -> dict[str, Any]:
    times = Counter(session.place for session in sessions)
    names = {
        session: printable(row.id or row.session) + (f" · {session.model}" if times[session.place] > 1 else "")
        for (session, _), row in found.items()
    }
    models = sorted({session.model for session in sessions})
    return {
        "pipelines": pipelines,
        "models": models,
        "sessions": [[names[session], session.place, models.index(session.model)] for session in sessions],
        "numbers": _NUMBERS,
        "rows": [[_row(found.get((session, pipeline))) for pipeline in pipelines] for session in sessions],
    }


def _row(row: Measured | None) -> list[float | None] | None:
    return None if row is None else [getattr(row, name) for name in _NUMBERS]
