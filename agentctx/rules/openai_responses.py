"""The rules of the Responses API, in the order in which they are looked at.

The requests of one conversation are validated without a look at all of their messages again: ``GrowingResponses``.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from attrs import frozen

from agentctx.formats.native import clean_text, mapping_or_none
from agentctx.formats.openai_chat import NAME, NAME_MAX
from agentctx.formats.openai_responses import (
    CACHEABLE,
    CALL_ID_MAX,
    CALLS,
    IDS,
    ROLES,
    SETTINGS,
    TEXTS,
    answered_id,
    is_client_call,
    is_client_output,
    kind_of,
    openai_family,
)
from agentctx.message import BREAKPOINT, Native
from agentctx.models.profile import ModelProfile
from agentctx.rules.openai_chat import (
    CACHE_KEY_MAX,
    STRING_MAX,
    length_text,
    name_text,
    type_text,
)
from agentctx.rules.rule import Rule, checked, in_order
from agentctx.wire_format import Violation, WireFormat


@frozen
class Item:
    """An item, opened as far as it can be."""

    index: int
    kind: str
    data: Mapping[str, Any]

    @property
    def path(self) -> str:
        """Its place, as the provider writes it."""
        return f"input[{self.index}]"

    @property
    def id(self) -> str | None:
        """Its own id, if it has one. The id of a local shell's answer is that of the call."""
        value = self.data.get("id")
        return value if isinstance(value, str) and self.kind != "local_shell_call_output" else None

    @property
    def is_call(self) -> bool:
        """Whether the client has to answer it."""
        return is_client_call(self.kind, self.data)

    @property
    def is_output(self) -> bool:
        """Whether it is the client's answer to a call."""
        return is_client_output(self.kind, self.data)

    @property
    def call_id(self) -> object:
        """The id of the call that it is, or that it answers; None when it is neither."""
        if self.is_call:
            return self.data.get(CALLS[self.kind].id_key)
        return answered_id(self.kind, self.data) if self.is_output else None

    @property
    def is_words(self) -> bool:
        """Whether it is a message of the model."""
        return self.kind == "message" and self.data.get("role") == "assistant"

    @property
    def by_model(self) -> bool:
        """Whether the model, or a tool of the provider, made it."""
        if self.kind == "message":
            return self.is_words
        return not self.is_output and self.kind not in SETTINGS and self.kind != "item_reference"


@frozen
class ResponsesRequest:
    """A request, whatever it is, opened as far as it can be.

    Args:
        total: How many items there are, objects or not.
        before: The request that this one was made from, opened alike; None when there is none.
    """

    body: Mapping[str, Any]
    items: tuple[Item, ...]
    total: int
    model: str | None = None
    before: ResponsesRequest | None = None

    @property
    def chained(self) -> bool:
        """Whether the provider puts items that it has kept before these."""
        return self.body.get("previous_response_id") is not None or self.body.get("conversation") is not None

    @property
    def family(self) -> str | None:
        """The family of one of OpenAI's own models, for example ``gpt-5.6``; None for any other, or none named."""
        return None if self.model is None else openai_family(self.model)

    @property
    def foreign(self) -> bool:
        """Whether another provider's model is named."""
        return self.model is not None and self.family is None


def input_of(body: Mapping[str, Native]) -> Native:
    """The input of a request; ``messages`` stands for it where all formats are treated alike."""
    return body.get("input", body.get("messages"))


def opened(body: Mapping[str, Any], model: str | None, before: ResponsesRequest | None = None) -> ResponsesRequest:
    """Open a request. Never raises."""
    native = input_of(body)
    natives = list(native) if isinstance(native, (list, tuple)) else []
    found = ((index, mapping_or_none(one)) for index, one in enumerate(natives))
    items = tuple([Item(index, kind_of(data), data) for index, data in found if data is not None])
    named = model if isinstance(model, str) else body.get("model")
    name = named.rpartition("/")[2] if isinstance(named, str) else None
    return ResponsesRequest(body, items, len(natives), name, before)


