"""Pydantic AI: a capability of an agent.

A request of Pydantic AI holds what becomes several messages of Chat Completions, one for each of its parts: results of
tools, and what the user says. A response becomes one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentctx.formats.openai_chat import FRAMEWORK_CHAT
from agentctx.frameworks.calls import (
    UNNAMED,
    Blocks,
    Converted,
    ModelCalls,
    Piece,
    PreparedCall,
    Request,
    are_whole,
    chat_answer,
    chat_call,
    chat_thinking,
    chat_tool,
    missing,
    words_of,
)
from agentctx.message import CONTROL, Native
from agentctx.pipeline import Pipeline
from agentctx.session.sessions import Sessions

try:
    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.exceptions import RetryModelRequest
    from pydantic_ai.messages import (
        BinaryContent,
        ImageUrl,
        ModelMessage,
        ModelRequest,
        ModelResponse,
        TextPart,
        ThinkingPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models import ModelRequestContext
except ImportError as error:
    raise missing("ContextCapability", "pydantic-ai", error) from error

_TEXT = "text"


class ContextCapability(AbstractCapability[Any]):
    """Prepares each model call of an agent, for the model that serves it; the run's history keeps all messages.

    A conversation is the run's ``conversation_id``: runs that go on with ``message_history`` are in one. After an
    overflow a smaller request is sent, once.

    Args:
        pipeline: Prepares the calls.
        sessions: Holds the sessions, instead of ``pipeline``.

    Raises:
        ConfigError: If neither is given, or both.

    Example:
        >>> from agentctx import Budget, FitContextWindow, Pipeline
        >>> from agentctx.frameworks.pydantic_ai import ContextCapability
        >>> from pydantic_ai import Agent
        >>> pipeline = Pipeline(FitContextWindow(), budget=Budget(window=128_000))
        >>> agent = Agent("test", capabilities=[ContextCapability(pipeline)])
        >>> (await agent.run("Hello")).output
        'success (no tool calls)'
    """

    def __init__(self, pipeline: Pipeline | None = None, *, sessions: Sessions | None = None) -> None:
        self.agentctx = ModelCalls("ContextCapability", pipeline, sessions)

    async def for_run(self, ctx: RunContext[Any]) -> AbstractCapability[Any]:
        """One for each run, which knows the call that is under way."""
        return _OfRun(self.agentctx)


class _OfRun(ContextCapability):
    """The capability in one run.

    Args:
        calls: Prepares the calls.
    """

    def __init__(self, calls: ModelCalls) -> None:
        self.agentctx = calls
        self._call: PreparedCall[ModelMessage] | None = None
        self._smaller = False

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Prepare an attempt; the one after an overflow is prepared already."""
        if self._call is None or not self._smaller:
            self._call = await self.agentctx.begin(_read(ctx, request_context))
        messages = [message for message in self._call.messages if message is not _HEAD]
        return replace(request_context, messages=messages)

    async def after_model_request(
        self,
        ctx: RunContext[Any],
        *,
        request_context: ModelRequestContext,
        response: ModelResponse,
    ) -> ModelResponse:
        """Take note of what was billed."""
        if self._call is not None:
            used = response.usage
            self._call.record_tokens(used.input_tokens, used.output_tokens, used.cache_read_tokens)
            await self._call.save()
        self._call, self._smaller = None, False
        return response

    async def on_model_request_error(
        self,
        ctx: RunContext[Any],
        *,
        request_context: ModelRequestContext,
        error: Exception,
    ) -> ModelResponse:
        """Have a smaller request sent where this one was too large."""
        call, again = self._call, self._smaller
        if call is not None and not again and await call.recover(error):
            self._smaller = True
            raise RetryModelRequest from error
        self._call, self._smaller = None, False
        raise error


_HEAD = ModelRequest(parts=[])
"""Stands for the instructions, which Pydantic AI sends apart from the messages."""


