"""Rules of the Responses API about one item: its type, its role, its words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentctx.core.violation import Violation
from agentctx.wire.native import clean_text, mapping_or_none
from agentctx.wire.openai_responses.blocks import TEXTS
from agentctx.wire.openai_responses.kinds import ROLES
from agentctx.wire.openai_responses.mend import CACHEABLE, NAME, NAME_MAX
from agentctx.wire.openai_responses.view import (
    Item,
    Request,
    blocks,
    broken,
    input_of,
    too_long,
    too_many,
    wrong_type,
)

ITEMS_MAX = 131_072
STRING_MAX = 10_485_760
_SPOKEN = frozenset({"output_text", "refusal"})


def input_present(request: Request) -> Iterator[Violation]:
    """R12: there are items, at most 131,072, and they are objects."""
    native = input_of(request.body)
    if native is None and (request.chained or request.body.get("prompt") is not None):
        return
    if isinstance(native, str):
        return
    if not isinstance(native, (list, tuple)):
        yield wrong_type("input", None, "input", "one of a string or array of objects", native)
        return
    if not native and not request.chained:
        text = "Invalid 'input': empty array. Expected an array with minimum length 1, but got an empty array instead."
        yield broken("input_empty", None, "input", text)
    if len(native) > ITEMS_MAX:
        yield too_many("input_too_long", None, "input", ITEMS_MAX, len(native))
    known = {item.index for item in request.items}
    for index in range(len(native)):
        if index not in known:
            at = Item(index, "", {})
            yield wrong_type("item_type", at, at.path, "an object", native[index])


def item_type(request: Request) -> Iterator[Violation]:
    """Each item has a type; messages may leave it out."""
    for item in request.items:
        if not item.kind:
            yield wrong_type("item_type", item, f"{item.path}.type", "a string", item.data.get("type"))


def role(request: Request) -> Iterator[Violation]:
    """The role of a message is one of four."""
    for item in request.items:
        named, path = item.data.get("role"), f"{item.path}.role"
        if item.kind != "message" or (isinstance(named, str) and named in ROLES):
            continue
        if not isinstance(named, str):
            yield wrong_type("role", item, path, "a string", named)
        else:
            listed = "'assistant', 'system', 'developer', and 'user'"
            yield broken("role", item, path, f"Invalid value: '{named}'. Supported values are: {listed}.")


def content_type(request: Request) -> Iterator[Violation]:
    """Content and output are a string or an array of blocks, each with a type; a text block has text."""
    for item in request.items:
        key = "content" if item.kind == "message" else "output"
        if item.kind not in {"message", "function_call_output", "custom_tool_call_output"}:
            continue
        content, path = item.data.get(key), f"{item.path}.{key}"
        if isinstance(content, str):
            continue
        if not isinstance(content, (list, tuple)):
            yield wrong_type(f"{key}_type", item, path, "one of a string or array of objects", content)
            continue
        for place, block in enumerate(content):
            yield from _block(block, item, f"{path}[{place}]")


def _block(block: object, item: Item, path: str) -> Iterator[Violation]:
    native = mapping_or_none(block)
    if native is None:
        yield wrong_type("block_type", item, path, "an object", block)
        return
    kind = native.get("type")
    if not isinstance(kind, str):
        yield wrong_type("block_type", item, f"{path}.type", "a string", kind)
    elif kind in TEXTS and not isinstance(native.get("text"), str):
        yield wrong_type("block_text", item, f"{path}.text", "a string", native.get("text"))
    elif item.is_words and kind not in _SPOKEN:
        text = f"Invalid value: '{kind}'. Supported values are: 'output_text' and 'refusal'."
        yield broken("block_role", item, f"{path}.type", text, "error" if kind in CACHEABLE else "warn")
    elif not item.is_words and kind in _SPOKEN:
        text = f"Invalid value: '{kind}'. Supported values are: 'input_text', 'input_image', and 'input_file'."
        yield broken("block_role", item, f"{path}.type", text)


def call_bodies(request: Request) -> Iterator[Violation]:
    """A call of a function says what is called, by a legal name, with what arguments, as text."""
    for item in request.items:
        if item.kind not in {"function_call", "custom_tool_call"}:
            continue
        key = "arguments" if item.kind == "function_call" else "input"
        if not isinstance(item.data.get(key), str):
            yield wrong_type("call_arguments", item, f"{item.path}.{key}", "a string", item.data.get(key))
        yield from function_name(item.data.get("name"), item, f"{item.path}.name")


def function_name(name: object, item: Item | None, path: str) -> Iterator[Violation]:
    """A name has 1 to 64 letters, digits, ``_`` and ``-``."""
    if not isinstance(name, str):
        yield wrong_type("function_name", item, path, "a string", name)
    elif len(name) > NAME_MAX:
        yield too_long("function_name_length", item, path, NAME_MAX, len(name))
    elif not NAME.fullmatch(name):
        text = "string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
        yield broken("function_name", item, path, f"Invalid '{path}': {text}")


def cache_marker(request: Request) -> Iterator[Violation]:
    """R16: a cache marker stands on a block of input only; models before GPT-5.6 know none."""
    older = request.family is not None and not _takes_markers(request.family)
    for item in request.items:
        marked = [(item.path, item.data)] if item.data.get("prompt_cache_breakpoint") is not None else []
        for path, data in (*marked, *blocks(item)):
            if data.get("prompt_cache_breakpoint") is not None and (older or data.get("type") not in CACHEABLE):
                where = f"{path}.prompt_cache_breakpoint"
                yield broken("cache_marker", item, where, f"Unknown parameter: '{where}'.")


def _takes_markers(family: str) -> bool:
    found = re.match(r"gpt-(\d+)(?:\.(\d+))?", family)
    return found is not None and (int(found[1]), int(found[2] or 0)) >= (5, 6)


def strings(request: Request) -> Iterator[Violation]:
    """No string is too long for the endpoint, and each can be sent as UTF-8."""
    for item in request.items:
        for path, text in _strings(item):
            if len(text) > STRING_MAX:
                yield too_long("string_length", item, path, STRING_MAX, len(text))
            if clean_text(text) is not text:
                yield broken("surrogate", item, path, "We could not parse the JSON body of your request.")


def _strings(item: Item) -> Iterator[tuple[str, str]]:
    for key in ("content", "output", "arguments", "input"):
        if isinstance(text := item.data.get(key), str):
            yield f"{item.path}.{key}", text
    for path, block in blocks(item):
        if isinstance(text := block.get("text"), str):
            yield f"{path}.text", text


def words(request: Request) -> Iterator[str]:
    """Every text that stands in a message of the input."""
    if isinstance(whole := input_of(request.body), str):
        yield whole
    for item in request.items:
        if item.kind == "message":
            yield from (text for _, text in _strings(item))
