"""Plans of conversations, written by hand as each provider's messages: also what no format of the library writes.

The writers share nothing with the library's own formats, which are tested with what they write.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Literal

from attrs import field, frozen

from agentctx.message import Native
from agentctx.testing.writers import History


def write(plan: Plan, format: str) -> History:  # noqa: A002 - the name that the whole library gives it
    """Write a plan down as a provider's messages."""
    writer, turns, system = WRITERS[format], plan.turns, None
    if writer.system_apart and turns and turns[0].role in {"system", "developer"}:
        (opening,), turns = writer.messages(turns[:1]), turns[1:]
        system = opening["content"] if "content" in opening else {"parts": opening["parts"]}
    tools = writer.tools(plan.tools) or None
    return History(format, writer.messages(turns), system, tools)


TurnRole = Literal["system", "developer", "user", "assistant", "results"]


@frozen
class Say:
    """Text."""

    text: str


@frozen
class Picture:
    """An image, carried inline in base64."""

    data: str = field(repr=False)
    media_type: str = "image/png"


@frozen
class Think:
    """Reasoning that the provider signed; formats without such blocks leave it out.

    Args:
        text: The reasoning; when ``redacted``, its encrypted form, which only the provider can read.
        signature: The provider's signature.
    """

    text: str
    signature: str
    redacted: bool = False