def blocks(item: Item) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The blocks of a message's content, or of an answer's output, that are objects, with their paths."""
    key = "output" if item.is_output else "content"
    content = item.data.get(key)
    for place, block in enumerate(content if isinstance(content, (list, tuple)) else ()):
        if (found := mapping_or_none(block)) is not None:
            yield f"{item.path}.{key}[{place}]", found


def broken(
    rule: str, at: Item | None, path: str, message: str, severity: Literal["error", "warn"] = "error"
) -> Violation:
    """A rule broken at an item (None: by the request as a whole)."""
    return Violation(f"resp.{rule}", severity, None if at is None else at.index, path, message)


def wrong_type(rule: str, at: Item | None, path: str, expected: str, got: object) -> Violation:
    """Something is missing, or of another type than it must be."""
    if got is None:
        return broken(rule, at, path, f"Missing required parameter: '{path}'.")
    return broken(rule, at, path, type_text(path, expected, got))


def item_ids(request: ResponsesRequest) -> Iterator[Violation]:
    """R4: no two items have one id."""
    seen: set[str] = set()
    for item in request.items:
        if item.id is None or item.kind == "item_reference":
            continue
        if item.id in seen:
            text = f"Duplicate item found with id {item.id}. Remove duplicate items from your input and try again."
            yield broken("item_dup", item, "input", text)
        seen.add(item.id)


def missing_reasoning(request: ResponsesRequest) -> Iterator[Violation]:
    """R5: an item that the provider made after reasoning needs that reasoning before it, as long as it has its id."""
    if request.before is None or request.chained:
        return
    leader = dict(_led(request.before))
    seen: set[str] = set()
    for item in request.items:
        if item.kind == "reasoning":
            seen.add(name_of(item))
        thought = leader.get(item.id) if item.id is not None else None
        if thought is not None and name_of(thought) not in seen:
            text = (
                f"Item '{item.id}' of type '{item.kind}' was provided without its required 'reasoning' item: "
                f"'{name_of(thought)}'."
            )
            yield broken("missing_reasoning", item, "input", text)


def _led(request: ResponsesRequest) -> Iterator[tuple[str, Item]]:
    """Each item with an id that belongs to reasoning, by its id: as ``core.units`` groups them."""
    thought: Item | None = None
    answered = False
    for item in request.items:
        if item.kind == "reasoning":
            thought, answered = (item, False) if is_signed(item) else (thought, answered)
        elif item.is_output:
            answered = True
        elif not item.by_model or (answered and item.is_words):
            thought = None
        elif thought is not None and item.id is not None:
            yield item.id, thought


def is_signed(item: Item) -> bool:
    """Whether the provider knows reasoning again: by an id, or by encrypted content."""
    return item.id is not None or isinstance(item.data.get("encrypted_content"), str)


def name_of(item: Item) -> str:
    """What reasoning is known by: its id, else its encrypted bytes."""
    return item.id or str(item.data.get("encrypted_content"))


def unfollowed(request: ResponsesRequest) -> Iterator[Violation]:
    """R6: reasoning needs the item that it led to."""
    followers = {} if request.before is None else {name_of(one): then for one, then in _followers(request.before)}
    for thought, then in _followers(request):
        was = followers.get(name_of(thought))
        if then is None or (was is not None and not _may_be(then, was)):
            text = f"Item '{name_of(thought)}' of type 'reasoning' was provided without its required following item."
            yield broken("reasoning_unfollowed", thought, "input", text)


def _followers(request: ResponsesRequest) -> Iterator[tuple[Item, Item | None]]:
    """Each piece of signed reasoning with the item of the model that follows it, if there is one."""
    then: Item | None = None
    found: list[tuple[Item, Item | None]] = []
    for item in reversed(request.items):
        if item.kind != "reasoning":
            then = item if item.by_model else None
        elif is_signed(item):
            found.append((item, then))
    return reversed(found)


def _may_be(item: Item, was: Item) -> bool:
    """Whether the item may be what another was; ids may have been left out, and a repeated call id got a number."""
    if item.kind != was.kind:
        return False
    if not was.is_call:
        return item.id is None or item.id == was.id
    if item.call_id == was.call_id:
        return True
    return item.id == was.id if item.id is not None and was.id is not None else _asks(item) == _asks(was)


def _asks(item: Item) -> Mapping[str, Any]:
    """What a call asks for, whatever it is called."""
    return {key: value for key, value in item.data.items() if key not in ("id", "call_id", "status")}


def not_stored(request: ResponsesRequest) -> Iterator[Violation]:
    """R7: nothing that is not stored can be referred to; reasoning without encrypted content is but a reference."""
    if request.body.get("store") is not False:
        return
    for item in request.items:
        bare = item.kind == "reasoning" and not isinstance(item.data.get("encrypted_content"), str)
        if item.id is not None and (bare or item.kind == "item_reference"):
            text = (
                f"Item with id '{item.id}' not found. Items are not persisted when `store` is set to false. "
                "Try again with `store` set to true, or remove this item from your input."
            )
            yield broken("item_not_found", item, "input", text)


def sealed(request: ResponsesRequest) -> Iterator[Violation]:
    """R9: encrypted content and fingerprints go back as they came, with the id that they came with."""
    if request.before is None:
        return
    known = set(map(seal_of, request.before.items))
    for item in request.items:
        seal = seal_of(item)
        if seal is not None and seal not in known:
            text = (
                f"The encrypted content for item {item.id} could not be verified. "
                "Reason: Encrypted content could not be decrypted or parsed."
            )
            yield broken("reasoning_modified", item, f"{item.path}.encrypted_content", text)


def seal_of(item: Item) -> str | None:
    """What the provider checks of an item: its bytes and its id; None when it checks nothing."""
    key = "fingerprint" if item.kind == "program" else "encrypted_content"
    value = item.data.get(key)
    if value is None:
        return None
    code = item.data.get("code") if item.kind == "program" else None
    return json.dumps([item.kind, item.id, value, code], default=repr)


def same_family(request: ResponsesRequest) -> Iterator[Violation]:
    """R9: encrypted reasoning is read by the family of models that wrote it."""
    before = request.before
    if before is None or before.family is None or request.family in (None, before.family):
        return
    for item in request.items:
        if item.kind == "reasoning" and isinstance(item.data.get("encrypted_content"), str):
            text = "Reason: Encrypted content could not be decrypted or parsed."
            text = f"The encrypted content for item {item.id} could not be verified. {text}"
            yield broken("reasoning_family", item, f"{item.path}.encrypted_content", text)


def reasoning_content(request: ResponsesRequest) -> Iterator[Violation]:
    """R10: OpenAI takes no readable reasoning back; other providers of the format do."""
    if request.foreign:
        return
    for item in request.items:
        content = item.data.get("content")
        if item.kind == "reasoning" and isinstance(content, (list, tuple)) and content:
            path = f"{item.path}.content"
            yield broken("reasoning_content", item, path, length_text(path, 0, len(content), "array"))


def trigger_last(request: ResponsesRequest) -> Iterator[Violation]:
    """A wish for compaction is the last item."""
    for item in request.items:
        if item.kind == "compaction_trigger" and item.index != request.total - 1:
            text = "Invalid input: 'compaction_trigger' must be the final input item."
            yield broken("trigger_not_last", item, item.path, text)


ITEMS_MAX = 131_072
_SPOKEN = frozenset({"output_text", "refusal"})


def input_present(request: ResponsesRequest) -> Iterator[Violation]:
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
        yield broken("input_empty", None, "input", length_text("input", kind="array"))
    if len(native) > ITEMS_MAX:
        yield broken("input_too_long", None, "input", length_text("input", ITEMS_MAX, len(native), "array"))
    known = {item.index for item in request.items}
    for index in range(len(native)):
        if index not in known:
            at = Item(index, "", {})
            yield wrong_type("item_type", at, at.path, "an object", native[index])


def role(request: ResponsesRequest) -> Iterator[Violation]:
    """Each item has a type, which messages may leave out; the role of a message is one of four."""
    for item in request.items:
        if not item.kind:
            yield wrong_type("item_type", item, f"{item.path}.type", "a string", item.data.get("type"))
        named, path = item.data.get("role"), f"{item.path}.role"
        if item.kind != "message" or (isinstance(named, str) and named in ROLES):
            continue
        if not isinstance(named, str):
            yield wrong_type("role", item, path, "a string", named)
        else:
            listed = "'assistant', 'system', 'developer', and 'user'"
            yield broken("role", item, path, f"Invalid value: '{named}'. Supported values are: {listed}.")


def content_type(request: ResponsesRequest) -> Iterator[Violation]:
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


def call_bodies(request: ResponsesRequest) -> Iterator[Violation]:
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
        yield broken("function_name_length", item, path, length_text(path, NAME_MAX, len(name)))
    elif not NAME.fullmatch(name):
        yield broken("function_name", item, path, name_text(path))


def cache_marker(request: ResponsesRequest) -> Iterator[Violation]:
    """R16: a cache marker stands on a block of input only; models before GPT-5.6 know none."""
    version = re.match(r"gpt-(\d+)(?:\.(\d+))?", request.family or "")
    older = request.family is not None and (version is None or (int(version[1]), int(version[2] or 0)) < (5, 6))
    for item in request.items:
        marked = [(item.path, item.data)] if item.data.get(BREAKPOINT) is not None else []
        for path, data in (*marked, *blocks(item)):
            if data.get(BREAKPOINT) is not None and (older or data.get("type") not in CACHEABLE):
                where = f"{path}.prompt_cache_breakpoint"
                yield broken("cache_marker", item, where, f"Unknown parameter: '{where}'.")


def strings(request: ResponsesRequest) -> Iterator[Violation]:
    """No string is too long for the endpoint, and each can be sent as UTF-8."""
    for item in request.items:
        for path, text in _strings(item):
            if len(text) > STRING_MAX:
                yield broken("string_length", item, path, length_text(path, STRING_MAX, len(text)))
            if clean_text(text) is not text:
                yield broken("surrogate", item, path, "We could not parse the JSON body of your request.")


def _strings(item: Item) -> Iterator[tuple[str, str]]:
    for key in ("content", "output", "arguments", "input"):
        if isinstance(text := item.data.get(key), str):
            yield f"{item.path}.{key}", text
    for path, block in blocks(item):
        if isinstance(text := block.get("text"), str):
            yield f"{path}.text", text


def words(request: ResponsesRequest) -> Iterator[str]:
    """Every text that stands in a message of the input."""
    if isinstance(whole := input_of(request.body), str):
        yield whole
    for item in request.items:
        if item.kind == "message":
            yield from (text for _, text in _strings(item))


_WORDED = frozenset({"function_call_output", "custom_tool_call_output"})


def pairs(request: ResponsesRequest) -> Iterator[Violation]:
    """R1 to R3: each call has one answer of its kind, and each answer its call before it, in the order of items."""
    waiting: dict[str, deque[Item]] = {}
    answered: set[str] = set()
    ids: set[str] = set()
    for item in request.items:
        identity = item.call_id
        if not isinstance(identity, str):
            continue
        if item.is_call:
            if item.id is not None and item.id in ids and item.kind != "mcp_approval_request":
                answered.discard(identity)  # the very item again, which is refused as such
            ids.add(item.id or "")
            waiting.setdefault(identity, deque()).append(item)
        else:
            yield from _answer(item, identity, waiting, answered, chained=request.chained)
    for call in (call for calls in waiting.values() for call in calls):
        text = f"No tool output found for function call {call.call_id}."
        if call.kind == "mcp_approval_request":
            yield broken("approval_open", call, "input", text, "warn")
        else:
            yield broken("call_unanswered", call, "input", text)


def _answer(
    item: Item, identity: str, waiting: dict[str, deque[Item]], answered: set[str], *, chained: bool
) -> Iterator[Violation]:
    if identity in answered:
        waiting.pop(identity, None)
        yield broken("output_dup", item, "input", _no_call(item))
        return
    if calls := waiting.get(identity):
        answered.add(identity)
        if CALLS[calls.popleft().kind].output != item.kind:
            yield broken("output_kind", item, "input", _no_call(item))
        if not calls:
            del waiting[identity]
    elif chained:
        answered.add(identity)  # the provider may have kept the call
    else:
        yield broken("output_orphan", item, "input", _no_call(item))


def _no_call(item: Item) -> str:
    said = item.kind.replace("_", " ") if item.kind in _WORDED else "function call output"
    return f"No tool call found for {said} with call_id {item.call_id}."


def call_ids(request: ResponsesRequest) -> Iterator[Violation]:
    """R11: calls and answers have an id of 1 to 64 characters; the id of an approval is an item's."""
    for item in request.items:
        if not item.is_call and not item.is_output:
            continue
        identity, path = item.call_id, f"{item.path}.call_id"
        if isinstance(identity, str):
            if not IDS.takes(identity) and not item.kind.startswith("mcp_"):
                yield broken("call_id_length", item, path, length_text(path, CALL_ID_MAX, len(identity)))
        elif identity is not None or item.kind != "function_call_output":  # a tool may speak without being asked
            yield wrong_type("call_id", item, path, "a string", identity)


