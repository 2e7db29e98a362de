"""Rules of the Anthropic Messages API about tools: pairs, ids, inputs, server tools, tool choice.

Source: https://docs.anthropic.com/en/docs/agents-and-tools/tool-use; error texts as captured from the API.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise, takewhile

from agentctx.core.violation import Violation
from agentctx.wire.anthropic.request import Block, Request, Turn, refused, string
from agentctx.wire.native import mapping_or_none

_ID = r"^[a-zA-Z0-9_-]+$"
_SERVER_ID = r"^srvtoolu_[a-zA-Z0-9_]+$"
_INPUT_KINDS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})


def unanswered(request: Request) -> Iterator[Violation]:
    """Each ``tool_use`` is answered at the head of the next user turn."""
    for turn, answer in _rounds(request):
        given = {block.string("tool_use_id") for block in _leading_results(answer)}
        for entry in turn.entries:
            ids = [block.string("id") for block in entry.blocks if block.kind == "tool_use"]
            if missing := [call for call in ids if call is not None and call not in given]:
                yield refused(
                    "tool_use_unanswered",
                    entry,
                    f"{entry.path}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                    f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in "
                    "the next message.",
                )


def orphans(request: Request) -> Iterator[Violation]:
    """Each ``tool_result`` answers a ``tool_use`` of the assistant turn directly before it."""
    calls: set[str | None] = set()
    for turn in request.turns:
        if turn.role == "assistant":
            calls = {block.string("id") for block in turn.blocks if block.kind == "tool_use"}
            continue
        for block in _results(turn):
            name = block.string("tool_use_id")
            if name is not None and name not in calls:
                yield refused(
                    "tool_result_orphan",
                    block,
                    f"{block.path}: unexpected `tool_use_id` found in `tool_result` blocks: {name}. Each "
                    "`tool_result` block must have a corresponding `tool_use` block in the previous message.",
                )


def results_first(request: Request) -> Iterator[Violation]:
    """In a user turn all tool results stand before everything else. The provider says this in other words."""
    for turn in request.turns:
        if turn.role == "user":
            for block in _results(turn)[len(_leading_results(turn)) :]:
                yield refused(
                    "tool_result_late", block, f"{block.path}: `tool_result` blocks must come first in the content"
                )


def single_result(request: Request) -> Iterator[Violation]:
    """Each ``tool_use`` has one result."""
    for turn in request.turns:
        if turn.role == "user":
            for block, name in _repeated(_results(turn), "tool_use_id"):
                yield refused(
                    "tool_result_dup",
                    block,
                    f"{block.path}: each tool_use must have a single result. "
                    f"Found multiple `tool_result` blocks with id: {name}",
                )


def unique_calls(request: Request) -> Iterator[Violation]:
    """The ids of all ``tool_use`` blocks of the request differ."""
    for block, _ in _repeated((block for block in request.blocks if block.kind == "tool_use"), "id"):
        yield refused("tool_use_dup", block, f"{block.path}: `tool_use` ids must be unique")


def roles(request: Request) -> Iterator[Violation]:
    """Results stand in user messages, calls in assistant messages."""
    for block in request.blocks:
        if block.kind == "tool_result" and block.role != "user":
            text = f"messages.{block.message}: `tool_result` blocks can only be in `user` messages"
            yield refused("tool_result_role", block, text)
        elif block.kind in _INPUT_KINDS and block.role != "assistant":
            text = f"messages.{block.message}: `{block.kind}` blocks can only be in `assistant` messages"
            yield refused("tool_use_role", block, text)


def ids(request: Request) -> Iterator[Violation]:
    """Ids are there, and consist of the characters that they may have."""
    for block in request.blocks:
        key = "id" if block.kind in _INPUT_KINDS else "tool_use_id" if block.kind.endswith("tool_result") else ""
        if not key:
            continue
        path = f"{block.path}.{block.kind}.{key}"
        name = block.string(key)
        pattern = _SERVER_ID if block.kind == "server_tool_use" else _ID
        if name is None:
            wrong = "Field required" if block.data.get(key) is None else "Input should be a valid string"
            yield refused("tool_use_id_missing", block, f"{path}: {wrong}", path)
        elif not re.fullmatch(pattern[1:-1], name):
            yield refused("id_pattern", block, f"{path}: String should match pattern '{pattern}'", path)


def inputs(request: Request) -> Iterator[Violation]:
    """The input of a call is an object, and the call has a name."""
    for block in request.blocks:
        if block.kind not in _INPUT_KINDS:
            continue
        if mapping_or_none(block.data.get("input")) is None:
            path = f"{block.path}.{block.kind}.input"
            wrong = "Input should be a valid dictionary" if "input" in block.data else "Field required"
            yield refused("input_type", block, f"{path}: {wrong}", path)
        if not block.string("name"):
            path = f"{block.path}.{block.kind}.name"
            wrong = "Input should be a valid string" if "name" in block.data else "Field required"
            yield refused("tool_name_missing", block, f"{path}: {wrong}", path)


def programmatic(request: Request) -> Iterator[Violation]:
    """While calls made by code execution wait, the answering user turn holds tool results only."""
    for turn, answer in _rounds(request):
        if answer is None or answer.only_results or not any(_from_code(block) for block in turn.blocks):
            continue
        block = next(block for block in answer.blocks if block.kind != "tool_result")
        text = f"{block.path}: only `tool_result` blocks are allowed while programmatic tool calls are pending"
        yield refused("programmatic_mixed", block, text)


def server_pairs(request: Request) -> Iterator[Violation]:
    """A server tool's call and its result stand in one assistant turn, which only tool results may interrupt."""
    opened: set[str] = set()
    waiting: dict[str, Block] = {}
    for turn in request.turns:
        if turn.role == "user" and not turn.only_results:
            yield from map(_unpaired, waiting.values())
            waiting = {}
        for block in turn.blocks:
            if (call := _server_call(block)) is not None:
                opened.add(call)
                waiting[call] = block
            elif (call := _server_result(block)) is not None:
                waiting.pop(call, None)
                if call not in opened:
                    yield _unexpected(block, call)
    if not _may_wait(request, waiting):
        yield from map(_unpaired, waiting.values())
    else:
        yield from _without_tool(request, waiting.values())


