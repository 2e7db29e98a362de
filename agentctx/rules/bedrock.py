"""The rules that make a Converse request valid, each a small function, in one ordered list.

Error texts as captured from the API, all ValidationExceptions; a text for which there is no recording says what the
documentation or the service model says.

The requests of one conversation are validated without a look at all of their messages again: ``GrowingConverse``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from attrs import evolve, frozen

from agentctx.formats.bedrock import BY_TURNS, ID, NAME, REFUSES_MIXED, kind_of
from agentctx.formats.native import base64_or_text, fields_or_none, mapping_or_none, string_of
from agentctx.models.profile import ModelProfile
from agentctx.rules import anthropic as anthropic_rules
from agentctx.rules.rule import (
    NOTHING,
    Entry,
    LaidOut,
    Rule,
    Turn as TurnOf,
    checked,
    entries_of,
    in_order,
    refusing,
    turns_of,
)
from agentctx.tokens.media import image_size
from agentctx.wire_format import Violation, WireFormat

_FAMILY = re.compile(
    r"claude|qwen|nova|mi[sx]tral|magistral|llama|command|jamba|deepseek|gpt-oss|kimi|glm|minimax|titan"
)


refused = refusing("br", "messages")


@frozen
class BlockAt(anthropic_rules.ContentBlock):
    """One content block; its kind is the member that it holds."""

    @property
    def held(self) -> Mapping[str, Any]:
        """What it holds, when that is an object; else empty."""
        return fields_or_none(self.data.get(self.kind)) or NOTHING

    @property
    def text(self) -> str | None:
        """Its text, when it is one."""
        return self.string("text")

    @property
    def call(self) -> str | None:
        """The id of the call, when it is a caller's own tool call or the result of one."""
        if self.kind not in {"toolUse", "toolResult"} or self.held.get("type") is not None:
            return None
        return string_of(self.held, "toolUseId")

    @property
    def inner(self) -> tuple[BlockAt, ...]:
        """The blocks in the content of a tool result."""
        if self.kind != "toolResult":
            return ()
        return blocks_of(self.held.get("content"), self.index, f"{self.path}.toolResult.content", self.role)


Message = Entry[BlockAt]
Turn = TurnOf[BlockAt]


@frozen
class ConverseRequest(LaidOut[BlockAt]):
    """A request, laid out; the model's id is empty when none is named."""

    model: str
    profile: ModelProfile | None

    @property
    def family(self) -> str:
        """The model's family; empty when it is not known."""
        found = _FAMILY.search(self.model.lower())
        return found[0] if found else ""

    @property
    def tools(self) -> tuple[Mapping[str, Any], ...] | None:
        """The members of ``toolConfig.tools`` (or of ``tools``); None when there is no such list."""
        config = fields_or_none(self.data.get("toolConfig")) or NOTHING
        given = config.get("tools", self.data.get("tools"))
        if not isinstance(given, (list, tuple)):
            return None
        return tuple(fields_or_none(tool) or NOTHING for tool in given)


def lay_out(data: Mapping[str, Any], profile: ModelProfile | None) -> ConverseRequest:
    """Lay a request out; its model is known by the profile, else by its id."""
    entries = tuple(entries_of(data.get("messages"), fields_or_none, blocks_of))
    named = data.get("modelId", data.get("model"))
    model = profile.family if profile is not None else named if isinstance(named, str) else ""
    system = data.get("system")
    said = ({"text": system},) if isinstance(system, str) else system
    apart = blocks_of(said, None, "system", "system")
    return ConverseRequest(data, entries, tuple(turns_of(entries)), apart, model, profile)


def blocks_of(content: object, index: int | None, path: str, role: str) -> tuple[BlockAt, ...]:
    """Content blocks; none when there is no list of them."""
    if not isinstance(content, (list, tuple)):
        return ()
    opened = enumerate(fields_or_none(native) or NOTHING for native in content)
    return tuple(BlockAt(index, f"{path}.{place}", role, kind_of(data), data) for place, data in opened)


def _of_kind(turn: Turn, kind: str) -> tuple[BlockAt, ...]:
    """The blocks of one kind that belong to the caller's own tools."""
    return tuple(block for block in turn.blocks if block.kind == kind and block.call)