def chain(request: ResponsesRequest) -> Iterator[Violation]:
    """R8: a request goes on from a response or from a conversation, not from both."""
    body = request.body
    if body.get("previous_response_id") is not None and body.get("conversation") is not None:
        text = "Mutually exclusive parameters: 'previous_response_id' and 'conversation'."
        yield broken("chain_conflict", None, "previous_response_id", text)


def json_word(request: ResponsesRequest) -> Iterator[Violation]:
    """R13: who asks for a JSON object says so in the input."""
    text = mapping_or_none(request.body.get("text")) or {}
    wanted = mapping_or_none(text.get("format")) or {}
    if wanted.get("type") != "json_object" or any("json" in said.casefold() for said in words(request)):
        return
    told = (
        "Response input messages must contain the word 'json' in some form to use 'text.format' of type 'json_object'."
    )
    yield broken("json_word", None, "input", told)


def tools(request: ResponsesRequest) -> Iterator[Violation]:
    """Tools are objects with a type; functions have legal names."""
    native = request.body.get("tools")
    if native is None:
        return
    if not isinstance(native, (list, tuple)):
        yield wrong_type("tools_type", None, "tools", "an array of objects", native)
        return
    for place, tool in enumerate(native):
        data = mapping_or_none(tool)
        if data is None:
            yield wrong_type("tools_type", None, f"tools[{place}]", "an object", tool)
        elif not isinstance(data.get("type"), str):
            # A warning: clients keep tool definitions in forms of their own, and send them in another.
            path = f"tools[{place}].type"
            yield broken("tool_type", None, path, f"Missing required parameter: '{path}'.", "warn")
        elif data["type"] in {"function", "custom"}:
            yield from function_name(data.get("name"), None, f"tools[{place}].name")


