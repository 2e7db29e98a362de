"""One request as it would be sent, beside what it was made from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from attrs import frozen

from agentctx.core.compare import Change, Outcome, match
from agentctx.core.message import Media, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.core.report import View


@frozen
class Shown:
    """One message of a request, or one that was left out of it.

    Args:
        outcome: What became of it.
        given: Its index in the messages that the loop had; None for a message that a stage put in.
        sent: Its index in the request; None when it was left out.
        role: Its role.
        tokens: Its size in the request, or what leaving it out saved, in tokens.
        parts: What it says, part by part, as it would be sent; of a message that was left out, what it said.
        stage: The last stage that changed it, if any did.
        reason: Why.
    """

    outcome: Outcome
    given: int | None
    sent: int | None
    role: str
    tokens: int
    parts: tuple[str, ...]
    stage: str = ""
    reason: str = ""

    @property
    def text(self) -> str:
        """All that it says."""
        return "\n".join(self.parts)


def shown(view: View, given: Sequence[Message], count: Callable[[Message], int]) -> tuple[Shown, ...]:
    """Every message of the request in order, with those that were left out where they had stood.

    Args:
        view: The request.
        given: The messages that it was made from, as values.
        count: Tells the size of a message in tokens.
    """
    after = view.context.messages
    found = match(given, after)
    made = {change.index: change for change in view.report.in_force if change.outcome is Outcome.ADDED}
    done = {change.index: change for change in view.report.in_force if change.outcome is not Outcome.ADDED}
    gone = iter((*found.dropped, len(given)))
    lost = next(gone)
    lines: list[Shown] = []
    for sent, message in enumerate(after):
        origin = found.origins[sent]
        while origin is not None and lost < origin:
            lines.append(_left_out(lost, given[lost], done.get(lost), count))
            lost = next(gone)
        lines.append(_sent(message, sent, origin, made if origin is None else done, count))
    lines += [_left_out(index, given[index], done.get(index), count) for index in (lost, *gone) if index < len(given)]
    return tuple(lines)


def _sent(
    message: Message, sent: int, origin: int | None, changes: Mapping[int, Change], count: Callable[[Message], int]
) -> Shown:
    change = changes.get(sent if origin is None else origin)
    outcome = change.outcome if change else (Outcome.ADDED if origin is None else Outcome.KEPT)
    why = (change.stage, change.reason) if change else ("", "")
    return Shown(outcome, origin, sent, message.role, count(message), part_texts(message), *why)


def _left_out(index: int, message: Message, change: Change | None, count: Callable[[Message], int]) -> Shown:
    outcome = change.outcome if change and change.outcome is not Outcome.EDITED else Outcome.DROPPED
    why = (change.stage, change.reason) if change else ("", "")
    return Shown(outcome, index, None, message.role, count(message), part_texts(message), *why)


def in_runs(lines: Sequence[Shown]) -> Iterator[tuple[Shown, ...]]:
    """The lines one by one, but neighbours that were left out by the same stage for the same reason together."""
    for key, run in groupby(lines, key=lambda line: (line.sent, line.stage, line.reason)):
        if key[0] is None:
            yield tuple(run)
        else:
            yield from ((line,) for line in run)


def part_texts(message: Message) -> tuple[str, ...]:
    """What a message says, part by part, for people; blank parts say nothing."""
    return tuple(filter(str.strip, map(_part_text, message.parts)))


def _part_text(part: Part) -> str:
    match part:
        case Text(text=text):
            return text
        case Thinking(text=text, encrypted=encrypted):
            return f"[thinking] {text}" if text else f"[thinking] {len(encrypted or ''):,} encrypted characters"
        case ToolCall(name=name, arguments=arguments):
            return f"[call] {name} {arguments}"
        case ToolResult(content=content, is_error=is_error):
            inner = "\n".join(map(_part_text, content))
            return f"[{'error' if is_error else 'result'}] {inner}"
        case Media(kind=kind, media_type=media_type, url=url):
            return f"[{kind}] {media_type or ''} {url or ''}".rstrip()
        case Opaque(kind=kind, data=data):
            return f"[{kind}] {json.dumps(data, default=str, ensure_ascii=False)}"


def view_json(view: View) -> dict[str, Any]:
    """The request as JSON values, with every change in force."""
    request = {"system": view.system, "tools": view.tools, "messages": view.messages}
    return {
        "request": {key: value for key, value in request.items() if value is not None},
        "report": view.report.to_dict(),
    }