def choice(request: Request) -> Iterator[Violation]:
    """``tool_choice`` may force a tool where the model takes that, and names one that there is."""
    wanted = request.option("tool_choice")
    kind, name = string(wanted, "type"), string(wanted, "name")
    if kind in {"any", "tool"} and not request.model.forced_choice:
        text = 'tool_choice: type "tool" and "any" are not supported for this model.'
        yield refused("tool_choice_forced", None, text, "tool_choice")
    if (
        kind == "tool"
        and name is not None
        and request.tools
        and all(tool.get("name") != name for tool in request.tools)
    ):
        text = f"tool_choice.name: Tool '{name}' not found in provided tools"
        yield refused("tool_choice_name", None, text, "tool_choice.name")


RULES = (
    unanswered,
    orphans,
    results_first,
    single_result,
    unique_calls,
    roles,
    ids,
    inputs,
    programmatic,
    server_pairs,
    choice,
)


def _rounds(request: Request) -> Iterator[tuple[Turn, Turn | None]]:
    """Each assistant turn with the user turn after it."""
    return ((turn, after) for turn, after in pairwise((*request.turns, None)) if turn and turn.role == "assistant")


def _results(turn: Turn) -> list[Block]:
    return [block for block in turn.blocks if block.kind == "tool_result"]


def _leading_results(turn: Turn | None) -> list[Block]:
    return [] if turn is None else list(takewhile(lambda block: block.kind == "tool_result", turn.blocks))


def _repeated(blocks: Iterable[Block], key: str) -> Iterator[tuple[Block, str]]:
    seen: set[str] = set()
    for block in blocks:
        if (name := block.string(key)) is None:
            continue
        if name in seen:
            yield block, name
        seen.add(name)


def _from_code(block: Block) -> bool:
    caller = mapping_or_none(block.data.get("caller")) or {}
    return block.kind == "tool_use" and (string(caller, "type") or "").startswith("code_execution")


def _server_call(block: Block) -> str | None:
    return block.string("id") if block.kind.endswith("_tool_use") else None


def _server_result(block: Block) -> str | None:
    return block.string("tool_use_id") if block.kind.endswith("_tool_result") else None


def _tool_of(block: Block) -> str:
    return "mcp" if block.kind == "mcp_tool_use" else block.string("name") or block.kind


def _unpaired(block: Block) -> Violation:
    tool = _tool_of(block)
    result = "tool_search" if tool.startswith("tool_search") else tool
    return refused(
        "server_tool_unpaired",
        block,
        f"{block.path}: `{tool}` tool use with id `{block.string('id')}` was found without a corresponding "
        f"`{result}_tool_result` block",
    )


def _unexpected(block: Block, call: str) -> Violation:
    return refused(
        "server_result_orphan",
        block,
        f"{block.path}: unexpected `tool_use_id` found in `{block.kind}` blocks: {call}. Each `{block.kind}` block "
        "must have a corresponding `server_tool_use` block before it.",
    )


def _may_wait(request: Request, waiting: dict[str, Block]) -> bool:
    """Whether server calls may be open at the end: the turn paused, or it waits for the caller's own tools."""
    last = next((turn for turn in reversed(request.turns) if turn.role == "assistant"), None)
    if last is None or any(block.kind == "tool_use" for block in last.blocks):
        return True
    indexes = {entry.index for entry in last.entries}
    return all(block.message in indexes for block in waiting.values())


def _without_tool(request: Request, waiting: Iterable[Block]) -> Iterator[Violation]:
    """An open call needs its tool; what does not say which tools there are is taken for a part of a request."""
    if not isinstance(request.data.get("tools"), (list, tuple)):
        return
    names = [f"{tool.get('name')} {tool.get('type')}" for tool in request.tools]
    for block in waiting:
        tool = _tool_of(block)
        family = "code_execution" if tool.endswith("code_execution") else tool
        if block.kind == "server_tool_use" and not any(family in name for name in names):
            text = (
                f"{block.path}: `{tool}` tool use with id `{block.string('id')}` was found, "
                f"but no `{family}` tool was provided"
            )
            yield refused("server_tool_missing", block, text)
