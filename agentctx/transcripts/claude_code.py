"""Claude Code's sessions: ``~/.claude/projects/<project>/<session>.jsonl``, read as the requests to Anthropic were.

What ``claude -p --output-format stream-json`` prints is read, too; there, lines simply follow each other.

A line is a block of an answer as it was streamed, what the user or a tool said, or a remark of the program. Lines name
the one before them, so that a session is a tree: who goes back and says something else begins a branch, and what counts
is the one that ends last. Calls made at once are branches, too, and their results belong to the conversation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field, frozen

from agentctx.errors import InvalidInput
from agentctx.message import Native
from agentctx.replay import Billed, Recording
from agentctx.transcripts.costs import number, seconds, usage_of
from agentctx.transcripts.files import (
    Fields,
    Glance,
    LogLines,
    Read,
    left_out,
    object_in,
    object_of,
    objects_in,
    text_in,
)

NAME = "Claude Code"

_UNSEEN = "the log holds neither system prompt nor tools: what was billed is larger than what is counted"
_SYNTHETIC = "<synthetic>"

_SAID_IN = frozenset({"user", "assistant"})
_REMARKS = frozenset(
    {"agent-color", "agent-name", "agent-setting", "ai-title", "attachment", "attribution-snapshot", "auth_status"}
    | {"content-replacement", "control_request", "control_response", "custom-title", "file-history-snapshot"}
    | {"keep_alive", "last-prompt", "mode", "permission-mode", "pr-link", "progress", "queue-operation"}
    | {"rate_limit_event", "result", "speculation-accept", "stream_event", "summary", "system", "tag", "task-summary"}
    | {"tool_progress", "tool_use_summary", "worktree-state"}
)
"""Kinds of lines that are the program's own."""


def read(lines: LogLines) -> Iterator[Read]:
    """The conversation of a session, then those of its sub-agents.

    Raises:
        InvalidInput: If the model has said nothing in it, and nothing was said to it.
    """
    log, others = _Log(), list[Fields]()
    for _, line in lines:
        log.add(line)
        kind = str(line.get("type"))
        if kind not in _REMARKS and not (kind in _SAID_IN and isinstance(line.get("message"), Mapping)):
            others.append({"type": line.get("type")})
    if not log.said:
        raise InvalidInput(lines.name, "this is a Claude Code session in which nothing was said: no model was called")
    main = [said for said in log.said if not said.side]
    chains: dict[str | None, list[_Said]] = {}  # of sub-agents, by the agent's name, or by how the chain begins
    for one in log.said:
        if one.side:
            chains.setdefault(one.agent or log.root(one.uuid), []).append(one)
    if not main:
        agent, main = next(iter(chains.items()))
        del chains[agent]
    notes = (
        *lines.notes,
        *left_out(others),
        _UNSEEN,
        *_of(len(chains), "side chain", "of sub-agents stands apart: --all replays it too"),
    )
    yield _read(log, main, log.id, notes)
    for place, (agent, said) in enumerate(chains.items(), 1):
        yield _read(log, said, f"{log.id}/{agent or place}", ())


def glance(lines: Iterable[bytes]) -> Glance:
    """What a session's file says of the calls: only the lines of answers are parsed."""
    billed: dict[int, Billed] = {}
    places: dict[str, int] = {}
    project = None
    for line in lines:
        begins = project is None and b'"cwd"' in line
        if not begins and not (b'"usage"' in line and b'"assistant"' in line):
            continue
        fields = object_of(line)
        project = project or text_in(fields, "cwd")
        message = _seen_by_the_model(fields)
        if message is not None and fields["type"] == "assistant":
            answer = text_in(message, "id") or f"line {len(places)}"
            said = _said(None, message, fields)
            _bill(billed, places.setdefault(answer, len(places)), said)
    calls = tuple(billed.values())
    return Glance(project, next((one.model for one in reversed(calls) if one.model), None), calls)