_MEDIA = frozenset({"image", "document", "video", "audio"})
_MOST = {"image": 20, "document": 5}
_LARGEST = {"image": 3.75, "document": 4.5}
_LONGEST_SIDE = 8000
_MEGABYTE = 1024 * 1024


def media_role(request: ConverseRequest) -> Iterator[Violation]:
    """Media stand in user messages only."""
    for block in request.blocks:
        if block.kind in _MEDIA and block.role != "user":
            text = f"{block.path}: {block.kind} blocks can only be in messages with media_role user"
            yield refused("media_role", block, text)


def document_text(request: ConverseRequest) -> Iterator[Violation]:
    """A document has a text beside it."""
    for entry in request.entries:
        kinds = {block.kind for block in entry.blocks}
        if "document" in kinds and "text" not in kinds:
            text = f"{entry.path}.content: a text block is required in a message that includes a document block"
            yield refused("document_needs_text", entry, text)


def numbers(request: ConverseRequest) -> Iterator[Violation]:
    """A message holds at most 20 images and 5 documents."""
    for entry in request.entries:
        every = [each for block in entry.blocks for each in (block, *block.inner)]
        for kind, most in _MOST.items():
            found = [block for block in every if block.kind == kind]
            if len(found) > most:
                text = f"{entry.path}.content: at most {most} {kind} blocks are allowed, found {len(found)}"
                yield refused(f"{kind}s_max", found[most], text)


def sizes(request: ConverseRequest) -> Iterator[Violation]:
    """Images and documents that are carried inline are not too large."""
    for block in request.blocks:
        for each in (block, *block.inner):
            if each.kind in _LARGEST:
                yield from _size(each)


MEDIA_RULES = (media_role, document_text, numbers, sizes)


def _size(block: BlockAt) -> Iterator[Violation]:
    source = fields_or_none(block.held.get("source")) or NOTHING
    raw = source.get("bytes")
    size = len(raw) * 3 // 4 if isinstance(raw, str) else len(raw) if isinstance(raw, (bytes, bytearray)) else 0
    most = _LARGEST[block.kind]
    if size > most * _MEGABYTE:
        text = f"{block.path}.{block.kind}: {size:,} bytes are more than {most} MB"
        yield refused(f"{block.kind}_size", block, text)
        return
    data = base64_or_text(raw) if block.kind == "image" else None
    pixels = None if data is None else image_size(data)
    if pixels is not None and max(pixels) > _LONGEST_SIDE:
        text = f"{block.path}.image: {pixels[0]} x {pixels[1]} pixels; no side may be longer than {_LONGEST_SIDE}"
        yield refused("image_pixels", block, text)


_RULES = {
    "anth.thinking_modified": "br.reasoning_modified",
    "anth.signature_invalid": "br.reasoning_signature",
    "anth.thinking_bound": "br.reasoning_bound",
    "anth.thinking_missing": "br.reasoning_missing",
    "anth.signature_missing": "br.reasoning_unsigned",
    "anth.encrypted_modified": "br.encrypted_modified",
}
_PLACE = re.compile(r"messages\.(\d+)\.content\.(\d+)")


def reasoning(request: ConverseRequest, before: ConverseRequest | None) -> Iterator[Violation]:
    """Reasoning leads an open tool round, is signed, and says what it said when it was signed."""
    extra = fields_or_none(request.data.get("additionalModelRequestFields")) or NOTHING
    thinks = (mapping_or_none(extra.get("thinking")) or NOTHING).get("type") == "enabled"
    if not thinks and all(block.kind in _WITHOUT_REASONING for block in request.blocks):
        return  # the rules of reasoning can find nothing
    laid = _as_anthropic(request)
    found: list[Violation] = []
    if request.family == "claude":
        found.extend(anthropic_rules.leads_round(laid))
        found.extend(anthropic_rules.signatures(laid))
    if before is not None:
        original = _as_anthropic(before)
        for compare in anthropic_rules.RULES_OF_WHAT_CAME_BEFORE:
            found.extend(compare(laid, original))
    yield from (_renamed(violation, request) for violation in found)


_WITHOUT_REASONING = frozenset({"text", "toolUse", "toolResult", "cachePoint", *_MEDIA})