def tool_choice(request: ResponsesRequest) -> Iterator[Violation]:
    """What ``tool_choice`` names is among the tools; without tools it demands none."""
    choice, native = request.body.get("tool_choice"), request.body.get("tools")
    if not native and choice not in (None, "auto", "none"):
        yield broken("tool_choice", None, "tool_choice", "A tool choice must be specified with 'tools' parameter.")
    choice = mapping_or_none(choice) or {}
    listed = choice.get("tools") if choice.get("type") == "allowed_tools" else [choice]
    for each in listed if isinstance(listed, (list, tuple)) else ():
        name = (mapping_or_none(each) or {}).get("name")
        if isinstance(name, str) and name not in set(_names(native)):
            text = f"Tool choice '{name}' not found in 'tools' parameter."
            yield broken("tool_choice_name", None, "tool_choice", text)


def _names(native: object) -> Iterator[str]:
    """The names of tools, with those within namespaces."""
    for tool in native if isinstance(native, (list, tuple)) else ():
        data = mapping_or_none(tool) or {}
        if isinstance(name := data.get("name"), str):
            yield name
        if data.get("type") == "namespace":
            yield from _names(data.get("tools"))


def cache_key(request: ResponsesRequest) -> Iterator[Violation]:
    """A cache key has at most 64 characters."""
    key = request.body.get(path := "prompt_cache_key")
    if isinstance(key, str) and len(key) > CACHE_KEY_MAX:
        yield broken("cache_key_length", None, path, length_text(path, CACHE_KEY_MAX, len(key)))


RULES: tuple[Rule[ResponsesRequest], ...] = (
    input_present, role, content_type, call_bodies, cache_marker, strings, call_ids, pairs, item_ids,
    missing_reasoning, unfollowed, not_stored, sealed, same_family, reasoning_content, trigger_last, chain, json_word,
    tools, tool_choice, cache_key,
)  # fmt: skip
"""Each looks at the whole request and yields what it finds wrong."""


def violations(
    _wire: WireFormat, request: Mapping[str, Any], profile: ModelProfile | None, before: Mapping[str, Any] | None
) -> tuple[Violation, ...]:
    """Every rule that the request breaks, those of the request as a whole last; never raises for JSON-like input."""
    model = None if profile is None else profile.family
    origin = None if before is None else opened(before, None)
    return in_order(checked(RULES, opened(request, model, origin)), whole="last")
