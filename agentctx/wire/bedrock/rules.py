"""The rules that make a Converse request valid, each a small function, in one ordered list.

Here: messages, roles, content, text, cache points. Error texts as captured from the API, all ValidationExceptions; a
text for which there is no recording says what the documentation or the service model says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from agentctx.core.profile import ModelProfile
from agentctx.core.violation import Violation
from agentctx.wire.bedrock import rules_media, rules_reasoning, rules_tools
from agentctx.wire.bedrock.request import NOTHING, BlockAt, Request, blocks_of, lay_out, refused
from agentctx.wire.native import fields_or_none

Rule = Callable[[Request], Iterable[Violation]]

_START = "A conversation must start with a user message. Try again with a conversation that starts with a user message."
_ALTERNATE = (
    "A conversation must alternate between user and assistant roles. Make sure the conversation alternates between "
    "user and assistant roles and try again."
)
_MOST_CACHE_POINTS = 4
_CACHING = frozenset({"claude", "nova", ""})
"""The families that take cache points, and models that are not known."""
_CHANGES_TOOLS = frozenset({"toolAddition", "toolRemoval"})


def violations(
    request: Mapping[str, Any], profile: ModelProfile | None, before: Mapping[str, Any] | None
) -> tuple[Violation, ...]:
    """Every rule that the request breaks, in the order of its messages; never raises.

    Args:
        request: ``messages`` and what else the provider takes.
        profile: The model's profile; without it the model is known by its id in the request.
        before: The request that this one was made from, if signed reasoning is to be compared.
    """
    laid = lay_out(request, profile)
    found = [violation for rule in RULES for violation in rule(laid)]
    found.extend(rules_reasoning.reasoning(laid, None if before is None else lay_out(before, profile)))
    return tuple(sorted(found, key=lambda violation: -1 if violation.index is None else violation.index))


def messages_given(request: Request) -> Iterator[Violation]:
    """There is a message."""
    if not request.entries:
        yield refused("messages_empty", None, _START)


def role(request: Request) -> Iterator[Violation]:
    """The user and the assistant speak; a system message only adds or removes tools."""
    for entry in request.entries:
        path = f"{entry.path}.role"
        if entry.role not in {"user", "assistant", "system"}:
            text = (
                f"Value '{entry.data.get('role')}' at 'messages.{entry.index + 1}.member.role' failed to satisfy "
                "constraint: Member must satisfy enum value set: [user, assistant, system]"
            )
            yield refused("role", entry, text, path)
        elif entry.role == "system" and any(block.kind not in _CHANGES_TOOLS for block in entry.blocks):
            text = "a message of the role system holds toolAddition and toolRemoval blocks only"
            yield refused("system_content", entry, text, path)


def first_user(request: Request) -> Iterator[Violation]:
    """The user begins; Claude and Qwen also take an assistant that does."""
    first = request.entries[0] if request.entries else None
    if first is not None and first.role == "assistant" and request.family not in {"claude", "qwen"}:
        yield refused("first_user", first, _START, severity="error" if request.model else "warn")


def alternation(request: Request) -> Iterator[Violation]:
    """User and assistant speak by turns; newer models merge neighbours of one role, older ones refuse them."""
    for before, entry in pairwise(request.entries):
        if entry.role in {"user", "assistant"} and before.role == entry.role:
            yield refused("alternate", entry, _ALTERNATE, severity="warn")


def content(request: Request) -> Iterator[Violation]:
    """Content is a list of blocks with one member each, and not empty."""
    for entry in request.entries:
        native, path = entry.data.get("content"), f"{entry.path}.content"
        if not isinstance(native, (list, tuple)):
            text = f"Invalid type for parameter messages[{entry.index}].content, valid types: list, tuple"
            yield refused("content_type", entry, text, path)
        elif not native:
            text = (
                f"The content field in the Message object at {entry.path} is empty. Add a ContentBlock object to the "
                "content field and try again."
            )
            yield refused("content_empty", entry, text, path)
        for block in entry.blocks:
            members = [key for key, held in block.data.items() if held is not None]
            if len(members) != 1:
                text = (
                    f"The ContentBlock object at {block.path} must set one of the following keys: text, image, "
                    "document, video, audio, toolUse, toolResult, guardContent, cachePoint, reasoningContent, "
                    "citationsContent, searchResult"
                )
                yield refused("block_member", block, text)


def text(request: Request) -> Iterator[Violation]:
    """Text is a string in which there is something to see; within tool results only some models insist on it."""
    for block in (*request.system, *request.blocks):
        yield from _text(block)
        for inner in block.inner:
            yield from _text(inner, within_result=True)


def cache_points(request: Request) -> Iterator[Violation]:
    """At most four cache points, each for 5 minutes or an hour; none for models that cache nothing on demand."""
    given = [
        each
        for block in (*_tool_blocks(request), *request.system, *request.blocks)
        for each in (block, *block.inner)
        if each.kind == "cachePoint"
    ]
    if len(given) > _MOST_CACHE_POINTS:
        text = f"A maximum of {_MOST_CACHE_POINTS} cachePoint blocks may be provided. Found {len(given)}."
        yield refused("cache_max4", given[_MOST_CACHE_POINTS], text)
    if request.family not in _CACHING:
        text = "You invoked an unsupported model or your request did not allow prompt caching."
        yield from (refused("cache_unsupported", block, text) for block in given)
    for block in given:
        ttl = block.held.get("ttl")
        if ttl is not None and ttl not in ("5m", "1h"):
            path = f"{block.path}.cachePoint.ttl"
            text = (
                f"Value '{ttl}' at '{path}' failed to satisfy constraint: Member must satisfy enum value set: [5m, 1h]"
            )
            yield refused("cache_ttl", block, text, path)


RULES: tuple[Rule, ...] = (
    messages_given,
    role,
    first_user,
    alternation,
    content,
    text,
    cache_points,
    *rules_tools.RULES,
    *rules_media.RULES,
)


def _text(block: BlockAt, *, within_result: bool = False) -> Iterator[Violation]:
    if block.kind != "text":
        return
    if block.text is None:
        wrong = f"Invalid type for parameter {block.path}.text, valid types: <class 'str'>"
        yield refused("text_type", block, wrong, f"{block.path}.text")
    elif not block.text or block.text.isspace():
        wrong = (
            f"The text field in the ContentBlock object at {block.path} is blank. Add text to the text field, and try "
            "again."
        )
        yield refused("text_blank", block, wrong, severity="warn" if within_result else "error")


def _tool_blocks(request: Request) -> tuple[BlockAt, ...]:
    config = fields_or_none(request.data.get("toolConfig")) or NOTHING
    return blocks_of(config.get("tools", request.data.get("tools")), None, "toolConfig.tools", "")
