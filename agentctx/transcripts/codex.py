"""Codex' rollouts: ``~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl``, items of OpenAI's Responses with remarks between.

Each line is ``{"timestamp", "type", "payload"}``; those of early versions are the items themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from attrs import define, field

from agentctx.economics import Usage
from agentctx.errors import InvalidInput
from agentctx.message import Native
from agentctx.replay import Billed, Recording
from agentctx.transcripts.costs import seconds, usage_of
from agentctx.transcripts.files import Fields, Glance, LogLines, Read, left_out, object_of, text_in

NAME = "Codex"

_UNSEEN = "the log does not hold the tools: what was billed is larger than what is counted"
_NEVER_SENT = frozenset({"ghost_snapshot", "other"})
_KINDS_OF_REMARKS = (b'"token_count"', b'"turn_context"', b'"session_meta"')
_HEARD = ("_output", "_response")
_ENDS_OF_ITEMS = ("message", "reasoning", "_call", "_output", "_response", "_item", "compaction")
"""How the types of items end that early versions write as lines."""


def read(lines: LogLines) -> Iterator[Read]:
    """The conversation of a rollout.

    Raises:
        InvalidInput: If nothing was said in it.
    """
    rollout = _Rollout()
    for _, line in lines:
        rollout.add(line)
    if not rollout.items:
        raise InvalidInput(lines.name, "this is a Codex session in which nothing was said: no model was called")
    notes = [*lines.notes, *left_out(rollout.others)]
    if rollout.compacted:
        times = "once" if rollout.compacted == 1 else f"{rollout.compacted:,} times"
        notes.append(f"the session was compacted {times} by Codex itself: its requests were shorter from there on")
    if rollout.rolled_back:
        turns = "1 turn that was" if rollout.rolled_back == 1 else f"{rollout.rolled_back:,} turns that were"
        notes.append(f"{turns} taken back: left out")
    if rollout.window > 0:
        notes.append(f"it ran in a window of {rollout.window:,} tokens: --window {rollout.window} replays it in that")
    recording = Recording(
        rollout.items,
        system=rollout.system,
        format="openai-responses",
        model=rollout.model,
        id=rollout.id or None,
        pending=False,
        billed=tuple(rollout.billed),
    )
    yield Read(recording, (*notes, _UNSEEN))


def glance(lines: Iterable[bytes]) -> Glance:
    """What a rollout says of the calls: only the lines of bills, models and the beginning are parsed."""
    rollout, project = _Rollout(), None
    rollout.begin_to_bill()
    for line in lines:
        if any(kind in line for kind in _KINDS_OF_REMARKS):
            fields = object_of(line)
            if fields.get("type") in ("session_meta", "turn_context", "event_msg"):
                rollout.add(fields)
            project = project or text_in(fields.get("payload"), "cwd")
    return Glance(project, rollout.model, tuple(rollout.billed))


@define
class _Rollout:
    """What a rollout has said so far."""

    items: list[dict[str, Any]] = field(factory=list)
    billed: list[Billed] = field(factory=list)
    id: str | None = None
    system: str | None = None
    model: str | None = None
    window: int = 0
    compacted: int = 0
    rolled_back: int = 0
    others: list[Fields] = field(factory=list)
    _total: Native = None
    _answered: int | None = None

    def add(self, line: Fields) -> None:
        """Take in one line."""
        kind, payload = line.get("type"), line.get("payload")
        if not isinstance(payload, Mapping):
            self._add_early(line)
        elif kind == "session_meta":
            self._begin(payload)
        elif kind == "turn_context":
            self.model = text_in(payload, "model") or self.model
        elif kind == "compacted":
            self.compacted += 1
        elif kind == "response_item":
            self._add_item(payload)
        elif kind == "event_msg":
            at = seconds(line.get("timestamp"))
            if payload.get("type") == "token_count":
                self._bill(payload.get("info"), at)
            elif payload.get("type") == "thread_rolled_back":
                turns = payload.get("num_turns")
                asked = [place for place, item in enumerate(self.items) if item.get("role") == "user"]
                if isinstance(turns, int) and 0 < turns <= len(asked):
                    del self.items[asked[-turns] :]
                    self.billed = [one for one in self.billed if one.index < len(self.items)]
                    self.rolled_back += turns
        else:
            self.others.append({"type": kind})

    def begin_to_bill(self) -> None:
        """Take bills as they come, whichever item they are for."""
        self._answered = 0

    def _begin(self, payload: Fields) -> None:
        if self.id is not None:  # a session that goes on from another begins with that one's line, too
            return
        self.id = text_in(payload, "id", "session_id") or ""
        self.system = text_in(payload.get("base_instructions"), "text") or text_in(payload, "instructions")

    def _add_early(self, line: Fields) -> None:
        kind = line.get("type")
        if "record_type" in line:
            return
        if "id" in line and "timestamp" in line and "type" not in line:
            self._begin(line)
        elif "role" in line if kind is None else str(kind).endswith(_ENDS_OF_ITEMS) or str(kind) in _NEVER_SENT:
            self._add_item(line)
        else:
            self.others.append({"type": kind})

    def _add_item(self, item: Fields) -> None:
        kind = item.get("type") or ("message" if "role" in item else None)
        if not isinstance(kind, str) or kind in _NEVER_SENT:
            return
        if not kind.endswith(_HEARD) and item.get("role", "assistant") == "assistant":
            self._answered = len(self.items)
        # a request has no field that is empty, nor the date of early versions
        fields = ((key, value) for key, value in item.items() if key not in ("type", "timestamp"))
        self.items.append(
            {"type": kind, **{key: value for key, value in fields if value is not None or key == "content"}}
        )

    def _bill(self, info: Native, at: float | None) -> None:
        """Note what a call was billed: an event may come again without one, with the same sum."""
        if not isinstance(info, Mapping) or self._answered is None:
            return
        window = info.get("model_context_window")
        self.window = window if isinstance(window, int) and not isinstance(window, bool) else self.window
        total, before = info.get("total_token_usage"), self._total
        if total is not None and total == before:
            return
        self._total = total
        usage = usage_of(info.get("last_token_usage"))
        if usage is None:  # the sums tell it
            usage, last = usage_of(total), usage_of(before)
            if usage is not None and last is not None:
                fresh, cached = max(0, usage.fresh - last.fresh), max(0, usage.cached - last.cached)
                usage = Usage(fresh, cached, 0, 0, max(0, usage.output - last.output))
        if usage is not None and (usage.prompt or usage.output):
            self.billed.append(Billed(self._answered, usage, self.model, at))
