"""OpenHands: events of a conversation, of its server (``action``, ``observation``) and of its SDK (``kind``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import define, field

from agentctx.errors import InvalidInput
from agentctx.formats.native import string_of
from agentctx.message import Native, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.transcripts.costs import seconds, usage_of
from agentctx.transcripts.exchanges import chat_message
from agentctx.transcripts.files import Fields, Read, left_out, parse
from agentctx.transcripts.frameworks import Turns, arguments, content_parts

NAME = "OpenHands"
TRAJECTORY = "OpenHands (trajectory)"

_SILENT = ("agent_state_changed", "change_agent_state", "null", "recall", "condensation")
_KINDS = ("Event", "Observation", "Condensation", "CondensationRequest", "CondensationSummaryEvent")
_LISTS = ("history", "trajectory", "events")


def read(events: Sequence[Native], beside: Fields) -> Read:
    """The events of a conversation."""
    # early versions keep an action together with its observation
    flat = (one for event in events for one in (event if isinstance(event, list) else [event]))
    said = [event for event in flat if isinstance(event, Mapping)]
    ends = ("ObservationEvent", "AgentErrorEvent")
    answered = {_call_of(event) for event in said if "observation" in event or event.get("kind") in ends}
    conversation = _Conversation(answered=answered)
    for event in said:
        _take_in(conversation, event)
    conversation.flush()
    name = next((beside[key] for key in ("instance_id", "id") if isinstance(beside.get(key), str)), None)
    times = conversation.condensed
    often = "once" if times == 1 else f"{times:,} times"
    notes = left_out([event for event in said if not _is_known(event)], "event")
    if times:
        notes = (*notes, f"the conversation was condensed {often} by OpenHands itself: its requests were shorter")
    return Read(conversation.turns.recording(tools=conversation.tools, id=name), notes)


def read_trajectory(document: Fields, place: str) -> Iterator[Read]:
    """The events that a line of an evaluation's output, or a saved trajectory, holds."""
    events: Native = next((document[key] for key in _LISTS if isinstance(document.get(key), list)), [])
    if not events:
        raise InvalidInput(place, "this trajectory of OpenHands holds no events: no model was called")
    yield read(events, document)


def read_folder(folder: Path, max_bytes: int) -> Iterator[Read]:
    """The events of a folder as the SDK keeps them: ``events/event-00000-<id>.json``, a file each.

    Args:
        folder: The conversation's folder, or the one of its events.
        max_bytes: All events together may have no more.

    Raises:
        InvalidInput: If no events are in it, one cannot be read, or they are larger together.
    """
    files = sorted([*folder.glob("event-*.json"), *folder.glob("events/event-*.json")])
    if not files:
        raise InvalidInput(str(folder), "is a directory, not a file")
    size = sum(file.stat().st_size for file in files)
    if size > max_bytes:
        raise InvalidInput(str(folder), f"has more than {max_bytes:,} bytes: pass --max-bytes to read more of it")
    events = [parse(str(file), (1, file.read_bytes())) for file in files]
    name = folder.parent.name if folder.name == "events" else folder.name
    yield read(events, {"id": name})


@define
class _Conversation:
    """What the events have said so far.

    An answer with several calls is an event for each call; it is one message, which stands where the first stands.
    """

    turns: Turns = field(factory=Turns)
    tools: list[Native] | None = None
    id: str | None = None
    condensed: int = 0
    answered: set[str] = field(factory=set)
    _answer: tuple[str | None, list[Part], Fields] | None = None
    _results: list[Part] = field(factory=list)

    def say(self, role: str, parts: Sequence[Part]) -> None:
        """What the user or the system said, or an answer without a call."""
        self.flush()
        self.turns.add(role, parts)

    def ask(self, answer: str | None, parts: Sequence[Part], bill: Fields) -> None:
        """A part of an answer: one that goes on with the answer before is joined with it."""
        if self._answer is not None and answer is not None and self._answer[0] == answer:
            known = {part.id for part in self._answer[1] if isinstance(part, ToolCall)}
            new = [part for part in parts if isinstance(part, ToolCall) and part.id not in known]
            self._answer[1].extend(new)
            return
        self.flush()
        self._answer = answer, list(parts), bill

    def hear(self, result: ToolResult) -> None:
        """The result of a call."""
        self._results.append(result)

    def flush(self) -> None:
        """The answer that is open is whole, and so are its results."""
        if self._answer is not None:
            _, parts, bill = self._answer
            # the call that ends a task has no result, and is no call for those after it
            ends = [each for each in parts if isinstance(each, ToolCall) and each.name == "finish"]
            self.turns.add("assistant", [each for each in parts if each not in ends or each.id in self.answered])
            self.turns.bill(usage_of(bill.get("usage")), string_of(bill, "model"), seconds(bill.get("timestamp")))
            self._answer = None
        self.turns.add("tool", self._results)
        self._results = []


def _is_known(event: Fields) -> bool:
    """Whether an event is of a kind that OpenHands writes."""
    kind = event.get("kind")
    return kind.endswith(_KINDS) if isinstance(kind, str) else "observation" in event or "action" in event


def _take_in(conversation: _Conversation, event: Fields) -> None:
    if isinstance(event.get("kind"), str):
        _take_in_of_sdk(conversation, event)
    elif event.get("action") in _SILENT or event.get("observation") in _SILENT:
        conversation.condensed += event.get("action") == "condensation"
    elif "observation" in event:
        _observe(conversation, event)
    elif "action" in event:
        _act(conversation, event)


