"""Haystack: a chat generator that prepares what another one is called with; an agent's state stays as it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

from agentctx.errors import ConfigError
from agentctx.formats.openai_chat import FRAMEWORK_CHAT
from agentctx.frameworks.calls import (
    UNNAMED,
    Blocks,
    Converted,
    ModelCalls,
    Piece,
    PreparedCall,
    Request,
    arguments_of,
    chat_answer,
    chat_call,
    chat_thinking,
    check_is_called,
    missing,
)
from agentctx.message import Native
from agentctx.pipeline import Pipeline
from agentctx.session.blocking import blocking
from agentctx.session.sessions import Sessions

try:
    from haystack import component
    from haystack.components.generators.chat.types import ChatGenerator
    from haystack.dataclasses import (
        ChatMessage,
        ReasoningContent,
        StreamingCallbackT,
        TextContent,
        ToolCall,
        ToolCallResult,
    )
    from haystack.tools import ToolsType, flatten_tools_or_toolsets
    from haystack.utils.async_utils import _execute_component_async
except ImportError as error:
    raise missing("ContextChatGenerator", "haystack", error) from error


@component
class ContextChatGenerator:
    """Another chat generator whose calls are prepared: ``ContextChatGenerator(generator, pipeline)``.

    It stands wherever a chat generator does, in an agent or in a pipeline. A request that the model refuses as too
    large is made smaller and sent again, once. What is billed is recorded. Haystack names no run: a call goes on
    with the conversation whose history it shows; those that are kept stand in ``with session:`` (``Sessions.open``).

    Args:
        chat_generator: The generator that is called.
        pipeline: Prepares the calls; agentctx' pipeline, not Haystack's.
        sessions: Holds the sessions by name, instead of ``pipeline``.
        agentctx: The sessions, and the last view.

    Raises:
        ConfigError: If neither a pipeline nor sessions are given, or both, or the generator is none.

    Example:
        >>> from agentctx import FitContextWindow, Pipeline
        >>> from agentctx.frameworks.haystack import ContextChatGenerator
        >>> from haystack.components.generators.chat import MockChatGenerator
        >>> generator = ContextChatGenerator(MockChatGenerator("Hello."), Pipeline(FitContextWindow(), budget=128_000))
        >>> generator.run("Hi.")["replies"][0].text
        'Hello.'
    """

    def __init__(
        self, chat_generator: ChatGenerator, pipeline: Pipeline | None = None, *, sessions: Sessions | None = None
    ) -> None:
        self.chat_generator = chat_generator
        self.agentctx = ModelCalls(type(self).__name__, pipeline, sessions)
        check_is_called(type(self).__name__, "chat_generator", chat_generator, "run")

    def to_dict(self) -> NoReturn:
        """Refuse to be written down: a pipeline consists of code.

        Raises:
            ConfigError: Always.
        """
        msg = (
            "ContextChatGenerator: a pipeline of agentctx consists of code, which Haystack cannot write down; write "
            "down the generator in it (.chat_generator), and put it into a new ContextChatGenerator when it is loaded"
        )
        raise ConfigError(msg)

    def warm_up(self) -> None:
        """Warm up the other generator."""
        _call(self.chat_generator, "warm_up")

    async def warm_up_async(self) -> None:
        """Warm up the other generator on the serving event loop."""
        await _call_async(self.chat_generator, "warm_up")

    def close(self) -> None:
        """Release what the other generator holds."""
        _call(self.chat_generator, "close")

    async def close_async(self) -> None:
        """Release what the other generator holds."""
        await _call_async(self.chat_generator, "close")

    @component.output_types(replies=list[ChatMessage])
    def run(
        self,
        messages: list[ChatMessage] | str,
        streaming_callback: StreamingCallbackT | None = None,
        generation_kwargs: dict[str, Any] | None = None,
        tools: ToolsType | None = None,
    ) -> dict[str, Any]:
        """The other generator's replies to the prepared messages."""
        request = _request(self.chat_generator, messages, tools)
        call = blocking(self.agentctx.begin, request)
        given = _given(streaming_callback, generation_kwargs, tools)
        return _recorded(call, call.answered_blocking(lambda: self._other.run(messages=call.messages, **given)))

    @component.output_types(replies=list[ChatMessage])
    async def run_async(
        self,
        messages: list[ChatMessage] | str,
        streaming_callback: StreamingCallbackT | None = None,
        generation_kwargs: dict[str, Any] | None = None,
        tools: ToolsType | None = None,
    ) -> dict[str, Any]:
        """The other generator's replies to the prepared messages."""
        request = _request(self.chat_generator, messages, tools)
        call = await self.agentctx.begin(request)
        given = _given(streaming_callback, generation_kwargs, tools)
        run = _execute_component_async
        return _recorded(call, await call.answered(lambda: run(self._other, messages=call.messages, **given)))

    @property
    def _other(self) -> Native:
        return self.chat_generator


def _call(generator: object, name: str) -> None:
    method = getattr(generator, name, None)
    if method is not None:
        method()


async def _call_async(generator: object, name: str) -> None:
    method = getattr(generator, f"{name}_async", None)
    if method is not None:
        await method()
    else:
        _call(generator, name)


