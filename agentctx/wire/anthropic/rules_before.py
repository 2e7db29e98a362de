"""Rules of the Anthropic Messages API about signed bytes, which need the request that this one was made from.

Source: https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking, with its page on preserved thinking;
error texts as captured from the API.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

from agentctx.core.violation import Violation
from agentctx.wire.anthropic.request import THINKING, Block, Entry, Request, refused
from agentctx.wire.anthropic.rules_thinking import open_round, seal, thoughts
from agentctx.wire.native import mapping_or_none

_SIGNED_KEYS = frozenset({"encrypted_content", "encrypted_index", "encrypted_stdout"})


def sealed(request: Request, before: Request) -> Iterator[Violation]:
    """Reasoning says what it said when it was signed, and bears a signature that the provider gave."""
    known = {seal(block): block for block in thoughts(before)}
    latest = _latest_message(request)
    for block in thoughts(request):
        original = known.get(seal(block))
        if original is not None and original.data.get("thinking") == block.data.get("thinking"):
            continue
        if original is not None or block.message == latest:
            yield _modified(block)
        else:
            text = f"{block.path}: Invalid `signature` in `{block.kind}` block"
            yield refused("signature_invalid", block, text)


def latest_whole(request: Request, before: Request) -> Iterator[Violation]:
    """The reasoning of the latest assistant message is sent back all or not at all, in its order."""
    latest = _latest_message(request)
    kept = [block for block in thoughts(request) if block.message == latest]
    originals = thoughts(before)
    homes = {seal(block): block.message for block in originals}
    if not kept or any(seal(block) not in homes for block in kept):
        return
    home = homes[seal(kept[0])]
    if [seal(block) for block in kept] != [seal(block) for block in originals if block.message == home]:
        yield _modified(kept[0])


def manual_whole(request: Request, before: Request) -> Iterator[Violation]:
    """With manual thinking, the steps of the open tool round keep the reasoning that the model took them with."""
    if request.option("thinking").get("type") != "enabled":
        return
    led = {call: entry for entry in before.entries for call in _calls(entry) if _thinks(entry)}
    answering = [entry for turn in open_round(request) for entry in turn.entries if entry.role == "assistant"]
    for entry in answering[1:]:  # the first one has a rule of its own
        if not _thinks(entry) and any(call in led for call in _calls(entry)):
            yield _modified(entry.blocks[0])


def bound(request: Request, before: Request) -> Iterator[Violation]:
    """On models that bind reasoning, all that the model had read before each kept block is still there, unchanged."""
    if not request.model.bound_thinking or _server_drops(request):
        return
    now, then = _strand(request), _strand(before)
    origin = {seal(block): number for number, (block, _) in enumerate(then.thoughts)}
    matched = [(block, place, origin[seal(block)]) for block, place in now.thoughts if seal(block) in origin]
    shift = _shift(now, then, matched)
    same = _same_start(now, then) and _fixed(request) == _fixed(before)
    common = _common(now.content, then.content[shift:]) if same else -1
    previous: int | None = None
    for block, place, number in matched:
        gap = previous is not None and number != previous + 1
        if gap or place > common or then.thoughts[number][1] != place + shift:
            yield _unbound(block, now.blocks[common].path if 0 <= common < place else None)
            return
        previous = number


def encrypted(request: Request, before: Request) -> Iterator[Violation]:
    """Encrypted bytes of server results, citations and compaction blocks go back as they came."""
    known = {value for block in before.blocks for value in _encrypted(block)}
    for block in request.blocks:
        if any(value not in known for value in _encrypted(block)):
            text = f"{block.path}: Invalid `encrypted_content` in `{block.kind}` block"
            yield refused("encrypted_modified", block, text)


RULES = (sealed, latest_whole, manual_whole, bound, encrypted)


@frozen
class _Strand:
    """What reasoning is bound to, from the newest compaction block on.

    Args:
        start: The newest compaction block, if there is one.
        blocks: Everything after it that is no reasoning.
        content: What ``blocks`` say, to be compared.
        thoughts: Each reasoning block with the number of ``blocks`` before it.
    """

    start: Mapping[str, Any] | None
    blocks: Sequence[Block]
    content: Sequence[object]
    thoughts: Sequence[tuple[Block, int]]


def _strand(request: Request) -> _Strand:
    start: Mapping[str, Any] | None = None
    blocks: list[Block] = []
    found: list[tuple[Block, int]] = []
    for block in request.blocks:
        if block.kind == "compaction" and block.string("content"):
            start, blocks, found = _plain(block.data), [], []
        elif block.kind not in THINKING:
            blocks.append(block)
        elif seal(block):
            found.append((block, len(blocks)))
    return _Strand(start, blocks, [(block.role, _plain(block.data)) for block in blocks], found)


def _same_start(now: _Strand, then: _Strand) -> bool:
    """Whether the prefix starts alike; a compaction block may stand for what was before it."""
    return now.start is not None or then.start is None


def _shift(now: _Strand, then: _Strand, matched: Sequence[tuple[Block, int, int]]) -> int:
    """How many blocks a new compaction block stands for."""
    if now.start == then.start or not matched:
        return 0
    _, place, number = matched[0]
    return max(0, then.thoughts[number][1] - place)


def _fixed(request: Request) -> tuple[object, object]:
    """The system prompt and the tools that are in the prompt from the start."""
    tools = [_plain(tool) for tool in request.tools if tool.get("defer_loading") is not True]
    return [_plain(block.data) for block in request.system], tools


def _plain(data: Mapping[str, Any]) -> dict[str, Any]:
    """A block as the model reads it: without cache markers and unset keys, a lone string as a text block."""
    plain = {key: value for key, value in data.items() if key != "cache_control" and value is not None}
    content = plain.get("content")
    if isinstance(content, str) and data.get("type") == "tool_result":
        plain["content"] = [{"type": "text", "text": content}] if content else []
    elif isinstance(content, (list, tuple)):
        plain["content"] = [item if (inner := mapping_or_none(item)) is None else _plain(inner) for item in content]
    return plain


def _common(now: Sequence[object], then: Sequence[object]) -> int:
    length = min(len(now), len(then))
    return next((index for index in range(length) if not _equal(now[index], then[index])), length)


def _equal(one: object, other: object) -> bool:
    try:
        return one == other
    except RecursionError:  # nested deeper than any request that the provider reads
        return False


def _calls(entry: Entry) -> list[str]:
    return [call for block in entry.blocks if block.kind == "tool_use" and (call := block.string("id")) is not None]


def _thinks(entry: Entry) -> bool:
    return any(block.kind in THINKING for block in entry.blocks)


def _latest_message(request: Request) -> int | None:
    return next((entry.index for entry in reversed(request.entries) if entry.role == "assistant"), None)


def _server_drops(request: Request) -> bool:
    binding = mapping_or_none(request.option("thinking").get("block_binding")) or {}
    return binding.get("prefix_mismatch_behavior") == "drop_block"


def _modified(block: Block) -> Violation:
    return refused(
        "thinking_modified",
        block,
        f"{block.path}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
        "These blocks must remain as they were in the original response.",
    )


def _unbound(block: Block, changed: str | None) -> Violation:
    where = (
        ""
        if changed is None
        else (
            " Content that preceded this block when it was created is missing from this request, "
            f"starting at `{changed}`."
        )
    )
    return refused(
        "thinking_bound",
        block,
        f"{block.path}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. "
        'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".' + where,
    )


def _encrypted(block: Block) -> Iterator[str]:
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