def _act(conversation: _Conversation, event: Fields) -> None:
    given = event.get("args")
    args: dict[str, Any] = dict(given) if isinstance(given, Mapping) else {}
    action, content = event.get("action"), args.get("content")
    if action == "system":
        conversation.say("system", content_parts(content))
        tools = args.get("tools")
        conversation.tools = tools if isinstance(tools, list) else conversation.tools
    elif action == "message" and event.get("source") == "user":
        images = args.get("image_urls")
        urls = (url for url in images if isinstance(url, str)) if isinstance(images, list) else ()
        shown = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
        conversation.say("user", [*content_parts(content), *content_parts(shown)])
    elif event.get("source") == "agent":
        _answer(conversation, event, args)


def _answer(conversation: _Conversation, event: Fields, args: dict[str, Any]) -> None:
    found = (_metadata(event) or {}).get("model_response")
    response = found if isinstance(found, Mapping) else {}
    bill = {"usage": response.get("usage"), "model": response.get("model"), "timestamp": event.get("timestamp")}
    if (message := chat_message(response)) is not None:
        conversation.ask(string_of(response, "id"), _parts(message), bill)
    elif event.get("action") == "message":
        conversation.ask(None, content_parts(args.get("content")), bill)
    elif event.get("action") == "finish":
        said = args.get("final_thought") or args.get("thought") or event.get("message")
        conversation.ask(None, content_parts(str(said or "Done.")), bill)
    else:
        thought = args.pop("thought", "")
        name = (_metadata(event) or {}).get("function_name") or event.get("action")
        call = ToolCall(_call_of(event), str(name), arguments(args))
        conversation.ask(None, [*content_parts(thought if isinstance(thought, str) else ""), call], bill)


def _observe(conversation: _Conversation, event: Fields) -> None:
    content = event.get("content")
    said = content if isinstance(content, str) else arguments(content)
    if event.get("cause") is None and _metadata(event) is None:
        conversation.say("user", content_parts(said))
        return
    failed = event.get("observation") == "error"
    conversation.hear(ToolResult(_call_of(event), tuple(content_parts(said)), is_error=failed))


def _call_of(event: Fields) -> str:
    """The id of the call that an event is, or answers; without one, the number of the event that was the call."""
    found = event.get("tool_call_id") or (_metadata(event) or {}).get("tool_call_id")
    return found if isinstance(found, str) else f"event_{event.get('cause', event.get('id'))}"


def _metadata(event: Fields) -> Fields | None:
    found = event.get("tool_call_metadata")
    return found if isinstance(found, Mapping) else None


def _parts(message: Fields) -> list[Part]:
    """The parts of a message of Chat Completions."""
    calls = message.get("tool_calls")
    thought = message.get("reasoning_content")
    parts: list[Part] = [Thinking(thought)] if isinstance(thought, str) and thought else []
    parts += content_parts(message.get("content"))
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(call, Mapping) and isinstance(function, Mapping) and isinstance(call.get("id"), str):
            parts.append(ToolCall(call["id"], str(function.get("name")), arguments(function.get("arguments"))))
    return parts


def _take_in_of_sdk(conversation: _Conversation, event: Fields) -> None:
    kind = event["kind"]
    if kind == "SystemPromptEvent":
        conversation.say("system", content_parts(event.get("system_prompt")))
        tools = event.get("tools")
        conversation.tools = tools if isinstance(tools, list) else conversation.tools
    elif kind == "MessageEvent":
        message = event.get("llm_message")
        said = message if isinstance(message, Mapping) else {}
        extended = event.get("extended_content")
        parts = [*content_parts(said.get("content")), *content_parts(extended if isinstance(extended, list) else [])]
        if said.get("role") == "assistant":
            conversation.ask(None, parts, {"timestamp": event.get("timestamp")})
        else:
            conversation.say("user", parts)
    elif kind == "ActionEvent":
        _act_of_sdk(conversation, event)
    elif kind in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation"):
        _observe_of_sdk(conversation, event)
    elif kind == "Condensation":
        conversation.condensed += 1


def _act_of_sdk(conversation: _Conversation, event: Fields) -> None:
    given, response = event.get("tool_call"), event.get("llm_response_id")
    call = given if isinstance(given, Mapping) else {}
    function = call.get("function")
    inner = function if isinstance(function, Mapping) else call
    name = inner.get("name") or event.get("tool_name")
    asked = ToolCall(_call_of(event), str(name), arguments(inner.get("arguments")))
    thinking = event.get("thinking_blocks")
    reasoning = event.get("reasoning_content")
    thought = content_parts(thinking if isinstance(thinking, list) else [])
    if not thought and isinstance(reasoning, str) and reasoning:
        thought = [Thinking(reasoning)]
    said = content_parts(event.get("thought") if isinstance(event.get("thought"), (list, str)) else [])
    parts = [*thought, *said, asked]
    if name == "finish" and asked.id not in conversation.answered and not said:
        action = event.get("action")
        parts.append(Text(str(action.get("message") if isinstance(action, Mapping) else "Done.")))
    name_of_answer = response if isinstance(response, str) else None
    conversation.ask(name_of_answer, parts, {"timestamp": event.get("timestamp")})


def _observe_of_sdk(conversation: _Conversation, event: Fields) -> None:
    found = event.get("observation")
    held = found if isinstance(found, Mapping) else {}
    content = next((held[key] for key in ("content", "output", "message", "text") if held.get(key)), None)
    failed = event["kind"] != "ObservationEvent" or held.get("is_error") is True
    if content is None:
        content = event.get("error") or event.get("rejection_reason") or arguments(held)
    parts = content_parts(content if isinstance(content, (str, list)) else arguments(content))
    conversation.hear(ToolResult(_call_of(event), tuple(parts), string_of(event, "tool_name"), is_error=failed))