def _given(callback: object, generation: object, tools: object) -> dict[str, Any]:
    """What is passed on; what a generator does not know is left out where it is not given."""
    named = {"streaming_callback": callback, "generation_kwargs": generation, "tools": tools}
    return {name: value for name, value in named.items() if value is not None}


def _recorded(call: PreparedCall[ChatMessage], answer: dict[str, Any]) -> dict[str, Any]:
    usage = next((reply.meta["usage"] for reply in answer["replies"] if reply.meta.get("usage")), None)
    if usage is not None:
        call.record(usage)
    return answer


def _request(generator: Native, messages: list[ChatMessage] | str, tools: ToolsType | None) -> Request[ChatMessage]:
    given = [ChatMessage.from_user(messages)] if isinstance(messages, str) else messages
    used = tools or getattr(generator, "tools", None)
    definitions = [_tool_of(tool)[0] for tool in flatten_tools_or_toolsets(used)] if used else None
    pieces = [_pieces_of(message) for message in given]
    model = getattr(generator, "model", None)
    return Request(UNNAMED, FRAMEWORK_CHAT, given, pieces, _write, tools=definitions, model=model)


def _content(message: ChatMessage) -> Sequence[Any]:
    content: Sequence[Any] = message._content  # noqa: SLF001 - nothing else has it in order
    return content


def _read(message: ChatMessage) -> list[Any]:
    if message.tool_call_results:
        return [_result(result) for result in message.tool_call_results]
    if message.role.value != "assistant":
        native: dict[str, Any] = message.to_openai_dict_format()
        return [native]
    calls = [chat_call(_id(call), call.tool_name, call.arguments) for call in message.tool_calls]
    return [chat_answer("\n".join(message.texts), calls, [_part(each) for each in message.reasonings])]


def _result(result: ToolCallResult) -> dict[str, Any]:
    content = result.result
    if not isinstance(content, str):
        content = [_part(part) for part in content]
    return {"role": "tool", "tool_call_id": _id(result.origin), "content": content}


def _part(part: Native) -> dict[str, Any]:
    """A content as a part; pictures and files of a tool have no place in Chat Completions, but are as large."""
    if isinstance(part, ReasoningContent):
        return chat_thinking(part.reasoning_text, None)
    if isinstance(part, TextContent):
        return {"type": "text", "text": part.text}
    (native,) = ChatMessage.from_user(content_parts=[part]).to_openai_dict_format()["content"]
    found: dict[str, Any] = native
    return found


def _id(call: ToolCall) -> str:
    name: str = call.id or call.tool_name
    return name


_pieces_of: Converted[ChatMessage] = Converted(_read, lambda message: [message.role, *_content(message)])
_tool_of: Converted[Any] = Converted(lambda tool: [{"type": "function", "function": tool.tool_spec}], lambda _tool: ())


def _write(was: ChatMessage | None, pieces: Sequence[Piece]) -> ChatMessage:
    native = pieces[0].message
    if was is None:
        return _made(native)
    if was.tool_call_results:
        results = [_result_of(was.tool_call_results[piece.place], piece) for piece in pieces]
        return replace(was, _content=results)
    if was.role.value == "assistant":
        return replace(was, _content=_BLOCKS.left(_content(was), pieces[0]))
    made = ChatMessage.from_openai_dict_format(native)
    known = {json.dumps(_part(part)): part for part in _content(was)}
    return replace(was, _content=[known.get(json.dumps(_part(part)), part) for part in _content(made)])


def _result_of(was: ToolCallResult, piece: Piece) -> ToolCallResult:
    if not piece.changed:
        return was
    content = piece.message["content"]
    was = replace(was, origin=_with_id(was.origin, piece.message["tool_call_id"]))
    if isinstance(content, str):
        return replace(was, result=content)
    known = {} if isinstance(was.result, str) else {json.dumps(_part(part)): part for part in was.result}
    return replace(was, result=[known.get(json.dumps(part)) or TextContent(part["text"]) for part in content])


def _made(native: dict[str, Any]) -> ChatMessage:
    """A message that a stage or a repair put in."""
    if not native.get("tool_calls"):
        made: ChatMessage = ChatMessage.from_openai_dict_format(native)
        return made
    calls = [_called(None, call) for call in native["tool_calls"]]
    said: ChatMessage = ChatMessage.from_assistant(native.get("content"), tool_calls=calls)
    return said


def _called(was: ToolCall | None, call: dict[str, Any]) -> ToolCall:
    arguments = arguments_of(call)
    if was is None:
        return ToolCall(call["function"]["name"], arguments, id=call["id"])
    was = _with_id(was, call["id"])
    return was if arguments == was.arguments else replace(was, arguments=arguments)


def _with_id(call: ToolCall, call_id: str) -> ToolCall:
    """The call under the id that is sent; one without an id goes by its tool's name, and keeps none."""
    return call if call_id == _id(call) else replace(call, id=call_id)


_KINDS = {TextContent: "text", ReasoningContent: "thinking", ToolCall: "call"}
_BLOCKS = Blocks(lambda part: _KINDS.get(type(part), ""), _part, lambda _was, text: TextContent(text), _called)
