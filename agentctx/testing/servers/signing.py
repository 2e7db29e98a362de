"""Signatures of reasoning: made when a local server's model thinks, checked when the reasoning comes back.

Like the provider's, a signature holds what was thought and, on models that bind it, all that stood before: system
prompt, tools, and every block that is no reasoning. Source: Anthropic's page on preserved thinking. Signatures that
were not made here cannot be checked and are taken as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from attrs import frozen

from agentctx.core.message import Native

_MARK = "local"
_MARKERS = frozenset({"cache_control", "cachePoint"})
_BETA = "thinking-binding-controls-2026-08-01"


@frozen
class Thought:
    """Reasoning in a request."""

    path: str
    text: str
    signature: str


def sign(text: str, head: Sequence[Any], messages: Sequence[Any]) -> str:
    """The signature of reasoning that begins an answer."""
    strand = _digest([head, *(said for _, said in _blocks(messages) if not isinstance(said, Thought))])
    return f"{_MARK}.{_digest(text)}.{strand}"


def broken(head: Sequence[Any], messages: Sequence[Any], *, bound: bool) -> tuple[Thought, bool] | None:
    """The first reasoning whose signature does not hold, and whether it is the prefix alone that has changed."""
    before: list[Any] = [head]
    for _, said in _blocks(messages):
        if not isinstance(said, Thought):
            before.append(said)
        elif said.signature.startswith(f"{_MARK}."):
            _, text, strand = said.signature.split(".")
            if text != _digest(said.text):
                return said, False
            if bound and strand != _digest(before):
                return said, True
    return None


def drops(body: Mapping[str, Any], betas: Sequence[str]) -> bool | None:
    """Whether the request leaves it to the provider to drop what it cannot take; None when it may not say so."""
    thinking = body.get("thinking")
    binding = thinking.get("block_binding") if isinstance(thinking, Mapping) else None
    if binding is None:
        return False
    return binding.get("prefix_mismatch_behavior") == "drop_block" if _BETA in betas else None


def _blocks(messages: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Each block as it is read, with its path: reasoning as a ``Thought``."""
    for number, message in enumerate(messages):
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or ()
        for place, block in enumerate(blocks):
            path = f"messages.{number}.content.{place}"
            thought = _thought(path, block)
            if thought is not None:
                yield path, thought
            elif (plain := _plain(block)) != {}:
                yield path, [message.get("role"), plain]


def _thought(path: str, block: Mapping[str, Any]) -> Thought | None:
    if block.get("type") == "thinking":
        return Thought(path, str(block.get("thinking")), str(block.get("signature")))
    said = block.get("reasoningContent")
    if isinstance(said, Mapping) and isinstance(said.get("reasoningText"), Mapping):
        return Thought(path, str(said["reasoningText"].get("text")), str(said["reasoningText"].get("signature")))
    return None


def _plain(value: object) -> Native:
    """A value without cache markers and unset keys."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items() if key not in _MARKERS and each is not None}
    if isinstance(value, list):
        return [plain for each in value if (plain := _plain(each)) != {}]
    return value


def _digest(value: object) -> str:
    return sha256(json.dumps(_plain(value), sort_keys=True).encode()).hexdigest()[:16]