def _renamed(violation: Violation, request: ConverseRequest) -> Violation:
    """The violation under our name for the rule, at the place in this request."""

    def place(found: re.Match[str]) -> str:
        kept = _kept(request.entries[int(found[1])])
        return kept[int(found[2])].path

    rule = _RULES.get(violation.rule, violation.rule.replace("anth.", "br."))
    index = None if violation.index is None else request.entries[violation.index].index
    path, message = _PLACE.sub(place, violation.path), _PLACE.sub(place, violation.message)
    return evolve(violation, rule=rule, index=index, path=path, message=message)


def seal(block: BlockAt) -> str | None:
    """What the provider recognises reasoning by; None for what is no reasoning, or not signed."""
    if block.kind != "reasoningContent":
        return None
    return anthropic_rules.seal(evolve(block, kind=(made := _as_block(block))["type"], data=made)) or None


def _as_anthropic(request: ConverseRequest) -> anthropic_rules.MessagesRequest:
    messages = [
        {"role": entry.role, "content": [_as_block(block) for block in _kept(entry)]} for entry in request.entries
    ]
    extra = fields_or_none(request.data.get("additionalModelRequestFields")) or NOTHING
    specs = [fields_or_none(tool.get("toolSpec")) or tool for tool in request.tools or () if "cachePoint" not in tool]
    data = {
        "model": request.model,
        "messages": messages,
        "system": [_as_block(block) for block in request.system if block.kind != "cachePoint"],
        "tools": [
            {"name": spec.get("name"), "description": spec.get("description"), "input_schema": spec.get("inputSchema")}
            for spec in specs
        ],
        "thinking": extra.get("thinking"),
    }
    return anthropic_rules.lay_out(data, request.profile)


def _kept(entry: Message) -> list[BlockAt]:
    """The blocks without cache points, which in the Messages API are a mark on the block before."""
    return [block for block in entry.blocks if block.kind != "cachePoint"]


def _as_block(block: BlockAt) -> dict[str, Any]:
    held = block.held
    if block.kind == "text":
        return {"type": "text", "text": block.text or ""}
    if block.kind == "toolUse":
        return {"type": "tool_use", "id": held.get("toolUseId"), "name": held.get("name"), "input": held.get("input")}
    if block.kind == "toolResult":
        inner = [_as_block(each) for each in block.inner]
        return {"type": "tool_result", "tool_use_id": held.get("toolUseId"), "content": inner}
    if block.kind == "reasoningContent":
        said = fields_or_none(held.get("reasoningText"))
        if said is not None:
            return {"type": "thinking", "thinking": said.get("text"), "signature": said.get("signature")}
        return {"type": "redacted_thinking", "data": base64_or_text(held.get("redactedContent"))}
    return {"type": block.kind, "held": block.data.get(block.kind)}


_CHOICES = ("auto", "any", "tool")


def unanswered(request: ConverseRequest) -> Iterator[Violation]:
    """Each ``toolUse`` is answered in the next user turn."""
    for turn, after in pairwise((*request.turns, None)):
        if turn is None or turn.role != "assistant":
            continue
        given = set() if after is None else {block.call for block in _of_kind(after, "toolResult")}
        if missing := [block.call or "" for block in _of_kind(turn, "toolUse") if block.call not in given]:
            last = turn.entries[-1]
            text = (
                f"Expected toolResult blocks at messages.{last.index + 1}.content for the following Ids: "
                f"{', '.join(missing)}"
            )
            yield refused("tool_use_unanswered", last, text)


def excess(request: ConverseRequest) -> Iterator[Violation]:
    """A user turn has no more results than the turn before it has calls."""
    for before, turn in pairwise((None, *request.turns)):
        if turn is None or turn.role != "user":
            continue
        asked = 0 if before is None else len(_of_kind(before, "toolUse"))
        answers = _of_kind(turn, "toolResult")
        if len(answers) > asked:
            at = answers[asked]
            text = (
                f"The number of toolResult blocks at messages.{at.index}.content exceeds the number of toolUse "
                "blocks of previous turn."
            )
            yield refused("tool_result_excess", at, text, f"messages.{at.index}.content")


