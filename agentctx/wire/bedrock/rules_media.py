"""Rules of Converse about images, documents, films and sounds.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Message.html (20 images of 3.75 MB and 8000
pixels, 5 documents of 4.5 MB, a text beside a document, media in user messages only).
"""

from __future__ import annotations

from collections.abc import Iterator

from agentctx.core.violation import Violation
from agentctx.tokens.image_size import image_size
from agentctx.wire.bedrock.read import as_text
from agentctx.wire.bedrock.request import NOTHING, BlockAt, Request, refused
from agentctx.wire.native import fields_or_none

_MEDIA = frozenset({"image", "document", "video", "audio"})
_MOST = {"image": 20, "document": 5}
_LARGEST = {"image": 3.75, "document": 4.5}
_LONGEST_SIDE = 8000
_MEGABYTE = 1024 * 1024


def role(request: Request) -> Iterator[Violation]:
    """Media stand in user messages only."""
    for block in request.blocks:
        if block.kind in _MEDIA and block.role != "user":
            text = f"{block.path}: {block.kind} blocks can only be in messages with role user"
            yield refused("media_role", block, text)


def document_text(request: Request) -> Iterator[Violation]:
    """A document has a text beside it."""
    for entry in request.entries:
        kinds = {block.kind for block in entry.blocks}
        if "document" in kinds and "text" not in kinds:
            text = f"{entry.path}.content: a text block is required in a message that includes a document block"
            yield refused("document_needs_text", entry, text)


def numbers(request: Request) -> Iterator[Violation]:
    """A message holds at most 20 images and 5 documents."""
    for entry in request.entries:
        every = [each for block in entry.blocks for each in (block, *block.inner)]
        for kind, most in _MOST.items():
            found = [block for block in every if block.kind == kind]
            if len(found) > most:
                text = f"{entry.path}.content: at most {most} {kind} blocks are allowed, found {len(found)}"
                yield refused(f"{kind}s_max", found[most], text)


def sizes(request: Request) -> Iterator[Violation]:
    """Images and documents that are carried inline are not too large."""
    for block in request.blocks:
        for each in (block, *block.inner):
            if each.kind in _LARGEST:
                yield from _size(each)


RULES = (role, document_text, numbers, sizes)


def _size(block: BlockAt) -> Iterator[Violation]:
    source = fields_or_none(block.held.get("source")) or NOTHING
    raw = source.get("bytes")
    size = len(raw) * 3 // 4 if isinstance(raw, str) else len(raw) if isinstance(raw, (bytes, bytearray)) else 0
    most = _LARGEST[block.kind]
    if size > most * _MEGABYTE:
        text = f"{block.path}.{block.kind}: {size:,} bytes are more than {most} MB"
        yield refused(f"{block.kind}_size", block, text)
        return
    data = as_text(raw) if block.kind == "image" else None
    pixels = None if data is None else image_size(data)
    if pixels is not None and max(pixels) > _LONGEST_SIDE:
        text = f"{block.path}.image: {pixels[0]} x {pixels[1]} pixels; no side may be longer than {_LONGEST_SIDE}"
        yield refused("image_pixels", block, text)
