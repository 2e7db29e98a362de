"""What has to be known of a model to prepare a request for it."""

from __future__ import annotations

from attrs import field, frozen


@frozen
class ImageRule:
    """How a provider counts an image.

    Args:
        kind: ``"openai-tiles"``, ``"openai-patches"``, ``"claude"`` or ``"gemini"``: which formula.
        low: Tokens of a low-detail image (tile models).
        tile: Tokens a tile (tile models).
        patches: The most patches of an image (patch models).
        factor: Tokens a patch (patch models).
        edge: The longest side after resizing, in pixels (Claude).
        cap: The most tokens of an image (Claude).
    """

    kind: str
    low: int = 85
    tile: int = 170
    patches: int = 1536
    factor: float = 1.0
    edge: int = 1568
    cap: int = 1568


@frozen
class ModelProfile:
    """A model, as data.

    Args:
        name: Its name without provider prefix.
        encoding: The tiktoken encoding to count with.
        image: How its provider counts images.
        window: Context window in tokens, when known.
        max_output: The longest answer in tokens, when known.
        tool_overhead: Tokens the provider adds to the prompt as soon as there are tools.
        bound_thinking: Whether each thinking block is bound to the prefix before it.
        adaptive_thinking: Whether thinking may be absent from an open tool round.
        system_in_messages: Whether system messages may stand within the messages (Anthropic).
        prefill: Whether the request may end on an assistant message (Anthropic).
    """

    name: str
    encoding: str = "o200k_base"
    image: ImageRule = field(default=ImageRule("openai-tiles"))
    window: int | None = None
    max_output: int | None = None
    tool_overhead: int = 0
    bound_thinking: bool = False
    adaptive_thinking: bool = False
    system_in_messages: bool = True
    prefill: bool = True