def unique_calls(request: ConverseRequest) -> Iterator[Violation]:
    """The ids of all calls differ; only Claude is known to insist on it."""
    seen: set[str] = set()
    for block in request.blocks:
        if block.kind != "toolUse" or block.call is None:
            continue
        if block.call in seen:
            text = f"{block.path}: `tool_use` ids must be unique"
            yield refused("tool_use_dup", block, text, severity="error" if request.family == "claude" else "warn")
        seen.add(block.call)


def results_first(request: ConverseRequest) -> Iterator[Violation]:
    """In a user message results stand before everything else; Claude may miss them otherwise."""
    for entry in request.entries:
        others = False
        for block in entry.blocks:
            if block.call is not None and block.kind == "toolResult" and others:
                text = f"{block.path}: toolResult blocks must come first in the content"
                yield refused("tool_result_late", block, text, severity="warn")
                break
            others = others or block.kind not in {"toolResult", "cachePoint"}


def mixed(request: ConverseRequest) -> Iterator[Violation]:
    """Some models refuse results and anything else in one turn; Claude and Nova take them."""
    if request.family in {"claude", "nova"}:
        return
    for entry in request.entries:
        others = [block for block in entry.blocks if block.kind not in {"toolResult", "cachePoint"}]
        if others and entry.role == "user" and any(block.kind == "toolResult" for block in entry.blocks):
            text = (
                f"{entry.path}.content: Conversation blocks and tool result blocks cannot be provided in the same turn."
            )
            sure = REFUSES_MIXED.search(request.family)
            yield refused("mixed_result_turn", entry, text, f"{entry.path}.content", "error" if sure else "warn")


def sides(request: ConverseRequest) -> Iterator[Violation]:
    """Calls are the assistant's, results the user's."""
    for block in request.blocks:
        owner = {"toolUse": "assistant", "toolResult": "user"}.get(block.kind)
        if owner is not None and block.call is not None and block.role != owner:
            text = f"{block.path}: {block.kind} blocks can only be in {owner} messages"
            yield refused("tool_role", block, text)


def ids(request: ConverseRequest) -> Iterator[Violation]:
    """Ids and names are there, and consist of the characters that they may have. An id is named where it is first."""
    seen: set[str] = set()
    for block in (*blocks_of(request.tools, None, "toolConfig.tools", ""), *request.blocks):
        if block.kind in {"toolUse", "toolSpec"}:
            yield from _spelled(block, "name", "name_pattern", NAME)
        if block.kind not in {"toolUse", "toolResult"}:
            continue
        if str(block.held.get("toolUseId")) not in seen:
            yield from _spelled(block, "toolUseId", "id_pattern", ID)
        seen.add(str(block.held.get("toolUseId")))


def inputs(request: ConverseRequest) -> Iterator[Violation]:
    """The input of a call is an object, the content of a result a list, which some models want to hold something."""
    for block in request.blocks:
        if block.kind == "toolUse" and fields_or_none(block.held.get("input")) is None:
            path = f"{block.path}.toolUse.input"
            text = f"The format of the value at {path} is invalid. Provide a json object for the field and try again."
            yield refused("input_object", block, text, path)
        if block.kind == "toolResult":
            path, given = f"{block.path}.toolResult.content", block.held.get("content")
            if not isinstance(given, (list, tuple)):
                text = f"Invalid type for parameter {path}, valid types: list, tuple"
                yield refused("result_content", block, text, path)
            elif not given:
                text = f"The content field in the ToolResultBlock object at {path} is empty."
                yield refused("result_empty", block, text, path, "warn")


def config_there(request: ConverseRequest) -> Iterator[Violation]:
    """While a tool block remains there is a ``toolConfig``. A request that names no model is a part of one."""
    used = next((block for block in request.blocks if block.kind in {"toolUse", "toolResult"}), None)
    if used is not None and request.tools is None and ("modelId" in request.data or "model" in request.data):
        text = "The toolConfig field must be defined when using toolUse and toolResult content blocks."
        yield refused("toolconfig_missing", used, text, "toolConfig")


