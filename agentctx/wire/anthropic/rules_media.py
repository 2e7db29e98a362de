"""Rules of the Anthropic Messages API about images.

Source: https://docs.anthropic.com/en/docs/build-with-claude/vision.
"""

from __future__ import annotations

from collections.abc import Iterator

from agentctx.core.violation import Violation
from agentctx.tokens.image_size import image_size
from agentctx.wire.anthropic.request import NOTHING, Block, Request, refused, string
from agentctx.wire.native import mapping_or_none

_SMALL_WINDOW = 200_000
_FEW = 20
_LONGEST_SIDE = 2_000


def image_count(request: Request) -> Iterator[Violation]:
    """At most 600 images, on models with a window of 200,000 tokens 100."""
    window = request.model.window
    most = 100 if window is not None and window <= _SMALL_WINDOW else 600
    if (found := sum(1 for _ in _images(request))) > most:
        yield refused("images_max", None, f"messages: at most {most} images are allowed, found {found}")


def image_sides(request: Request) -> Iterator[Violation]:
    """In a request of more than 20 images, none is longer than 2000 pixels on either side."""
    images = list(_images(request))
    if len(images) <= _FEW:
        return
    for block in images:
        source = mapping_or_none(block.data.get("source")) or NOTHING
        size = image_size(string(source, "data") or "")
        if size is not None and max(size) > _LONGEST_SIDE:
            path = f"{block.path}.image.source"
            text = (
                f"{path}: At least one of the image dimensions exceed max allowed size for many-image requests: "
                f"{_LONGEST_SIDE} pixels"
            )
            yield refused("image_side", block, text, path)


RULES = (image_count, image_sides)


def _images(request: Request) -> Iterator[Block]:
    """All images, also those in tool results."""
    return (each for block in request.blocks for each in (block, *block.inner) if each.kind == "image")
