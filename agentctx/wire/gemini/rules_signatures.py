"""Rules of generateContent about thought signatures.

Source: https://ai.google.dev/gemini-api/docs/thought-signatures; error texts as captured from the API.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator

from agentctx.core.violation import Violation
from agentctx.wire.gemini.request import ContentAt, PartAt, Request, refused
from agentctx.wire.native import mapping_or_none

DUMMIES = frozenset({"skip_thought_signature_validator", "context_engineering_is_the_way_to_go"})
"""What stands for a signature on a call that the model did not make; the provider lets it pass."""

# The SDK holds signatures as bytes.
_DUMMY_BYTES = frozenset(b64encode(dummy.encode()).decode() for dummy in DUMMIES)


def first_signed(request: Request) -> Iterator[Violation]:
    """From Gemini 3 on, the first call of each step of the current turn bears its thought signature."""
    if request.generation is None or request.generation < 3:
        return
    for content in _current_turn(request):
        first = content.calls[0] if content.by_model and content.calls else None
        if first is not None and not first.signature:
            yield refused(
                "sig_missing",
                first,
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to "
                "work correctly, and missing thought_signature may lead to degraded model performance. Additional "
                f"data, function call `default_api:{first.name}` , position {content.index + 1}. Please refer to "
                "https://ai.google.dev/gemini-api/docs/thought-signatures for more details.",
            )


def signatures_kept(request: Request, before: Request) -> Iterator[Violation]:
    """A thought signature stands on the part that it was made for, and that part says what it said."""
    known: dict[str, list[object]] = {}
    for part in _signed(before):
        known.setdefault(part.signature or "", []).append(_said(part))
    for part in _signed(request):
        signature = part.signature or ""
        if signature in DUMMIES or signature in _DUMMY_BYTES:
            continue
        if signature not in known:
            yield refused("sig_modified", part, "Invalid thought signature")
        elif not _among(_said(part), known[signature]):
            yield refused("sig_modified", part, "Corrupted thought signature")


RULES = (first_signed,)
COMPARISONS = (signatures_kept,)


def _current_turn(request: Request) -> tuple[ContentAt, ...]:
    """Everything after the latest content in which the user says something, and not only functions answer."""
    contents = request.contents
    start = next((index for index in range(len(contents) - 1, -1, -1) if _speaks(contents[index])), -1)
    return contents[start + 1 :]


def _speaks(content: ContentAt) -> bool:
    return not content.by_model and (not content.responses or any(part.kind == "text" for part in content.parts))


def _signed(request: Request) -> Iterator[PartAt]:
    return (part for content in request.contents for part in content.parts if part.signature)


def _said(part: PartAt) -> object:
    """What was signed: the kind of part, and what it holds."""
    if part.kind == "functionCall":
        return part.kind, part.name, mapping_or_none(part.held.get("args")) or {}
    return part.kind, part.text if part.kind == "text" else dict(part.held)


def _among(said: object, candidates: list[object]) -> bool:
    try:
        return said in candidates
    except RecursionError:  # nested deeper than any request that the provider reads
        return False