def _read(ctx: RunContext[Any], request: ModelRequestContext) -> Request[ModelMessage]:
    asked = request.model_request_parameters
    words = "\n\n".join(part.content for part in asked.instruction_parts or ())
    head: list[ModelMessage] = [_HEAD] if words else []
    pieces = [_pieces_of(message) for message in request.messages]
    offered = (*asked.function_tools, *asked.output_tools)
    tools = [chat_tool(tool.name, tool.description, tool.parameters_json_schema) for tool in offered]
    return Request(
        getattr(ctx, "conversation_id", None) or ctx.run_id or UNNAMED,
        FRAMEWORK_CHAT,
        [*head, *request.messages],
        [*([[{"role": "system", "content": words}]] if words else []), *pieces],
        write,
        tools=tools or None,
        model=request.model.model_name,
    )


def read(message: ModelMessage) -> list[Any]:
    """A message as those of Chat Completions: of a request one for each part, of a response one."""
    if isinstance(message, ModelResponse):
        return [_response(message)]
    return [_part_of_request(part) for part in message.parts]


_pieces_of: Converted[ModelMessage] = Converted(read, lambda message: message.parts)


def _part_of_request(part: Native) -> dict[str, Any]:
    kind = part.part_kind
    if kind == "user-prompt":
        content = part.content
        said = content if isinstance(content, str) else [_content(each) for each in content]
        return {"role": "user", "content": said}
    call = getattr(part, "tool_call_id", None)
    if call is not None and getattr(part, "tool_name", None) is not None:
        return {"role": "tool", "tool_call_id": call, "content": _result(part)}
    if kind in {"retry-prompt", "retry-feedback"}:
        return {"role": "user", "content": part.model_response()}
    return {"role": "system", "content": part.content if kind == "system-prompt" else repr(part)}


def _result(part: Native) -> str | list[Any]:
    if not hasattr(part, "model_response_str_and_user_content"):
        words: str = part.model_response()
        return words
    words, media = part.model_response_str_and_user_content()
    return [{"type": _TEXT, "text": words}, *map(_content, media)] if media else words


def _content(said: Native) -> dict[str, Any]:
    """A part of what the user says, as a block: pictures as they are, other media by what they hold."""
    if isinstance(said, str):
        return {"type": _TEXT, "text": said}
    if isinstance(said, BinaryContent) and said.is_image:
        return {"type": "image_url", "image_url": {"url": said.data_uri}}
    if isinstance(said, ImageUrl):
        return {"type": "image_url", "image_url": {"url": said.url}}
    if isinstance(said, BinaryContent):
        return {"type": "file", "file": {"filename": said.identifier, "file_data": said.data_uri}}
    return {"type": said.kind, "said": repr(said)}


def _response(message: ModelResponse) -> dict[str, Any]:
    parts = [(_kind(part), part) for part in message.parts]
    calls = [
        chat_call(part.tool_call_id, part.tool_name, part.args_as_json_str()) for kind, part in parts if kind == "call"
    ]
    thinking = [_said(part) for kind, part in parts if kind == "thinking"]
    content = [_said(part) for kind, part in parts if kind in ("text", "")]
    return {**chat_answer(None, calls, thinking), "content": content}


def _kind(part: Native) -> str:
    if isinstance(part, ToolCallPart):
        return "call"
    if isinstance(part, ThinkingPart) and part.signature and part.provider_name == "anthropic":
        return "thinking"
    return "text" if isinstance(part, TextPart) else ""


def _said(part: Native) -> dict[str, Any]:
    """Words as text; what else a response holds as a block that nobody changes."""
    if _kind(part) == "thinking":
        return chat_thinking(part.content, part.signature)
    if isinstance(part, TextPart):
        return {"type": _TEXT, "text": part.content}
    return {"type": part.part_kind, "said": repr(part)}


