"""The rules that make an Anthropic Messages request valid, each a small function, in one ordered list.

Error texts as captured from the API; a text for which there is no recording says what the documentation says.

The requests of one conversation are validated without a look at all of their messages again: ``GrowingMessages``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise, takewhile
from typing import Any

from attrs import frozen

from agentctx.formats.anthropic import REASONING, Traits, traits
from agentctx.formats.native import mapping_or_none, string_of
from agentctx.message import CONTROL
from agentctx.models.profile import ModelProfile
from agentctx.rules.rule import (
    NOTHING,
    Comparison,
    Entry,
    LaidOut,
    Place,
    Rule,
    Severity,
    Turn as TurnOf,
    checked,
    entries_of,
    in_order,
    refusing,
    turns_of,
)
from agentctx.tokens.media import image_size
from agentctx.wire_format import Violation, WireFormat

THINKING = frozenset({"thinking", "redacted_thinking"})

refused = refusing("anth", "messages")


def refused_at(rule: str, at: Place, text: str, inner: str = "", severity: Severity = "error") -> Violation:
    """A violation whose words begin with its place: that of a message or of a block, or one within."""
    path = f"{at.path}{inner}"
    return refused(rule, at, f"{path}: {text}", path, severity)


@frozen
class ContentBlock:
    """One content block.

    Args:
        kind: Its type; empty when it has none.
    """

    index: int | None
    path: str
    role: str
    kind: str
    data: Mapping[str, Any]

    def string(self, key: str) -> str | None:
        """The value of a key when it is a string."""
        return string_of(self.data, key)

    @property
    def inner(self) -> tuple[ContentBlock, ...]:
        """The blocks in the content of a tool result; a string is no block."""
        content = self.data.get("content")
        if self.kind != "tool_result" or not isinstance(content, (list, tuple)):
            return ()
        return _blocks(content, self.index, f"{self.path}.tool_result.content", self.role)


Message = Entry[ContentBlock]
Turn = TurnOf[ContentBlock]


@frozen
class MessagesRequest(LaidOut[ContentBlock]):
    """A request, laid out."""

    tools: tuple[Mapping[str, Any], ...]
    model: Traits

    def option(self, key: str) -> Mapping[str, Any]:
        """An option of the request that is an object; empty when it is not."""
        return mapping_or_none(self.data.get(key)) or NOTHING


def lay_out(data: Mapping[str, Any], profile: ModelProfile | None) -> MessagesRequest:
    """Lay a request out; without a profile its model is known by its name."""
    tools = data.get("tools")
    entries = tuple(entries_of(data.get("messages"), mapping_or_none, _blocks))
    return MessagesRequest(
        data,
        entries,
        tuple(turns_of(entries)),
        _blocks(data.get("system"), None, "system", "system"),
        tuple(mapping_or_none(tool) or NOTHING for tool in (tools if isinstance(tools, (list, tuple)) else ())),
        traits(string_of(data, "model"), profile),
    )


def _blocks(content: object, index: int | None, path: str, role: str) -> tuple[ContentBlock, ...]:
    if isinstance(content, str):
        return (ContentBlock(index, path, role, "text", {"type": "text", "text": content}),)
    if not isinstance(content, (list, tuple)):
        return ()
    opened = enumerate(mapping_or_none(native) or NOTHING for native in content)
    return tuple(
        ContentBlock(index, f"{path}.{place}", role, string_of(data, "type") or "", data) for place, data in opened
    )


def only_results(turn: Turn) -> bool:
    """Whether it is nothing but tool results."""
    return turn.role == "user" and all(block.kind == "tool_result" for block in turn.blocks)


_UNSEEN = frozenset({"compaction", "fallback"})


def leads_round(request: MessagesRequest) -> Iterator[Violation]:
    """With manual thinking the open tool round starts with its reasoning."""
    if request.option("thinking").get("type") != "enabled":
        return
    for turn in open_round(request):
        if turn.role != "assistant" or not any(block.kind == "tool_use" for block in turn.blocks):
            continue
        first = next((block for block in turn.blocks if block.kind not in _UNSEEN), None)
        if first is not None and first.kind not in THINKING:
            yield refused(
                "thinking_missing",
                first,
                f"{first.path}.type: Expected `thinking` or `redacted_thinking`, but found `{first.kind}`. When "
                "`thinking` is enabled, a final `assistant` message must start with a thinking block (preceding the "
                "lastmost set of `tool_use` and `tool_result` blocks).",
            )
        # Later steps of the round need none: without interleaved thinking the model reasons once, at its start.
        return


def signatures(request: MessagesRequest) -> Iterator[Violation]:
    """Reasoning is signed. A block of a stream that broke off is not; some endpoints let it pass."""
    for block in request.blocks:
        if block.kind == "thinking" and not block.string("signature"):
            yield refused_at("signature_missing", block, "Invalid `signature` in `thinking` block", severity="warn")


def compaction(request: MessagesRequest) -> Iterator[Violation]:
    """A compaction block has text, or null when the compaction failed; never the empty string.

    A signed one is the very first block of the messages, and the only one. Compaction on demand and context editing are
    not asked for together.
    """
    for block in request.blocks:
        if block.kind == "compaction" and block.data.get("content") == "":
            yield refused_at("compaction_empty", block, "compaction content must be non-empty", ".compaction.content")
    signed = [block for block in request.blocks if block.kind == "compaction" and block.string("signature")]
    first = next(request.blocks, None)
    for number, block in enumerate(signed):
        if number:
            text = "compaction_block_ambiguous: exactly one signed compaction block may be sent"
            yield refused_at("compaction_ambiguous", block, text)
        elif block is not first:
            text = "compaction_block_misplaced: the compaction block must be the first block of messages"
            yield refused_at("compaction_misplaced", block, text)
    if request.option("compaction") and request.option("context_management"):
        text = "compaction: cannot be combined with `context_management`"
        yield refused("compaction_conflict", None, text, "compaction")


def edits(request: MessagesRequest) -> Iterator[Violation]:
    """Reasoning is cleared before uses of tools, and only where the request thinks."""
    asked = request.option("context_management").get("edits")
    kinds = [(mapping_or_none(edit) or NOTHING).get("type") for edit in (asked if isinstance(asked, list) else ())]
    if REASONING not in kinds:
        return
    if request.option("thinking").get("type") not in ("enabled", "adaptive"):
        text = f"`{REASONING}` strategy requires `thinking` to be enabled or adaptive"
        yield refused("clearing_needs_thinking", None, text, "context_management.edits")
    if kinds[0] != REASONING:
        text = f"context_management.edits: `{REASONING}` must be the first edit"
        yield refused("clearing_order", None, text, "context_management.edits")


def open_round(request: MessagesRequest) -> tuple[Turn, ...]:
    """The turns after the last user turn that is not only tool results."""
    turns = request.turns
    ends = (n for n in range(len(turns), 0, -1) if turns[n - 1].role == "user" and not only_results(turns[n - 1]))
    return turns[next(ends, 0) :]


def thoughts(request: MessagesRequest) -> list[ContentBlock]:
    """The reasoning blocks that the provider can recognise again, in order."""
    return [block for block in request.blocks if block.kind in THINKING and seal(block)]


def seal(block: ContentBlock) -> str | None:
    """What the provider recognises a reasoning block by: its signature, or its encrypted content."""
    return block.string("data") if block.kind == "redacted_thinking" else block.string("signature")


_SIGNED_KEYS = frozenset({"encrypted_content", "encrypted_index", "encrypted_stdout"})


def sealed(request: MessagesRequest, before: MessagesRequest) -> Iterator[Violation]:
    """Reasoning says what it said when it was signed, and bears a signature that the provider gave."""
    known = {seal(block): block for block in thoughts(before)}
    latest = _latest_message(request)
    for block in thoughts(request):
        original = known.get(seal(block))
        if original is not None and original.data.get("thinking") == block.data.get("thinking"):
            continue
        if original is not None or block.index == latest:
            yield _modified(block)
        else:
            yield refused_at("signature_invalid", block, f"Invalid `signature` in `{block.kind}` block")


def latest_whole(request: MessagesRequest, before: MessagesRequest) -> Iterator[Violation]:
    """The reasoning of the latest assistant message is sent back all or not at all, in its order."""
    latest = _latest_message(request)
    kept = [block for block in thoughts(request) if block.index == latest]
    originals = thoughts(before)
    homes = {seal(block): block.index for block in originals}
    if not kept or any(seal(block) not in homes for block in kept):
        return
    home = homes[seal(kept[0])]
    if [seal(block) for block in kept] != [seal(block) for block in originals if block.index == home]:
        yield _modified(kept[0])


def manual_whole(request: MessagesRequest, before: MessagesRequest) -> Iterator[Violation]:
    """With manual thinking, the steps of the open tool round keep the reasoning that the model took them with."""
    if request.option("thinking").get("type") != "enabled":
        return
    led = {call: entry for entry in before.entries for call in _calls(entry) if _thinks(entry)}
    answering = [entry for turn in open_round(request) for entry in turn.entries if entry.role == "assistant"]
    for entry in answering[1:]:  # the first one has a rule of its own
        if not _thinks(entry) and any(call in led for call in _calls(entry)):
            yield _modified(entry.blocks[0])


def bound(request: MessagesRequest, before: MessagesRequest) -> Iterator[Violation]:
    """On models that bind reasoning, all that the model had read before each kept block is still there, unchanged."""
    binding = mapping_or_none(request.option("thinking").get("block_binding")) or {}
    if not request.model.bound_thinking or binding.get("prefix_mismatch_behavior") == "drop_block":
        return
    now, then = _strand(request), _strand(before)
    origin = {seal(block): number for number, (block, _) in enumerate(then.thoughts)}
    matched = [(block, place, origin[seal(block)]) for block, place in now.thoughts if seal(block) in origin]
    shift = 0  # so many blocks a new compaction block stands for
    if now.start != then.start and matched:
        _, place, number = matched[0]
        shift = max(0, then.thoughts[number][1] - place)
    common = -1  # so many blocks are the same from the start; a compaction block may stand for all that was before it
    if (now.start is not None or then.start is None) and _fixed(request) == _fixed(before):
        common = 0
        with suppress(RecursionError):  # nested deeper than any request that the provider reads
            for one, other in zip(now.content, then.content[shift:], strict=False):
                if one != other:
                    break
                common += 1
    previous: int | None = None
    for block, place, number in matched:
        gap = previous is not None and number != previous + 1
        if gap or place > common or then.thoughts[number][1] != place + shift:
            where = ""
            if 0 <= common < place:
                where = (
                    " Content that preceded this block when it was created is missing from this request, "
                    f"starting at `{now.blocks[common].path}`."
                )
            yield refused_at(
                "thinking_bound",
                block,
                "Invalid `signature` in `thinking` block. The block is bound to a different "
                "conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "
                f'"drop_block".{where}',
            )
            return
        previous = number


def encrypted(request: MessagesRequest, before: MessagesRequest) -> Iterator[Violation]:
    """Encrypted bytes of server results, citations and compaction blocks go back as they came."""
    known = {value for block in before.blocks for value in _encrypted(block)}
    for block in request.blocks:
        if any(value not in known for value in _encrypted(block)):
            yield refused_at("encrypted_modified", block, f"Invalid `encrypted_content` in `{block.kind}` block")


RULES_OF_WHAT_CAME_BEFORE: tuple[Comparison[MessagesRequest], ...] = (
    sealed, latest_whole, manual_whole, bound, encrypted,
)  # fmt: skip


@frozen
class _Strand:
    """What reasoning is bound to, from the newest compaction block on.

    Args:
        blocks: Everything after it that is no reasoning.
        thoughts: Each reasoning block with the number of ``blocks`` before it.
    """

    start: Mapping[str, Any] | None
    blocks: Sequence[ContentBlock]
    content: Sequence[object]
    thoughts: Sequence[tuple[ContentBlock, int]]


def _strand(request: MessagesRequest) -> _Strand:
    start: Mapping[str, Any] | None = None
    blocks: list[ContentBlock] = []
    found: list[tuple[ContentBlock, int]] = []
    for block in request.blocks:
        if block.kind == "compaction" and block.string("content"):
            start, blocks, found = _plain(block.data), [], []
        elif block.kind not in THINKING:
            blocks.append(block)
        elif seal(block):
            found.append((block, len(blocks)))
    return _Strand(start, blocks, [(block.role, _plain(block.data)) for block in blocks], found)


def _fixed(request: MessagesRequest) -> tuple[object, object]:
    """The system prompt and the tools that are in the prompt from the start."""
    tools = [_plain(tool) for tool in request.tools if tool.get("defer_loading") is not True]
    return [_plain(block.data) for block in request.system], tools


def _plain(data: Mapping[str, Any]) -> dict[str, Any]:
    """A block as the model reads it: without cache markers and unset keys, a lone string as a text block."""
    plain = {key: value for key, value in data.items() if key != CONTROL and value is not None}
    content = plain.get("content")
    if isinstance(content, str) and data.get("type") == "tool_result":
        plain["content"] = [{"type": "text", "text": content}] if content else []
    elif isinstance(content, (list, tuple)):
        plain["content"] = [item if (inner := mapping_or_none(item)) is None else _plain(inner) for item in content]
    return plain


def _calls(entry: Message) -> list[str]:
    return [call for block in entry.blocks if block.kind == "tool_use" and (call := block.string("id")) is not None]


def _thinks(entry: Message) -> bool:
    return any(block.kind in THINKING for block in entry.blocks)


def _latest_message(request: MessagesRequest) -> int | None:
    return next((entry.index for entry in reversed(request.entries) if entry.role == "assistant"), None)


def _modified(block: ContentBlock) -> Violation:
    return refused_at(
        "thinking_modified",
        block,
        "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
        "These blocks must remain as they were in the original response.",
    )


def _encrypted(block: ContentBlock) -> Iterator[str]:
    """The encrypted strings in a block of the server's, or in the citations of a text."""
    waiting: list[object] = []
    if block.kind == "compaction" or (block.kind.endswith("_tool_result") and block.role == "assistant"):
        waiting.append(block.data)
    elif block.kind == "text":
        waiting.append(block.data.get("citations"))
    while waiting:
        value = waiting.pop()
        if isinstance(value, (list, tuple)):
            waiting.extend(value)
        elif (mapping := mapping_or_none(value)) is not None:
            yield from (text for key in _SIGNED_KEYS if isinstance(text := mapping.get(key), str))
            waiting.extend(mapping.values())


