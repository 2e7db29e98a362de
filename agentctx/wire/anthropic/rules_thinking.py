"""Rules of the Anthropic Messages API about reasoning and compaction blocks within one request.

Source: https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking; error texts as captured from the API.
"""

from __future__ import annotations

from collections.abc import Iterator

from agentctx.core.violation import Violation
from agentctx.wire.anthropic.request import THINKING, Block, Request, Turn, refused

_UNSEEN = frozenset({"compaction", "fallback"})


def leads_round(request: Request) -> Iterator[Violation]:
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


def signatures(request: Request) -> Iterator[Violation]:
    """Reasoning is signed. A block of a stream that broke off is not; some endpoints let it pass."""
    for block in request.blocks:
        if block.kind == "thinking" and not block.string("signature"):
            text = f"{block.path}: Invalid `signature` in `thinking` block"
            yield refused("signature_missing", block, text, severity="warn")


def compaction_text(request: Request) -> Iterator[Violation]:
    """A compaction block has text, or null when the compaction failed; never the empty string."""
    for block in request.blocks:
        if block.kind == "compaction" and block.data.get("content") == "":
            path = f"{block.path}.compaction.content"
            yield refused("compaction_empty", block, f"{path}: compaction content must be non-empty", path)


def compaction_place(request: Request) -> Iterator[Violation]:
    """A signed compaction block is the very first block of the messages, and the only one."""
    signed = [block for block in request.blocks if block.kind == "compaction" and block.string("signature")]
    first = next(request.blocks, None)
    for number, block in enumerate(signed):
        if number:
            text = f"{block.path}: compaction_block_ambiguous: exactly one signed compaction block may be sent"
            yield refused("compaction_ambiguous", block, text)
        elif block is not first:
            text = f"{block.path}: compaction_block_misplaced: the compaction block must be the first block of messages"
            yield refused("compaction_misplaced", block, text)


def compaction_alone(request: Request) -> Iterator[Violation]:
    """Compaction on demand and context editing are not asked for together."""
    if request.option("compaction") and request.option("context_management"):
        text = "compaction: cannot be combined with `context_management`"
        yield refused("compaction_conflict", None, text, "compaction")


RULES = (leads_round, signatures, compaction_text, compaction_place, compaction_alone)


def open_round(request: Request) -> tuple[Turn, ...]:
    """The turns after the last user turn that is not only tool results."""
    turns = request.turns
    start = next((n for n in range(len(turns), 0, -1) if _speaks(turns[n - 1])), 0)
    return turns[start:]


def _speaks(turn: Turn) -> bool:
    return turn.role == "user" and not turn.only_results


def thoughts(request: Request) -> list[Block]:
    """The reasoning blocks that the provider can recognise again, in order."""
    return [block for block in request.blocks if block.kind in THINKING and seal(block)]


def seal(block: Block) -> str | None:
    """What the provider recognises a reasoning block by: its signature, or its encrypted content."""
    return block.string("data") if block.kind == "redacted_thinking" else block.string("signature")