@frozen
class _Said:
    """One line that the model saw or wrote.

    Args:
        uuid: Its name, which the next line refers to.
        message: Its part of a message, as Anthropic has it.
        side: Whether a sub-agent's conversation holds it.
        agent: The sub-agent's name, when the line has one.
        at: When, in seconds since 1970.
        cost: What the program says that it cost, in USD.
        summary: Whether the program wrote it to stand for all before it.
    """

    uuid: str | None
    message: Fields
    side: bool
    agent: str | None
    at: float | None
    cost: float | None
    summary: bool


def _said(uuid: str | None, message: Fields, line: Fields) -> _Said:
    return _Said(
        uuid,
        message,
        side=_is_side(line),
        agent=_agent(line),
        at=seconds(line.get("timestamp")),
        cost=number(line.get("costUSD")),
        summary=line.get("isCompactSummary") is True,
    )


@define
class _Log:
    """What a session's file holds."""

    said: list[_Said] = field(factory=list)
    parents: dict[str, str | None] = field(factory=dict)
    id: str | None = None
    _last: dict[str | None, str] = field(factory=dict)

    def add(self, line: Fields) -> None:
        """Take in one line."""
        uuid = text_in(line, "uuid")
        if self.id is None:
            self.id = text_in(line, "sessionId", "session_id")
        if uuid is not None and uuid in self.parents:  # a session that was taken up again holds lines twice
            return
        side = _is_side(line)
        if uuid is not None:
            chain = _agent(line) or "side" if side else None
            self.parents[uuid] = self._parent(line, chain)
            self._last[chain] = uuid
        if (message := _seen_by_the_model(line)) is not None:
            self.said.append(_said(uuid, message, line))

    def _parent(self, line: Fields, chain: str | None) -> str | None:
        """The line that one stands on: where a summary, or another file, lies between them, the one before it."""
        parent = text_in(line, "parentUuid", "logicalParentUuid")
        if parent in self.parents:
            return parent
        summed = line.get("subtype") == "compact_boundary" or line.get("isCompactSummary") is True
        begins = parent is None and "parentUuid" in line and not summed
        return None if begins else self._last.get(chain)

    def root(self, uuid: str | None) -> str | None:
        """The name of the first line that a line stands on."""
        seen: set[str] = set()
        while uuid is not None and uuid not in seen and self.parents.get(uuid) is not None:
            seen.add(uuid)
            uuid = self.parents[uuid]
        return uuid


def _read(log: _Log, said: Sequence[_Said], name: str | None, notes: tuple[str, ...]) -> Read:
    kept = _last_branch(log, said)
    messages, billed = _joined(kept)
    notes = (*notes, *_of(len(said) - len(kept), "line", "of branches that were left is not read"))
    notes = (
        *notes,
        *_of(sum(one.summary for one in kept), "summary", "of its own stands in it, which made it shorter"),
    )
    model = next((one.model for one in reversed(billed) if one.model is not None), None)
    recording = Recording(messages, format="anthropic", model=model, id=name, pending=False, billed=tuple(billed))
    return Read(recording, notes)


def _of(count: int, what: str, said: str) -> tuple[str, ...]:
    if not count:
        return ()
    many = f"{what.removesuffix('y')}ies" if what.endswith("y") else f"{what}s"
    several = said.replace("stands", "stand").replace("is not", "are not").replace("replays it", "replays them")
    return (f"1 {what} {said}",) if count == 1 else (f"{count:,} {many} {several}",)


def _last_branch(log: _Log, said: Sequence[_Said]) -> list[_Said]:
    """What stands on the branch that ends last, with all blocks of its answers, and the results of its calls."""
    last = next((one.uuid for one in reversed(said) if one.uuid is not None), None)
    if last is None:
        return list(said)
    branch: set[str | None] = set()  # the last line, and all that it stands on
    while last is not None and last not in branch:
        branch.add(last)
        last = log.parents.get(last)
    on_it = [one for one in said if one.uuid is None or one.uuid in branch]
    answers = {text_in(one.message, "id") for one in on_it if one.message.get("role") == "assistant"} - {None}
    whole = [one for one in said if one.uuid in branch or one.uuid is None or text_in(one.message, "id") in answers]
    calls = {text_in(block, "id") for one in whole for block in _blocks(one.message) if block.get("type") == "tool_use"}
    kept = {id(one) for one in whole}
    return [one for one in said if id(one) in kept or _answers_only(one.message, calls)]


