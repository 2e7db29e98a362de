"""Rules of the Anthropic Messages API about images.

Source: https://docs.anthropic.com/en/docs/build-with-claude/vision.
"""

from __future__ import annotations

from collections.abc import Iterator

from agentctx.core.violation import Violation
from agentctx.wire.anthropic_request import Block, Request, refused

_SMALL_WINDOW = 200_000


def image_count(request: Request) -> Iterator[Violation]:
    """At most 600 images, on models with a window of 200,000 tokens 100."""
    window = request.model.window
    most = 100 if window is not None and window <= _SMALL_WINDOW else 600
    if (found := sum(1 for _ in _images(request))) > most:
        yield refused("images_max", None, f"messages: at most {most} images are allowed, found {found}")


RULES = (image_count,)


def _images(request: Request) -> Iterator[Block]:
    """All images, also those in tool results."""
    return (each for block in request.blocks for each in (block, *block.inner) if each.kind == "image")