_MOST = 4


@frozen
class Marker:
    """One cache marker.

    Args:
        block: The block that carries it; None on a tool and on the request itself.
    """

    block: ContentBlock | None
    path: str
    ttl: str


def count(request: MessagesRequest) -> Iterator[Violation]:
    """At most four markers; the automatic one of the request takes a place."""
    if (found := len(list(_markers(request)))) > _MOST:
        text = f"A maximum of {_MOST} blocks with cache_control may be provided. Found {found}."
        yield refused("cache_max4", None, text)


def order(request: MessagesRequest) -> Iterator[Violation]:
    """Markers of an hour stand before markers of five minutes; tools come first, then system, then messages."""
    short = False
    for marker in _markers(request):
        if marker.ttl == "1h" and short:
            path = f"{marker.path}.ttl"
            yield refused(
                "cache_ttl_order",
                marker.block,
                f"{path}: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note "
                "that blocks are processed in the following order: `tools`, `system`, `messages`.",
                path,
            )
        short = short or marker.ttl != "1h"


def places(request: MessagesRequest) -> Iterator[Violation]:
    """Thinking, empty text, messages that will be cleared and deferred tools carry no marker."""
    cleared = {entry.index for entry in request.entries if string_of(entry.data, "clear_at") not in (None, "never")}
    for marker in _markers(request):
        block = marker.block
        if block is None:
            continue
        if block.kind in THINKING:
            inner = f".{block.kind}.cache_control"
            yield refused_at("cache_on_thinking", block, "Extra inputs are not permitted", inner)
        elif block.kind == "text" and block.data.get("text") == "":
            yield refused_at("cache_on_empty", block, "cache_control cannot be set for empty text blocks", ".text")
        elif block.index in cleared:
            text = f"{marker.path}: cache_control cannot be set on messages with `clear_at`"
            yield refused("cache_on_clear_at", block, text, marker.path)
    for index, tool in enumerate(request.tools):
        if tool.get("defer_loading") is True and marker_of(tool) is not None:
            path = f"tools.{index}.cache_control"
            text = f"{path}: cache_control cannot be set on tools with `defer_loading`"
            yield refused("cache_on_deferred", None, text, path)