def _answers_only(message: Fields, calls: set[str | None]) -> bool:
    results = [block for block in _blocks(message) if block.get("type") == "tool_result"]
    return bool(results) and all(text_in(block, "tool_use_id") in calls for block in results)


def _joined(said: Iterable[_Said]) -> tuple[list[Native], list[Billed]]:
    """The messages as a request has them: one for each answer, one for all that stands between two answers."""
    messages: list[dict[str, Any]] = []
    answers: dict[str, int] = {}
    billed: dict[int, Billed] = {}
    for one in said:
        if one.message.get("role") != "assistant":
            _hear(messages, one.message)
            continue
        answer = one.message.get("id")
        place = answers.get(answer) if isinstance(answer, str) else None
        if place is None:
            place = len(messages)
            messages.append({"role": "assistant", "content": []})
            if isinstance(answer, str):
                answers[answer] = place
        calls = {text_in(block, "id") for block in _blocks(messages[place])} - {None}
        for block in _as_blocks(one.message["content"]):
            call = isinstance(block, Mapping) and block.get("type") == "tool_use" and text_in(block, "id")
            if call not in calls:
                messages[place]["content"].append(block)
        _bill(billed, place, one)
    return messages, [billed[place] for place in sorted(billed)]


def _hear(messages: list[dict[str, Any]], message: Fields) -> None:
    """Add what the user or a tool said; results go first, as Anthropic wants them."""
    if not messages or messages[-1]["role"] != "user":
        messages.append({"role": "user", "content": message["content"]})
        return
    before, more = _as_blocks(messages[-1]["content"]), _as_blocks(message["content"])
    both = [*before, *more]
    results = [block for block in both if isinstance(block, Mapping) and block.get("type") == "tool_result"]
    rest = [block for block in both if not (isinstance(block, Mapping) and block.get("type") == "tool_result")]
    messages[-1]["content"] = [*results, *rest]


def _bill(billed: dict[int, Billed], place: int, said: _Said) -> None:
    """Note what an answer was billed: each of its lines repeats it, the last one with the whole output."""
    usage = usage_of(said.message.get("usage"))
    if usage is None:
        return
    now = Billed(place, usage, text_in(said.message, "model"), said.at, said.cost)
    before = billed.get(place)
    if before is not None:
        output = max(before.usage.output, usage.output)
        cost = now.cost if before.cost is None else before.cost + (now.cost or 0.0)
        now = evolve(now, usage=evolve(usage, output=output), at=before.at, cost=cost)
    billed[place] = now


def _seen_by_the_model(line: Fields) -> dict[str, Any] | None:
    """The message of a line that the model saw or wrote; None for remarks of the program, and errors that it shows.

    What the program says in the user's place (``isMeta``) is sent to the model, and stays.
    """
    message = line.get("message")
    if line.get("type") == "attachment":
        attachment = object_in(line, "attachment")  # what the user said while the model worked, or the program's own
        if attachment.get("type") != "queued_command":
            return None
        prompt = attachment.get("prompt")
        return {"role": "user", "content": prompt} if prompt and isinstance(prompt, (str, list)) else None
    if line.get("type") not in ("user", "assistant") or not isinstance(message, Mapping):
        return None
    if line.get("isApiErrorMessage") or message.get("model") == _SYNTHETIC:
        return None
    if line.get("isVisibleInTranscriptOnly") and not line.get("isCompactSummary"):
        return None
    content = message.get("content")
    if not content or not isinstance(content, (str, list)):
        return None
    return {**message, "role": line["type"]}


def _is_side(line: Fields) -> bool:
    return line.get("isSidechain") is True or isinstance(line.get("parent_tool_use_id"), str)


def _agent(line: Fields) -> str | None:
    return text_in(line, "agentId", "parent_tool_use_id")


def _as_blocks(content: Native) -> list[Native]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _blocks(message: Fields) -> list[Fields]:
    return objects_in(message, "content")