@frozen
class Ask:
    """The model calls a tool.

    Args:
        arguments: The arguments; text stands for arguments that are not a JSON object.
        caller: The id of the ``Code`` that calls it; None when the model itself does.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] | str = field(factory=dict, hash=False)
    caller: str | None = None


@frozen
class Hosted:
    """A tool that the provider ran itself within the turn; formats without such blocks leave it out.

    Args:
        result: What the tool found; None when the call is cut off from its result.
    """

    id: str
    name: str = "web_search"
    input: Mapping[str, Any] = field(factory=dict, hash=False)
    result: Native = field(factory=list, hash=False)


@frozen
class Code:
    """Code that the provider runs, and that may call tools; formats without such blocks leave it out."""

    id: str
    text: str = "await read()"


@frozen
class Ran:
    """What the code with this id has printed; the code stands before it, in this turn or an earlier one."""

    id: str
    output: str = ""


@frozen
class Foreign:
    """A block of a kind that nobody knows, and what is in it; formats that cannot carry it leave it out."""

    kind: str
    data: Mapping[str, Any] = field(factory=dict, hash=False)


@frozen
class Answer:
    """What a tool answered.

    Args:
        content: Text, or parts, or None for no content at all.
        is_error: Whether the tool failed.
        caller: The id of the ``Code`` that made the call, if one did.
    """

    call_id: str
    content: str | tuple[Say | Picture, ...] | None
    is_error: bool = False
    caller: str | None = None


Item = Say | Picture | Think | Ask | Hosted | Code | Ran | Foreign | Answer


@frozen
class Turn:
    """One turn of the conversation.

    Args:
        role: Who speaks; ``"results"`` is the turn in which the tools answer, and in it the user may speak as well.
        items: What is said, in order.
        blocks: Whether a lone text is written as a list of blocks rather than as a plain string.
        split: In a turn of results, how many go into a first message of their own where the format puts several
            into one message; 0 for one message.
    """

    role: TurnRole
    items: tuple[Item, ...]
    blocks: bool = False
    split: int = 0


@frozen
class ToolSpec:
    """A tool that the model may call.

    Args:
        properties: The JSON schema of each argument, by name.
        hosted: Whether the provider runs it itself; formats without such tools leave it out.
    """

    name: str
    description: str = ""
    properties: Mapping[str, Any] = field(factory=dict, hash=False)
    hosted: bool = False


@frozen
class Plan:
    """A whole conversation: its turns in order, and the tools on offer."""

    turns: tuple[Turn, ...]
    tools: tuple[ToolSpec, ...] = ()


Object = dict[str, Any]


@frozen
class Writer:
    """Writes turns as one provider's messages. To add a format, inherit it and add the class to ``WRITERS``.

    Args:
        repeats_ids: Whether two rounds may use the same call id.
        takes_blank: Whether a message may say nothing.
        system_apart: Whether the system prompt is kept apart from the messages.
        pictures_in_results: Whether a tool may answer with a picture.
        runs_code: Whether the provider runs code that calls tools.
    """

    repeats_ids: bool = False
    takes_blank: bool = False
    system_apart: bool = False
    pictures_in_results: bool = True
    runs_code: bool = False

    def messages(self, turns: Sequence[Turn], /) -> list[Object]:
        """The turns as native messages, in order."""
        return [message for turn in turns for message in self.turn(turn)]

    def turn(self, turn: Turn, /) -> Iterator[Object]:
        """One turn as native messages."""
        raise NotImplementedError

    def tools(self, specs: Sequence[ToolSpec], /) -> list[Object]:
        """The native tool definitions."""
        raise NotImplementedError


def _parts(turn: Turn) -> tuple[tuple[Item, ...], ...]:
    """The items of a turn: in one message, or in two when it is split."""
    if 0 < turn.split < len(turn.items):
        return turn.items[: turn.split], turn.items[turn.split :]
    return (turn.items,)


def _given(asked: Ask) -> Native:
    """The arguments as an object, or as the text that stands for them."""
    return dict(asked.arguments) if isinstance(asked.arguments, Mapping) else asked.arguments


def _given_text(asked: Ask) -> str:
    given = asked.arguments
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)


def _schema(spec: ToolSpec) -> Object:
    return {"type": "object", "properties": dict(spec.properties)}


def _function(spec: ToolSpec) -> Object:
    return {"name": spec.name, "description": spec.description, "parameters": _schema(spec)}


@frozen
class AnthropicWriter(Writer):
    """Writes turns as ``anthropic`` messages; a turn of results becomes one user message, or two when it is split."""

    system_apart: bool = True
    runs_code: bool = True

    def turn(self, turn: Turn, /) -> Iterator[Object]:
        """One turn as native messages."""
        role = {"results": "user", "developer": "system"}.get(turn.role, turn.role)
        for items in _parts(turn):
            yield {"role": role, "content": self._content(items, blocks=turn.blocks)}

    def tools(self, specs: Sequence[ToolSpec], /) -> list[Object]:
        """The native tool definitions."""
        return [
            {"type": f"{spec.name}_20250305", "name": spec.name}
            if spec.hosted
            else {"name": spec.name, "description": spec.description, "input_schema": _schema(spec)}
            for spec in specs
        ]

    def _content(self, items: Sequence[Item], *, blocks: bool) -> str | list[Object]:
        if not blocks and len(items) == 1 and isinstance(items[0], Say):
            return items[0].text
        return [block for item in items for block in self._blocks(item)]

    def _blocks(self, item: Item) -> Iterator[Object]:
        match item:
            case Say(text):
                yield {"type": "text", "text": text}
            case Picture(data, media_type):
                yield {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
            case Think():
                thinking = {"type": "thinking", "thinking": item.text, "signature": item.signature}
                yield {"type": "redacted_thinking", "data": item.text} if item.redacted else thinking
            case Ask(call_id, name):
                yield {"type": "tool_use", "id": call_id, "name": name, "input": _given(item), **self._called_by(item)}
            case Answer():
                yield self._answer(item)
            case Hosted():
                yield {"type": "server_tool_use", "id": item.id, "name": item.name, "input": dict(item.input)}
                if item.result is not None:
                    yield {"type": f"{item.name}_tool_result", "tool_use_id": item.id, "content": item.result}
            case Code(call_id, text):
                yield {"type": "server_tool_use", "id": call_id, "name": "code_execution", "input": {"code": text}}
            case Ran(call_id, output):
                said = {"type": "code_execution_result", "stdout": output, "stderr": "", "return_code": 0}
                yield {"type": "code_execution_tool_result", "tool_use_id": call_id, "content": said | {"content": []}}
            case Foreign(kind, data):
                yield {"type": kind, **data}

    def _called_by(self, item: Ask) -> Object:
        return {} if item.caller is None else {"caller": {"type": "code_execution_20250825", "tool_id": item.caller}}

    def _answer(self, item: Answer) -> Object:
        block: Object = {"type": "tool_result", "tool_use_id": item.call_id}
        if isinstance(item.content, str):
            block["content"] = item.content
        elif item.content is not None:
            block["content"] = self._content(item.content, blocks=True)
        return block | ({"is_error": True} if item.is_error else {})


@frozen
class BedrockWriter(Writer):
    """Writes turns as ``bedrock`` messages; a turn of results becomes one user message, or two when it is split."""

    system_apart: bool = True

    def turn(self, turn: Turn, /) -> Iterator[Object]:
        """One turn as native messages."""
        role = "assistant" if turn.role == "assistant" else "user"
        for items in _parts(turn):
            yield {"role": role, "content": [block for item in items for block in self._blocks(item)]}

    def tools(self, specs: Sequence[ToolSpec], /) -> list[Object]:
        """The native tool definitions, as ``toolConfig.tools`` lists them."""
        tools: list[Object] = []
        for spec in specs:
            described = {"description": spec.description} if spec.description else {}
            function = {"name": spec.name, **described, "inputSchema": {"json": _schema(spec)}}
            tools.append({"systemTool": {"name": spec.name}} if spec.hosted else {"toolSpec": function})
        return tools

    def _blocks(self, item: Item) -> Iterator[Object]:
        match item:
            case Say(text):
                yield {"text": text}
            case Picture(data, media_type):
                yield {"image": {"format": media_type.partition("/")[2], "source": {"bytes": data}}}
            case Think(text, redacted=True):
                yield {"reasoningContent": {"redactedContent": text}}
            case Think(text, signature):
                yield {"reasoningContent": {"reasoningText": {"text": text, "signature": signature}}}
            case Ask(call_id, name):
                yield {"toolUse": {"toolUseId": call_id, "name": name, "input": _given(item)}}
            case Answer():
                yield {"toolResult": self._answer(item)}
            case Hosted(call_id, name, asked):
                use = {"toolUseId": call_id, "name": name, "input": dict(asked), "type": "server_tool_use"}
                yield {"toolUse": use}
                if item.result is not None:
                    content = [{"json": {"found": item.result}}]
                    yield {"toolResult": {"toolUseId": call_id, "type": f"{name}_tool_result", "content": content}}
            case Foreign(kind, data):
                yield {kind: dict(data)}

    def _answer(self, item: Answer) -> Object:
        content = item.content or ()
        content = (Say(content),) if isinstance(content, str) else content
        said = [block for part in content for block in self._blocks(part)]
        said = said or [{"json": {}}]  # a result needs a block, and a text in it may not be blank
        return {"toolUseId": item.call_id, "content": said} | ({"status": "error"} if item.is_error else {})


@frozen
class GeminiWriter(Writer):
    """Writes turns as ``gemini`` contents; a turn of results is always one content.

    Args:
        call_ids: Whether calls are written with their ids, which this format does not need.
        result_ids: Whether results are.
    """

    repeats_ids: bool = True
    system_apart: bool = True
    call_ids: bool = False
    result_ids: bool = False

    def messages(self, turns: Sequence[Turn], /) -> list[Object]:
        """The turns as native contents, in order."""
        asked: dict[str, str] = {item.id: item.name for turn in turns for item in turn.items if isinstance(item, Ask)}
        contents = []
        for turn in turns:
            asked.update((item.id, item.name) for item in turn.items if isinstance(item, Ask))
            role = "model" if turn.role == "assistant" else "user"
            contents.append({"role": role, "parts": [part for item in turn.items for part in self._parts(item, asked)]})
        return contents

    def tools(self, specs: Sequence[ToolSpec], /) -> list[Object]:
        """The native tool definitions: all functions in one, each hosted tool in one of its own."""
        functions = [_function(spec) for spec in specs if not spec.hosted]
        hosted: list[Object] = [{"googleSearch": {}} for spec in specs if spec.hosted]
        return ([{"functionDeclarations": functions}] if functions else []) + hosted

    def _parts(self, item: Item, asked: Mapping[str, str]) -> Iterator[Object]:
        match item:
            case Say(text):
                yield {"text": text}
            case Picture(data, media_type):
                yield {"inlineData": {"mimeType": media_type, "data": data}}
            case Think(text, signature):
                yield {"text": text, "thought": True, "thoughtSignature": signature}
            case Ask(call_id, name):
                called = {"name": name, "args": _given(item)}
                yield {"functionCall": ({"id": call_id} if self.call_ids else {}) | called}
            case Answer(call_id):
                answer = {"name": asked.get(call_id, "unknown"), **self._answer(item)}
                yield {"functionResponse": ({"id": call_id} if self.result_ids else {}) | answer}
            case Hosted(call_id):
                hosted = {"id": call_id, "toolType": "GOOGLE_SEARCH_WEB"}
                yield {"toolCall": {**hosted, "args": dict(item.input)}}
                if item.result is not None:
                    yield {"toolResponse": {**hosted, "response": {"found": item.result}}}
            case Foreign(kind, data):
                yield {kind: dict(data)}

    def _answer(self, item: Answer) -> Object:
        key = "error" if item.is_error else "output"
        if item.content is None:
            return {"response": {}}
        if isinstance(item.content, str):
            return {"response": {key: item.content}}
        shown = [part for part in item.content if isinstance(part, Picture)]
        pictures = [{"inlineData": {"mimeType": part.media_type, "data": part.data}} for part in shown]
        said = {key: "".join(part.text for part in item.content if isinstance(part, Say))}
        return {"response": said} | ({"parts": pictures} if pictures else {})


@frozen
class ChatWriter(Writer):
    """Writes turns as ``openai-chat`` messages; a turn of results becomes one message a result."""

    repeats_ids: bool = True
    takes_blank: bool = True
    pictures_in_results: bool = False

    def turn(self, turn: Turn, /) -> Iterator[Object]:
        """One turn as native messages."""
        if turn.role == "assistant":
            yield self._assistant(turn)
        elif turn.role == "results":
            yield from self._results(turn)
        else:
            yield {"role": turn.role, "content": self._content(turn.items, blocks=turn.blocks)}

    def tools(self, specs: Sequence[ToolSpec], /) -> list[Object]:
        """The native tool definitions; chat has no hosted tools."""
        return [{"type": "function", "function": _function(spec)} for spec in specs if not spec.hosted]

    def _assistant(self, turn: Turn) -> Object:
        asked = [item for item in turn.items if isinstance(item, Ask)]
        said = [item for item in turn.items if isinstance(item, Say)]
        message: Object = {"role": "assistant", "content": None}
        if said or not asked:
            message["content"] = self._content(said, blocks=turn.blocks)
        if asked:
            message["tool_calls"] = [
                {"id": item.id, "type": "function", "function": {"name": item.name, "arguments": _given_text(item)}}
                for item in asked
            ]
        return message

    def _results(self, turn: Turn) -> Iterator[Object]:
        for item in turn.items:
            if isinstance(item, Answer):
                content = item.content or ""
                said = content if isinstance(content, str) else self._content(content, blocks=True)
                yield {"role": "tool", "tool_call_id": item.call_id, "content": said}
        if spoken := [item for item in turn.items if not isinstance(item, Answer)]:
            yield {"role": "user", "content": self._content(spoken, blocks=turn.blocks)}

    def _content(self, items: Sequence[Item], *, blocks: bool) -> str | list[Object]:
        """A lone text as a string, anything else as parts; what chat has no part for is left out."""
        parts: list[Object] = [
            {"type": "text", "text": item.text}
            if isinstance(item, Say)
            else {"type": "image_url", "image_url": {"url": f"data:{item.media_type};base64,{item.data}"}}
            for item in items
            if isinstance(item, Say | Picture)
        ]
        if len(items) <= 1 and not blocks and all(part["type"] == "text" for part in parts):
            return "".join(part["text"] for part in parts)
        return parts


@frozen
class ResponsesWriter(Writer):
    """Writes turns as ``openai-responses`` items; each thought, call and answer becomes an item of its own."""

    takes_blank: bool = True
    runs_code: bool = True

    def messages(self, turns: Sequence[Turn], /) -> list[Object]:
        """The turns as native items, in order; what the model made has an id, as in a response."""
        numbers = count(1)
        return [item for turn in turns for item in self._items(turn, numbers)]

    def tools(self, specs: Sequence[ToolSpec], /) -> list[Object]:
        """The native tool definitions."""
        return [{"type": spec.name} if spec.hosted else {"type": "function", **_function(spec)} for spec in specs]

    def _items(self, turn: Turn, numbers: Iterator[int]) -> Iterator[Object]:
        if turn.role == "assistant":
            for item in turn.items:
                yield self._made(item, next(numbers))
            if not turn.items:
                yield {"role": "assistant", "content": [] if turn.blocks else ""}
            return
        role = "user" if turn.role == "results" else turn.role
        spoken = [item for item in turn.items if not isinstance(item, Answer)]
        for item in turn.items:
            if isinstance(item, Answer):
                yield self._answer(item)
            elif item is spoken[0]:
                yield {"role": role, "content": self._content(spoken, turn)}
        if not turn.items:
            yield {"role": role, "content": []}

    def _made(self, item: Item, number: int) -> Object:
        """What the model, or a tool of the provider, made."""
        match item:
            case Think(text, signature, redacted):
                summary = [] if redacted else [{"type": "summary_text", "text": text}]
                sealed = f"{signature}{text}" if redacted else signature
                return {"type": "reasoning", "id": f"rs_{number}", "summary": summary, "encrypted_content": sealed}
            case Ask(call_id, name):
                call = {"type": "function_call", "call_id": call_id, "name": name, "arguments": _given_text(item)}
                return {**call, "id": f"fc_{number}", **self._called_by(item)}
            case Code(call_id, text):
                written = {"type": "program", "call_id": call_id, "code": text, "fingerprint": "RmluZ2VycHJpbnQ="}
                return {**written, "id": f"pr_{number}"}
            case Ran(call_id, output):
                written = {"type": "program_output", "call_id": call_id, "result": output, "status": "completed"}
                return {**written, "id": f"pr_{number}"}
            case Hosted(_, name, given):
                return {"type": f"{name}_call", "id": f"ws_{number}", "status": "completed", "action": dict(given)}
            case Foreign(kind, data):
                return {"type": kind, "id": f"x_{number}", **data}
            case _:
                said: list[Object] = [{"type": "output_text", "text": getattr(item, "text", ""), "annotations": []}]
                message = {"type": "message", "role": "assistant", "status": "completed", "content": said}
                return {**message, "id": f"msg_{number}"}

    def _answer(self, item: Answer) -> Object:
        given = item.content or ""
        output = given if isinstance(given, str) else [block for each in given for block in self._blocks(each)]
        return {"type": "function_call_output", "call_id": item.call_id, "output": output, **self._called_by(item)}

    def _called_by(self, item: Ask | Answer) -> Object:
        return {} if item.caller is None else {"caller": {"type": "program", "caller_id": item.caller}}

    def _content(self, items: Sequence[Item], turn: Turn) -> str | list[Object]:
        if len(items) == 1 and isinstance(items[0], Say) and not turn.blocks:
            return items[0].text
        return [block for item in items for block in self._blocks(item)]

    def _blocks(self, item: Item) -> Iterator[Object]:
        match item:
            case Say(text):
                yield {"type": "input_text", "text": text}
            case Picture(data, media_type):
                yield {"type": "input_image", "image_url": f"data:{media_type};base64,{data}", "detail": "auto"}
            case Foreign(kind, data):
                yield {"type": kind, **data}


WRITERS: Mapping[str, Writer] = {
    "openai-chat": ChatWriter(),
    "anthropic": AnthropicWriter(),
    "openai-responses": ResponsesWriter(),
    "gemini": GeminiWriter(),
    "bedrock": BedrockWriter(),
}