def write(was: ModelMessage | None, pieces: Sequence[Piece]) -> ModelMessage:
    """Pydantic AI's message of what is to be sent.

    Cache markers are left to Pydantic AI, which sets them by its own settings, as ``anthropic_cache``.
    """
    if was is None:
        return _made(pieces[0].message)
    if was is _HEAD:
        return was
    left = [_unmarked(piece, piece.before) for piece in pieces]
    if are_whole(left, _pieces_of(was)):
        return was
    if isinstance(was, ModelResponse):
        return replace(was, parts=_PARTS.left(was.parts, left[0]))
    return replace(was, parts=[_rewritten(was.parts[each.place], each) for each in left])


def _unmarked(piece: Piece, before: Mapping[str, Any]) -> Piece:
    """A piece without cache markers; without these it may be what it was."""
    native = {key: value for key, value in piece.message.items() if key != CONTROL}
    if isinstance(content := native.get("content"), list):
        plain = [{key: value for key, value in block.items() if key != CONTROL} for block in content]
        single = isinstance(before["content"], str) and [block["type"] for block in plain] == [_TEXT]
        native["content"] = plain[0]["text"] if single else plain
    return Piece(piece.place, native, before)


def _made(native: Mapping[str, Any]) -> ModelMessage:
    """What a stage or a repair put in."""
    words = words_of(native.get("content"))
    if native["role"] == "assistant":
        calls = [_called(None, call) for call in native.get("tool_calls") or ()]
        return ModelResponse(parts=[*([TextPart(words)] if words or not calls else []), *calls])
    if native["role"] == "tool":
        return ModelRequest(parts=[ToolReturnPart(native.get("name") or "tool", words, native["tool_call_id"])])
    return ModelRequest(parts=[UserPromptPart(words)])


def _rewritten(part: Native, piece: Piece) -> Native:
    """A part as it is to be sent. Of a result that Pydantic AI reads itself, such as a tool search's, only the id."""
    content = piece.message["content"]
    if not piece.changed:
        return part
    if piece.message["role"] == "tool":
        part = _with_id(part, piece.message["tool_call_id"])
        read_by_framework = isinstance(part, ToolReturnPart) and type(part) is not ToolReturnPart
        if content == piece.before["content"] or read_by_framework:
            return part
    if part.part_kind == "user-prompt":
        before = part.content if not isinstance(part.content, str) else ()
        known = [(_content(each), each) for each in before]
        return replace(part, content=content if isinstance(content, str) else [_again(each, known) for each in content])
    if piece.message["role"] == "tool":
        known = [(_content(each), each) for each in getattr(part, "files", ())]
        files = [] if isinstance(content, str) else [_again(each, known) for each in content]
        said = [*files] if any(not isinstance(each, str) for each in files) else words_of(content)
        if isinstance(part, ToolReturnPart):
            return replace(part, content=said)
        return ToolReturnPart(part.tool_name, said, part.tool_call_id)
    return UserPromptPart(words_of(content)) if piece.message["role"] == "user" else replace(part, content=content)


def _with_id(part: Native, call_id: str) -> Native:
    return part if part.tool_call_id == call_id else replace(part, tool_call_id=call_id)


def _again(block: Native, known: Sequence[tuple[Any, Any]]) -> Native:
    """What a block was made of, or its words."""
    return next((said for made, said in known if made == block), None) or words_of([block])


def _called(was: ToolCallPart | None, call: Mapping[str, Any]) -> ToolCallPart:
    arguments = call["function"]["arguments"]
    if was is None:
        return ToolCallPart(call["function"]["name"], arguments, call["id"])
    called: ToolCallPart = _with_id(was, call["id"])
    if arguments == called.args_as_json_str() or type(called) is not ToolCallPart:
        return called
    return replace(called, args=arguments if isinstance(called.args, str) else json.loads(arguments))


def _worded(was: TextPart | None, text: str) -> TextPart:
    return TextPart(text) if was is None else replace(was, content=text)


_PARTS = Blocks(_kind, _said, _worded, _called)
