"""What the Responses API refuses and can be repaired without looking for pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define, evolve, field

from agentctx.core.message import BREAKPOINT, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.core.pace import paced
from agentctx.providers.native import fields_of
from agentctx.providers.openai_chat.messages import NAME, cleaned, nearest_name, sent_arguments, short_id, value_of
from agentctx.providers.openai_responses.items import answer_as, kind_answering, read_message, without_id
from agentctx.wire_format import Repaired, Spelling

CALL_ID_MAX = 64
"""The longest ``call_id``, in characters."""

IDS = Spelling(r"\s\S", CALL_ID_MAX)
"""How the ids of calls are spelled: anyhow, if they are short."""

CACHEABLE = ("input_text", "input_image", "input_file")
"""The blocks that a cache marker may stand on."""

_NEEDS_ID = frozenset({"reasoning", "mcp_approval_request"})


@define
class _Repairing:
    """What is sent instead of messages.

    Args:
        instead: By index, the message to send instead (None: nothing), and why.
    """

    messages: Sequence[Message]
    instead: dict[int, tuple[Message | None, str]] = field(factory=dict)

    def now(self, index: int) -> Message | None:
        """What is sent at this place; None when nothing is."""
        return self.instead[index][0] if index in self.instead else self.messages[index]

    def put(self, index: int, message: Message | None, why: str) -> None:
        """Send something else at this place."""
        before = self.instead.get(index, (None, ""))[1]
        self.instead[index] = message, f"{before}, {why}" if before else why


def repair(messages: Sequence[Message], earlier: Mapping[str, Message]) -> tuple[Repaired, ...]:
    """What is refused and can be repaired: (index, new message or None to drop it, why).

    Text is cleaned, ids are shortened alike in calls and results, an item that is there twice goes once, reasoning
    that nothing follows goes.
    """
    repairing = _Repairing(messages)
    for index, message in paced(enumerate(messages)):
        for part in message.parts:
            if not _is_fine(part):
                _repair_parts(repairing, index, message)
                break
    _repeated(repairing, earlier, reasoning=False)
    _triggers(repairing)
    _unfollowed(repairing)
    _repeated(repairing, earlier, reasoning=True)  # last: of two with one id, the first may be among those that went
    return tuple((index, *repairing.instead[index]) for index in sorted(repairing.instead))


def _is_fine(part: Part) -> bool:
    """Whether a part is surely fine: looked at before anything is made, since nearly every part is."""
    if isinstance(part, Text):
        return part.text.isascii() and not _marked_wrongly(part)
    if isinstance(part, ToolCall):
        plain = part.arguments.isascii() and "NaN" not in part.arguments and "Infinity" not in part.arguments
        return plain and len(part.id) <= CALL_ID_MAX and NAME.fullmatch(part.name) is not None
    if isinstance(part, ToolResult):
        return len(part.call_id) <= CALL_ID_MAX and all(map(_is_fine, part.content))
    return not isinstance(part, Thinking) or not value_of(part.source, "content")


def _repair_parts(repairing: _Repairing, index: int, message: Message) -> None:
    why: list[str] = []
    parts = tuple([_part(part, why) for part in message.parts])
    if why:
        repairing.put(index, message.with_parts(parts), ", ".join(dict.fromkeys(why)))


def _part(part: Part, why: list[str]) -> Part:
    repairer = _REPAIRERS.get(type(part))
    return part if repairer is None else repairer(part, why)


def _marked_wrongly(part: Text | ToolCall) -> bool:
    """Whether a cache marker stands on a block that is none of input."""
    block = part.source
    if block is None or isinstance(block, str) or value_of(block, BREAKPOINT) is None:
        return False
    return value_of(block, "type") not in CACHEABLE


def _text(part: Text, why: list[str]) -> Text:
    if _marked_wrongly(part):
        why.append("a cache marker stands on input only")
        part = evolve(part, source={key: held for key, held in fields_of(part.source).items() if key != BREAKPOINT})
    clean = cleaned(part.text, why)
    return part if clean is part.text else evolve(part, text=clean)


def _call(part: ToolCall, why: list[str]) -> ToolCall:
    finite = sent_arguments(part, why)
    identity, name = _short(part.id, why), _legal(part.name, why)
    if identity is part.id and name is part.name and finite is part.arguments:
        return part
    return evolve(part, id=identity, name=name, arguments=finite)


def _result(part: ToolResult, why: list[str]) -> ToolResult:
    before = len(why)
    content = tuple([_part(each, why) for each in part.content])
    identity = _short(part.call_id, why)
    return part if len(why) == before else evolve(part, call_id=identity, content=content)


def _thinking(part: Thinking, why: list[str]) -> Thinking:
    """Encrypted reasoning goes back without its readable form, which OpenAI refuses."""
    source = part.source
    if part.encrypted is None or not value_of(source, "content"):
        return part
    why.append("reasoning goes back encrypted only")
    native = {**fields_of(source), "content": []}
    summary = [each.get("text") for each in map(fields_of, native.get("summary") or ())]
    return evolve(part, text="\n".join(text for text in summary if isinstance(text, str)), source=native)


def summarised(messages: Sequence[Message], note: Callable[[Message, str], None]) -> Sequence[Message]:
    """The messages with readable reasoning in its summary, the one place that OpenAI takes it in; the same if so."""
    if not any(map(_is_readable, messages)):
        return messages
    return [_summarised(message, note) if _is_readable(message) else message for message in messages]


def _is_readable(message: Message) -> bool:
    return any(isinstance(part, Thinking) and value_of(part.source, "content") for part in message.parts)


def _summarised(message: Message, note: Callable[[Message, str], None]) -> Message:
    part = message.parts[0]
    native = {**fields_of(part.source), "content": []}
    if isinstance(part, Thinking) and part.text and part.encrypted is None:
        native["summary"] = [{"type": "summary_text", "text": part.text}]
    made = message.with_parts((evolve(part, source=native),))
    for each in (message, made):
        note(each, "reasoning goes back as a summary")
    return made


_REPAIRERS: Mapping[type, Callable[[Any, list[str]], Part]] = {
    Text: _text,
    ToolCall: _call,
    ToolResult: _result,
    Thinking: _thinking,
}


def _short(identity: str, why: list[str]) -> str:
    """The id, or one that fits, made from it alone, so that call and result still match."""
    if len(identity) <= CALL_ID_MAX:
        return identity
    why.append(f"the id of a call is longer than {CALL_ID_MAX} characters")
    return short_id(identity)


def _legal(name: str, why: list[str]) -> str:
    """The name, or what is nearest to it among the names that are taken; models make names up."""
    if NAME.fullmatch(name):
        return name
    why.append("the name of a call has characters that are not allowed")
    return nearest_name(name)


def item_id(message: Message) -> str | None:
    """The id of an item, which no other may have; None when it has none."""
    identity = value_of(message.source, "id")
    if not isinstance(identity, str) or value_of(message.source, "type") == "local_shell_call_output":
        return None  # the id of a local shell's answer is that of the call
    return identity


def of_their_kind(messages: Sequence[Message]) -> Iterator[tuple[int, tuple[Message, ...], str]]:
    """Answers of another kind than their calls, each with what says the same in the kind that the call asks for."""
    asked: dict[str, ToolCall] = {}
    for index, message in paced(enumerate(messages)):
        for part in message.parts:
            if isinstance(part, ToolCall):
                asked[part.id] = part
            elif isinstance(part, ToolResult) and (call := asked.get(part.call_id)) is not None:
                kind = value_of(message.source, "type") or "function_call_output"
                if message.role == "tool" and kind != kind_answering(call):
                    made = message.replaced(read_message(answer_as(call, part), index))
                    yield index, (made,), f"a {kind_answering(call)} has to answer the call, not a {kind}"


def _repeated(repairing: _Repairing, earlier: Mapping[str, Message], *, reasoning: bool) -> None:
    """No two items may have one id: the same item again goes, another one with that id goes on without id."""
    seen: dict[str, Message] = {}
    for index, message in paced(enumerate(repairing.messages)):
        now = repairing.now(index)
        if now is None or (identity := item_id(now)) is None or (_thought(now) is not None and not reasoning):
            continue
        first = earlier.get(identity) or seen.setdefault(identity, message)
        if first is message:
            continue
        same = first == message or bool(first.payload == message.payload)  # which may have been cut since
        if same or value_of(message.source, "type") in _NEEDS_ID:
            repairing.put(index, None, f"the item {identity!r} is there twice")
        else:
            repairing.put(index, without_id(now), f"another item has the id {identity!r}")


def _triggers(repairing: _Repairing) -> None:
    """A wish for compaction stands at the end or not at all."""
    for index, message in enumerate(repairing.messages[:-1]):
        if message.role == "developer" and _kind(message) == "compaction_trigger":
            repairing.put(index, None, "a compaction_trigger must be the last item")


def _kind(message: Message) -> str:
    part = message.parts[0] if message.parts else None
    return part.kind if isinstance(part, Opaque) else ""


def _unfollowed(repairing: _Repairing) -> None:
    """Signed reasoning goes when the item that it led to is not there."""
    followed = False
    for index in range(len(repairing.messages) - 1, -1, -1):
        if (message := repairing.now(index)) is None:
            continue
        if (thought := _thought(message)) is None:
            followed = message.role == "assistant"
        elif thought.signed and not followed:
            repairing.put(index, None, "nothing follows the reasoning")


def _thought(message: Message) -> Thinking | None:
    """The reasoning that an item is; None when it is another."""
    first = message.parts[0] if message.parts else None
    return first if isinstance(first, Thinking) else None
