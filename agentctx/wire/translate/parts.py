"""Parts that one provider's model and tools made, as parts that any other provider takes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from attrs import define, evolve, field

from agentctx.core.message import Message
from agentctx.core.parts import Media, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.tokens.carried import carried
from agentctx.wire.native import fields_or_none, json_object
from agentctx.wire.translate.beside import beside
from agentctx.wire.translate.ids import Respelling
from agentctx.wire.translate.media import left_out, name_of, named, placed, spelled_out
from agentctx.wire.translate.readable import is_marker, readable
from agentctx.wire.translate.target import Media as Takes
from agentctx.wire.translate.target import Target

FOREIGN_REASONING = "reasoning stays with the model that made it"
FAILED = "that the tool failed is not said here"
NEW_ID = "ids and names of calls are spelled as the provider takes them"
_FREE_TEXT = frozenset({"custom", "custom_tool_call"})


@define
class Spoken:
    """A message in plain values.

    Args:
        parts: What it says.
        shown: Media that a tool returned and that only a user may show.
        why: What could not stay as it was.
        named: The ids of the parts whose names were taken along.
    """

    parts: list[Part] = field(factory=list)
    shown: list[Part] = field(factory=list)
    why: list[str] = field(factory=list)
    named: set[int] = field(factory=set)


@define
class Translator:
    """Turns the messages of one conversation into plain values, one after the other.

    Args:
        target: What the provider's format can say.
        source: Name of the format that the conversation is in.
        ids: The ids of calls.
        names: The names of tools.
    """

    target: Target
    source: str
    ids: Respelling
    names: Respelling
    _called: dict[str, str] = field(factory=dict, init=False)

    @classmethod
    def to(cls, target: Target, source: str) -> Translator:
        """A translator for a conversation that begins.

        Args:
            target: What the provider's format can say.
            source: Name of the format that it is in.
        """
        return cls(target, source, Respelling(target.ids, target.unique_ids), Respelling(target.names))

    def message(self, message: Message) -> Spoken:
        """What a message says, without anything that belongs to its provider."""
        spoken = Spoken()
        takes = self.target.in_user if message.role in {"user", "tool"} else {}
        for part in message.parts:
            spoken.parts.extend(self._part(part, takes, spoken))
        if left := beside(message, self.source, spoken.named):
            spoken.why += _left(left, self.target)
        return spoken

    def _part(self, part: Part, takes: Takes, spoken: Spoken) -> Iterator[Part]:
        match part:
            case Text(text):
                yield Text(text)
            case Media():
                yield self._media(part, takes, spoken)
            case ToolCall():
                yield self._call(part, spoken)
            case ToolResult():
                yield self._result(part, spoken)
            case Thinking():
                spoken.why.append(FOREIGN_REASONING)
            case Opaque():
                yield from self._read(part, takes, spoken)

    def _media(self, part: Media, takes: Takes, spoken: Spoken) -> Part:
        if (found := placed(part, takes, self.target)) is not None:
            if part.detail not in {None, "auto", found.detail}:
                spoken.why.append(f"the wish for resolution went: {part.detail}")
            return self._named(found, part, spoken)
        if (text := spelled_out(part)) is not None:
            spoken.why.append("a document of plain text became text")
            return Text(text)
        spoken.why.append(f"this {part.kind} cannot be sent here")
        return left_out(part)

    def _named(self, found: Media, part: Media, spoken: Spoken) -> Media:
        made = named(found, part, self.target)
        if made is not found and name_of(part) is not None:
            spoken.named.add(id(part))
        return made

    def _call(self, part: ToolCall, spoken: Spoken) -> ToolCall:
        call_id, name = self.ids.of_call(part.id), self.names.of(part.name)
        if call_id != part.id or name != part.name:
            spoken.why.append(NEW_ID)
        if part.signature is not None:
            spoken.why.append(FOREIGN_REASONING)
        self._called[call_id] = name
        return ToolCall(call_id, name, self._arguments(part))

    def _arguments(self, part: ToolCall) -> str:
        """The arguments as JSON; the free text of a custom tool is wrapped, as its definition then says."""
        source = fields_or_none(part.source) or {}
        if str(source.get("type")) in _FREE_TEXT:
            return json.dumps({"input": part.arguments}, ensure_ascii=False)
        if self.target.arguments_object and not part.arguments.startswith("{"):
            return json.dumps(json_object(part.arguments), ensure_ascii=False)
        return part.arguments

    def _result(self, part: ToolResult, spoken: Spoken) -> ToolResult:
        call_id = self.ids.of_result(part.call_id)
        content: list[Part] = []
        for each in part.content:
            content.extend(self._output(each, call_id, spoken))
        if part.is_error and not self.target.says_failed:
            spoken.why.append(FAILED)
        if part.interim:
            spoken.why.append("that the tool says more later is not said here")
        return ToolResult(call_id, tuple(content), self._called.get(call_id, part.name), part.is_error)

    def _output(self, part: Part, call_id: str, spoken: Spoken) -> Iterator[Part]:
        if not isinstance(part, Media):
            yield from self._part(part, {}, spoken)
        elif (found := placed(part, self.target.in_results, self.target)) is not None:
            yield self._named(found, part, spoken)
        elif (found := placed(part, self.target.in_user, self.target)) is not None:
            spoken.why.append(f"the user shows the {part.kind} that a tool returned")
            shown = self._named(found, part, spoken)
            spoken.shown += [Text(f"[{part.kind} returned by the tool call {call_id}]"), shown]
            yield Text(f"[{part.kind}: see the next user message]")
        else:
            yield self._media(part, {}, spoken)

    def _read(self, part: Opaque, takes: Takes, spoken: Spoken) -> Iterator[Part]:
        """What can be read and seen in a block that only its provider understands."""
        if is_marker(part):
            return
        found = carried(part.data)
        text = readable(evolve(part, data=found.rest))
        if text is None and not found.media:
            spoken.why.append(f"a block that only its provider understands went: {part.kind}")
            return
        if part.kind != "refusal" or found.media:
            spoken.why.append(f"what can be read of a block became text: {part.kind}")
        if text is not None:
            yield Text(text)
        yield from (self._media(each, takes, spoken) for each in found.media)


def _left(keys: Sequence[str], target: Target) -> Iterator[str]:
    """Why keys were left: the provider has no place for them, or they are not taken along."""
    alone, shared = ([key for key in keys if (key in target.also) is also] for also in (False, True))
    if alone:
        yield f"only its own format has a place for: {', '.join(alone)}"
    if shared:
        yield f"not taken along: {', '.join(shared)}"


def in_one_text(parts: Sequence[Part]) -> list[Part]:
    """The parts with all texts joined where the first one stood, each on lines of its own."""
    texts = [part.text for part in parts if isinstance(part, Text) and part.text]
    if len(texts) < 2:
        return list(parts)
    joined: list[Part] = []
    for part in parts:
        if not isinstance(part, Text):
            joined.append(part)
        elif texts:
            joined.append(Text("\n".join(texts)))
            texts = []
    return joined