def marker_of(data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The marker that a block, a tool or the request carries, or None."""
    return mapping_or_none(data.get(CONTROL))


def _markers(request: MessagesRequest) -> Iterator[Marker]:
    """All markers in the order in which the provider reads them."""
    for index, tool in enumerate(request.tools):
        yield from _marker(tool, None, f"tools.{index}")
    for block in (*request.system, *request.blocks):
        for inner in block.inner:
            yield from _marker(inner.data, inner, inner.path)
        yield from _marker(block.data, block, block.path)
    # The automatic marker lies on the last block that can carry one.
    yield from _marker(request.data, None, "")


def _marker(data: Mapping[str, Any], block: ContentBlock | None, path: str) -> Iterator[Marker]:
    if (found := marker_of(data)) is not None:
        yield Marker(block, f"{path}.cache_control".removeprefix("."), string_of(found, "ttl") or "5m")


_SMALL_WINDOW = 200_000
_FEW = 20
_LONGEST_SIDE = 2_000


def images(request: MessagesRequest) -> Iterator[Violation]:
    """At most 600 images, on models with a window of 200,000 tokens 100; also those in tool results count.

    In a request of more than 20, none is longer than 2000 pixels on either side.
    """
    window = request.model.window
    most = 100 if window is not None and window <= _SMALL_WINDOW else 600
    each_image = [each for block in request.blocks for each in (block, *block.inner) if each.kind == "image"]
    if len(each_image) > most:
        yield refused("images_max", None, f"messages: at most {most} images are allowed, found {len(each_image)}")
    for block in each_image if len(each_image) > _FEW else ():
        source = mapping_or_none(block.data.get("source")) or NOTHING
        size = image_size(string_of(source, "data") or "")
        if size is not None and max(size) > _LONGEST_SIDE:
            text = (
                "At least one of the image dimensions exceed max allowed size for many-image requests: "
                f"{_LONGEST_SIDE} pixels"
            )
            yield refused_at("image_side", block, text, ".image.source")


ID = r"^[a-zA-Z0-9_-]+$"
_SERVER_ID = r"^srvtoolu_[a-zA-Z0-9_]+$"
_INPUT_KINDS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})


def unanswered(request: MessagesRequest) -> Iterator[Violation]:
    """Each ``tool_use`` is answered at the head of the next user turn."""
    for turn, answer in _rounds(request):
        given = {block.string("tool_use_id") for block in _leading_results(answer)}
        for entry in turn.entries:
            ids = [block.string("id") for block in entry.blocks if block.kind == "tool_use"]
            if missing := [call for call in ids if call is not None and call not in given]:
                yield refused_at(
                    "tool_use_unanswered",
                    entry,
                    "`tool_use` ids were found without `tool_result` blocks immediately after: "
                    f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in "
                    "the next message.",
                )


def orphans(request: MessagesRequest) -> Iterator[Violation]:
    """Each ``tool_result`` answers a ``tool_use`` of the assistant turn directly before it."""
    calls: set[str | None] = set()
    for turn in request.turns:
        if turn.role == "assistant":
            calls = {block.string("id") for block in turn.blocks if block.kind == "tool_use"}
            continue
        for block in _results(turn):
            name = block.string("tool_use_id")
            if name is not None and name not in calls:
                yield refused_at(
                    "tool_result_orphan",
                    block,
                    f"unexpected `tool_use_id` found in `tool_result` blocks: {name}. Each "
                    "`tool_result` block must have a corresponding `tool_use` block in the previous message.",
                )


def results_first(request: MessagesRequest) -> Iterator[Violation]:
    """In a user turn all tool results stand before everything else. The provider says this in other words."""
    for turn in request.turns:
        if turn.role == "user":
            for block in _results(turn)[len(_leading_results(turn)) :]:
                yield refused_at("tool_result_late", block, "`tool_result` blocks must come first in the content")


def single_result(request: MessagesRequest) -> Iterator[Violation]:
    """Each ``tool_use`` has one result."""
    for turn in request.turns:
        if turn.role == "user":
            for block, name in _repeated(_results(turn), "tool_use_id"):
                text = f"each tool_use must have a single result. Found multiple `tool_result` blocks with id: {name}"
                yield refused_at("tool_result_dup", block, text)


def unique_calls(request: MessagesRequest) -> Iterator[Violation]:
    """The ids of all ``tool_use`` blocks of the request differ."""
    for block, _ in _repeated((block for block in request.blocks if block.kind == "tool_use"), "id"):
        yield refused_at("tool_use_dup", block, "`tool_use` ids must be unique")


def roles(request: MessagesRequest) -> Iterator[Violation]:
    """Results stand in user messages, calls in assistant messages."""
    for block in request.blocks:
        if block.kind == "tool_result" and block.role != "user":
            text = f"messages.{block.index}: `tool_result` blocks can only be in `user` messages"
            yield refused("tool_result_role", block, text)
        elif block.kind in _INPUT_KINDS and block.role != "assistant":
            text = f"messages.{block.index}: `{block.kind}` blocks can only be in `assistant` messages"
            yield refused("tool_use_role", block, text)


def ids(request: MessagesRequest) -> Iterator[Violation]:
    """Ids are there, and consist of the characters that they may have."""
    for block in request.blocks:
        key = "id" if block.kind in _INPUT_KINDS else "tool_use_id" if block.kind.endswith("tool_result") else ""
        if not key:
            continue
        inner, name = f".{block.kind}.{key}", block.string(key)
        pattern = _SERVER_ID if block.kind == "server_tool_use" else ID
        if name is None:
            wrong = "Field required" if block.data.get(key) is None else "Input should be a valid string"
            yield refused_at("tool_use_id_missing", block, wrong, inner)
        elif not re.fullmatch(pattern[1:-1], name):
            yield refused_at("id_pattern", block, f"String should match pattern '{pattern}'", inner)


def inputs(request: MessagesRequest) -> Iterator[Violation]:
    """The input of a call is an object, and the call has a name."""
    for block in request.blocks:
        if block.kind not in _INPUT_KINDS:
            continue
        if mapping_or_none(block.data.get("input")) is None:
            wrong = "Input should be a valid dictionary" if "input" in block.data else "Field required"
            yield refused_at("input_type", block, wrong, f".{block.kind}.input")
        if not block.string("name"):
            wrong = "Input should be a valid string" if "name" in block.data else "Field required"
            yield refused_at("tool_name_missing", block, wrong, f".{block.kind}.name")


def programmatic(request: MessagesRequest) -> Iterator[Violation]:
    """While calls made by code execution wait, the answering user turn holds tool results only."""
    for turn, answer in _rounds(request):
        callers = [mapping_or_none(block.data.get("caller")) or {} for block in turn.blocks if block.kind == "tool_use"]
        by_code = any((string_of(caller, "type") or "").startswith("code_execution") for caller in callers)
        if answer is None or only_results(answer) or not by_code:
            continue
        block = next(block for block in answer.blocks if block.kind != "tool_result")
        text = "only `tool_result` blocks are allowed while programmatic tool calls are pending"
        yield refused_at("programmatic_mixed", block, text)


def server_pairs(request: MessagesRequest) -> Iterator[Violation]:
    """A server tool's call and its result stand in one assistant turn, which only tool results may interrupt."""
    opened: set[str] = set()
    waiting: dict[str, ContentBlock] = {}
    for turn in request.turns:
        if turn.role == "user" and not only_results(turn):
            yield from map(_unpaired, waiting.values())
            waiting = {}
        for block in turn.blocks:
            call = block.string("id") if block.kind.endswith("_tool_use") else None
            answered = block.string("tool_use_id") if block.kind.endswith("_tool_result") else None
            if call is not None:
                opened.add(call)
                waiting[call] = block
            elif answered is not None:
                waiting.pop(answered, None)
                if answered not in opened:
                    yield refused_at(
                        "server_result_orphan",
                        block,
                        f"unexpected `tool_use_id` found in `{block.kind}` blocks: {answered}. Each "
                        f"`{block.kind}` block must have a corresponding `server_tool_use` block before it.",
                    )
    # Calls may be open at the end: the turn paused, or it waits for the caller's own tools.
    last = next((turn for turn in reversed(request.turns) if turn.role == "assistant"), None)
    indexes = {entry.index for entry in last.entries} if last is not None else set()
    if (
        last is None
        or any(block.kind == "tool_use" for block in last.blocks)
        or all(block.index in indexes for block in waiting.values())
    ):
        yield from _without_tool(request, waiting.values())
    else:
        yield from map(_unpaired, waiting.values())


def choice(request: MessagesRequest) -> Iterator[Violation]:
    """Tools have legal names; ``tool_choice`` may force one where the model takes that, and names one that there is."""
    names = [string_of(tool, "name") for tool in request.tools]
    for each in names:
        if not re.fullmatch("[a-zA-Z0-9_-]{1,128}", each or "_"):
            yield refused("tool_name", None, f"{each!r} should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'", "tools")
    wanted = request.option("tool_choice")
    kind, name = string_of(wanted, "type"), string_of(wanted, "name")
    if kind in {"any", "tool"} and not request.model.forced_choice:
        text = 'tool_choice: type "tool" and "any" are not supported for this model.'
        yield refused("tool_choice_forced", None, text, "tool_choice")
    if kind == "any" and not names:
        yield refused("tool_choice", None, "tool_choice.any may only be specified while providing tools", "tool_choice")
    if kind == "tool" and name not in names:
        text = f"tool_choice.name: Tool '{name}' not found in provided tools"
        yield refused("tool_choice_name", None, text, "tool_choice.name")


def _rounds(request: MessagesRequest) -> Iterator[tuple[Turn, Turn | None]]:
    """Each assistant turn with the user turn after it."""
    return ((turn, after) for turn, after in pairwise((*request.turns, None)) if turn and turn.role == "assistant")


def _results(turn: Turn) -> list[ContentBlock]:
    return [block for block in turn.blocks if block.kind == "tool_result"]


def _leading_results(turn: Turn | None) -> list[ContentBlock]:
    return [] if turn is None else list(takewhile(lambda block: block.kind == "tool_result", turn.blocks))


def _repeated(blocks: Iterable[ContentBlock], key: str) -> Iterator[tuple[ContentBlock, str]]:
    seen: set[str] = set()
    for block in blocks:
        if (name := block.string(key)) is None:
            continue
        if name in seen:
            yield block, name
        seen.add(name)


def _tool_of(block: ContentBlock) -> str:
    return "mcp" if block.kind == "mcp_tool_use" else block.string("name") or block.kind


def _unpaired(block: ContentBlock) -> Violation:
    tool = _tool_of(block)
    result = "tool_search" if tool.startswith("tool_search") else tool
    return refused_at(
        "server_tool_unpaired",
        block,
        f"`{tool}` tool use with id `{block.string('id')}` was found without a corresponding "
        f"`{result}_tool_result` block",
    )


def _without_tool(request: MessagesRequest, waiting: Iterable[ContentBlock]) -> Iterator[Violation]:
    """An open call needs its tool; what does not say which tools there are is taken for a part of a request."""
    if not isinstance(request.data.get("tools"), (list, tuple)):
        return
    names = [f"{tool.get('name')} {tool.get('type')}" for tool in request.tools]
    for block in waiting:
        tool = _tool_of(block)
        family = "code_execution" if tool.endswith("code_execution") else tool
        if block.kind == "server_tool_use" and not any(family in name for name in names):
            text = f"`{tool}` tool use with id `{block.string('id')}` was found, but no `{family}` tool was provided"
            yield refused_at("server_tool_missing", block, text)


_MOST_MESSAGES = 100_000
MOST_BYTES = 32 * 1024 * 1024


def violations(
    _wire: WireFormat, request: Mapping[str, Any], profile: ModelProfile | None, before: Mapping[str, Any] | None
) -> tuple[Violation, ...]:
    """Every rule that the request breaks, in the order of its messages; never raises."""
    original = None if before is None else lay_out(before, profile)
    return in_order(checked(RULES, lay_out(request, profile), RULES_OF_WHAT_CAME_BEFORE, original))


def message_count(request: MessagesRequest) -> Iterator[Violation]:
    """There is a message, and there are not too many."""
    messages = request.data.get("messages")
    if not isinstance(messages, (list, tuple)):
        wrong = "Field required" if messages is None else "Input should be a valid list"
        yield refused("messages_empty", None, f"messages: {wrong}")
    elif not messages:
        yield refused("messages_empty", None, "messages: at least one message is required")
    elif len(messages) > _MOST_MESSAGES:
        text = f"messages: at most {_MOST_MESSAGES} messages are allowed, found {len(messages)}"
        yield refused("messages_max", None, text)


def request_size(request: MessagesRequest) -> Iterator[Violation]:
    """The request body has at most 32 MB."""
    if string_bytes(request.data, MOST_BYTES) > MOST_BYTES:
        yield refused("request_size", None, "Request exceeds the maximum size")


def role(request: MessagesRequest) -> Iterator[Violation]:
    """Messages have a role that the model knows."""
    for entry in request.entries:
        if entry.role not in {"user", "assistant", "system"}:
            yield refused_at("role", entry, "Input should be 'user' or 'assistant'", ".role")


def first_role(request: MessagesRequest) -> Iterator[Violation]:
    """The first message is the user's; the API takes others since 2024-10, partner endpoints do not."""
    first = request.entries[0] if request.entries else None
    if first is None or first.role != "assistant":
        return
    if not (first.blocks and first.blocks[0].kind == "compaction"):
        text = 'messages: first message must use the "user" role'
        yield refused("first_user", first, text, severity="warn")


def content(request: MessagesRequest) -> Iterator[Violation]:
    """Content is a string or a list of typed blocks, and only the final assistant message may have none."""
    last = request.entries[-1] if request.entries else None
    for entry in request.entries:
        native = entry.data.get("content")
        if not isinstance(native, (str, list, tuple)):
            settings_only = native is None and entry.role == "system" and entry.data.get("output_config")
            if not settings_only:
                wrong = "Input should be a valid list" if "content" in entry.data else "Field required"
                yield refused_at("content_type", entry, wrong, ".content")
        elif not native and not (entry is last and entry.role == "assistant"):
            text = "all messages must have non-empty content except for the optional final assistant message"
            yield refused_at("content_empty", entry, text)


def block_type(request: MessagesRequest) -> Iterator[Violation]:
    """Each block is an object with a type."""
    for block in request.blocks:
        for each in (block, *block.inner):
            if not each.kind:
                wrong = "Field required" if each.data else "Input should be a valid dictionary"
                yield refused_at("block_type", each, wrong, ".type")


def text(request: MessagesRequest) -> Iterator[Violation]:
    """Text blocks hold text, and some of it is no white space."""
    for block in (*request.system, *request.blocks):
        # The empty string as content is judged as empty content; as system prompt it is none.
        whole = block.path == "system" or (block.path.endswith(".content") and not block.data["text"])
        for each in (block, *block.inner):
            if each.kind == "text" and not whole and (found := _text(each)) is not None:
                yield found


def prefill(request: MessagesRequest) -> Iterator[Violation]:
    """Whether the request may end on words of the assistant, and on which."""
    last = request.entries[-1] if request.entries else None
    end = last.blocks[-1] if last is not None and last.blocks else None
    if last is None or end is None or last.role != "assistant" or end.kind != "text" or not end.string("text"):
        return
    if not request.model.prefill:
        text = "This model does not support assistant message prefill. The conversation must end with a user message."
        yield refused("prefill", last, text)
    elif (end.string("text") or "")[-1].isspace():
        text = "messages: final assistant content cannot end with trailing whitespace"
        yield refused("prefill_whitespace", last, text)


def system_place(request: MessagesRequest) -> Iterator[Violation]:
    """A system message stands behind a user turn, before an assistant turn or last, and never in a tool round.

    It needs a model that takes one there.
    """
    entries = request.entries
    for place, entry in enumerate(entries):
        if entry.role != "system":
            continue
        before, after = _neighbour(entries, place, -1), _neighbour(entries, place, 1)
        if not request.model.system_in_messages:
            yield refused_at("system_unsupported", entry, "role 'system' is not supported on this model", ".role")
        elif before is None:
            text = "use the top-level 'system' parameter for the initial system prompt"
            yield refused_at("system_first", entry, text)
        elif _has(after, "tool_result") or (before.role == "assistant" and _has(before, "tool_use")):
            text = "a system message cannot stand between `tool_use` and `tool_result` blocks"
            yield refused_at("system_in_round", entry, text)
        elif (after is not None and after.role != "assistant") or not (
            before.role == "user" or (before.blocks and before.blocks[-1].kind.endswith("_tool_result"))
        ):
            text = "a system message must follow a user turn and be last or followed by an assistant turn"
            yield refused_at("system_position", entry, text)


RULES: tuple[Rule[MessagesRequest], ...] = (
    message_count, request_size, role, first_role, content, block_type, text, prefill, system_place,
    unanswered, orphans, results_first, single_result, unique_calls, roles, ids, inputs, programmatic, server_pairs,
    choice, count, order, places, leads_round, signatures, compaction, edits, images,
)  # fmt: skip


def _text(block: ContentBlock) -> Violation | None:
    words = block.string("text")
    if words is None:
        wrong = "Field required" if block.data.get("text") is None else "Input should be a valid string"
        return refused_at("text_type", block, wrong, ".text")
    if not words:
        # With a cache marker the provider complains of the marker.
        marked = mapping_or_none(block.data.get(CONTROL)) is not None
        return None if marked else refused("text_empty", block, "messages: text content blocks must be non-empty")
    if words.isspace():
        return refused("text_blank", block, "messages: text content blocks must contain non-whitespace text")
    return None


def _neighbour(entries: tuple[Message, ...], index: int, step: int) -> Message | None:
    """The nearest message on one side that is no system message."""
    index += step
    while 0 <= index < len(entries):
        if entries[index].role != "system":
            return entries[index]
        index += step
    return None


def _has(entry: Message | None, kind: str) -> bool:
    return entry is not None and any(block.kind == kind for block in entry.blocks)


def string_bytes(value: object, enough: int) -> int:
    """The bytes of all strings in a JSON value: less than its body has. Stops when there are more than enough.

    A value that contains itself is counted once: what is open is not opened again.
    """
    total, opened = 0, [(0, iter((value,)))]
    open_ids: set[int] = set()
    while opened and total <= enough:
        for item in opened[-1][1]:
            if isinstance(item, str):
                total += len(item) if item.isascii() else len(item.encode("utf-8", "surrogatepass"))
            elif item is not None and not isinstance(item, (int, float)) and id(item) not in open_ids:
                held = item if isinstance(item, (list, tuple)) else (mapping_or_none(item) or NOTHING).values()
                open_ids.add(id(item))
                opened.append((id(item), iter(held)))
                break
        else:
            open_ids.discard(opened.pop()[0])
    return total