def config(request: ConverseRequest) -> Iterator[Violation]:
    """``toolConfig`` lists a tool, and its choice is one of them."""
    given = fields_or_none(request.data.get("toolConfig"))
    if given is None:
        return
    tools = request.tools
    if not tools:
        text = "Invalid length for parameter toolConfig.tools, value: 0, valid min length: 1"
        yield refused("tools_empty", None, text, "toolConfig.tools")
    choice = fields_or_none(given.get("toolChoice"))
    if choice is None:
        return
    kinds = [key for key, held in choice.items() if held is not None]
    if len(kinds) != 1 or kinds[0] not in _CHOICES:
        text = "Invalid number of parameters set for tagged union structure toolConfig.toolChoice: auto, any, tool"
        yield refused("tool_choice", None, text, "toolConfig.toolChoice")
        return
    wanted = (fields_or_none(choice.get("tool")) or NOTHING).get("name")
    names = [(fields_or_none(tool.get("toolSpec")) or NOTHING).get("name") for tool in tools or ()]
    if "tool" in choice and wanted not in names:
        text = f"The provided toolChoice names the tool {wanted!r}, which toolConfig.tools does not define."
        yield refused("tool_choice", None, text, "toolConfig.toolChoice.tool.name")


TOOL_RULES = (
    unanswered, excess, unique_calls, results_first, mixed, sides, ids, inputs, config_there, config,
)  # fmt: skip


def _spelled(block: BlockAt, key: str, rule: str, pattern: re.Pattern[str]) -> Iterator[Violation]:
    path = f"{block.path}.{block.kind}.{key}"
    found = block.held.get(key)
    if not isinstance(found, str):
        text = f'Missing required parameter in {block.path}.{block.kind}: "{key}"'
        yield refused(f"{rule.partition('_')[0]}_missing", block, text, path)
    elif not pattern.fullmatch(found):
        text = (
            f"Value '{found}' at '{path}' failed to satisfy constraint: Member must satisfy regular expression "
            f"pattern: {pattern.pattern}"
        )
        yield refused(rule, block, text, path)


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
    _wire: WireFormat, request: Mapping[str, Any], profile: ModelProfile | None, before: Mapping[str, Any] | None
) -> tuple[Violation, ...]:
    """Every rule that the request breaks, in the order of its messages; never raises."""
    laid, original = lay_out(request, profile), None if before is None else lay_out(before, profile)
    return in_order((*checked(RULES, laid), *reasoning(laid, original)))


def messages_given(request: ConverseRequest) -> Iterator[Violation]:
    """There is a message."""
    if not request.entries:
        yield refused("messages_empty", None, _START)


def role(request: ConverseRequest) -> Iterator[Violation]:
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


def first_user(request: ConverseRequest) -> Iterator[Violation]:
    """The user begins; Claude and Qwen also take an assistant that does."""
    first = request.entries[0] if request.entries else None
    if first is not None and first.role == "assistant" and request.family not in {"claude", "qwen"}:
        yield refused("first_user", first, _START, severity="error" if request.model else "warn")


def alternation(request: ConverseRequest) -> Iterator[Violation]:
    """User and assistant speak by turns; newer models merge neighbours of one role, older ones refuse them."""
    older = BY_TURNS.search(request.model.lower()) is not None
    for before, entry in pairwise(request.entries):
        if entry.role in {"user", "assistant"} and before.role == entry.role:
            yield refused("alternate", entry, _ALTERNATE, severity="error" if older else "warn")


def content(request: ConverseRequest) -> Iterator[Violation]:
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


def text(request: ConverseRequest) -> Iterator[Violation]:
    """Text is a string in which there is something to see; within tool results only some models insist on it."""
    for block in (*request.system, *request.blocks):
        yield from _text(block)
        for inner in block.inner:
            yield from _text(inner, within_result=True)


def cache_points(request: ConverseRequest) -> Iterator[Violation]:
    """At most four cache points, each for 5 minutes or an hour; none for models that cache nothing on demand."""
    config = fields_or_none(request.data.get("toolConfig")) or NOTHING
    tools = blocks_of(config.get("tools", request.data.get("tools")), None, "toolConfig.tools", "")
    given = [
        each
        for block in (*tools, *request.system, *request.blocks)
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


RULES: tuple[Rule[ConverseRequest], ...] = (
    messages_given, role, first_user, alternation, content, text, cache_points, *TOOL_RULES, *MEDIA_RULES,
)  # fmt: skip


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
