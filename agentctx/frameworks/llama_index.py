"""LlamaIndex: a model that prepares what another model is called with; memory and workflow context stay as they are.

An agent's memory does not see the calls of the run that goes on, so that no memory can keep a run within its window.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from typing import Any

from attrs import evolve

from agentctx.formats.openai_chat import FRAMEWORK_CHAT
from agentctx.formats.registry import get
from agentctx.frameworks.calls import (
    UNNAMED,
    Blocks,
    Converted,
    ModelCalls,
    Piece,
    PreparedCall,
    Request,
    chat_answer,
    chat_call,
    chat_thinking,
    check_is_called,
    missing,
    words_of,
)
from agentctx.message import Native
from agentctx.pipeline import Pipeline
from agentctx.session.blocking import blocking
from agentctx.session.sessions import Sessions

try:
    from llama_index.core.base.llms.types import (
        AudioBlock,
        ChatMessage,
        ChatResponse,
        CompletionResponse,
        DocumentBlock,
        ImageBlock,
        LLMMetadata,
        TextBlock,
        ThinkingBlock,
        ToolCallBlock,
    )
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.llms.function_calling import FunctionCallingLLM
    from llama_index.core.llms.llm import LLM
except ImportError as error:
    raise missing("ContextLLM", "llama-index", error) from error

_TOOLS = "agentctx_tools"
_ROLES = {"chatbot": "assistant", "model": "assistant", "function": "tool"}


class ContextLLM(FunctionCallingLLM):
    """Another model whose chats are prepared: ``FunctionAgent(tools=tools, llm=ContextLLM(llm, pipeline))``.

    Completions, which have no messages, go through as they are. A request that the model refuses as too large is made
    smaller and sent again, once. What is billed is recorded. LlamaIndex names no run: a call goes on with the
    conversation whose history it shows; those that are kept stand in ``with session:`` (``Sessions.open``).

    Args:
        llm: The model that is called, of whichever class.
        pipeline: Prepares the chats.
        sessions: Holds the sessions by name, instead of ``pipeline``.
        agentctx: The sessions, and the last view.

    Raises:
        ConfigError: If neither a pipeline nor sessions are given, or both, or the model is none.

    Example:
        >>> from agentctx import FitContextWindow, Pipeline
        >>> from agentctx.frameworks.llama_index import ContextLLM
        >>> from llama_index.core.llms import ChatMessage, MockLLM
        >>> llm = ContextLLM(MockLLM(), Pipeline(FitContextWindow(), budget=128_000))
        >>> answer = llm.chat([ChatMessage("Hello.")])
        >>> len(llm.agentctx.sessions)
        1
    """

    llm: LLM
    _calls: ModelCalls = PrivateAttr()

    def __init__(self, llm: LLM, pipeline: Pipeline | None = None, *, sessions: Sessions | None = None) -> None:
        calls = ModelCalls(type(self).__name__, pipeline, sessions)
        check_is_called(type(self).__name__, "llm", llm, "chat")
        same = ("callback_manager", "system_prompt", "messages_to_prompt", "completion_to_prompt", "output_parser")
        given = {name: getattr(llm, name) for name in (*same, "pydantic_program_mode")}
        super().__init__(llm=llm, **given)
        self._calls = calls

    @classmethod
    def class_name(cls) -> str:
        """What it is called where LlamaIndex writes it down."""
        return cls.__name__

    @property
    def agentctx(self) -> ModelCalls:
        """The sessions, and the last view."""
        return self._calls

    @property
    def metadata(self) -> LLMMetadata:
        """What is known of the other model."""
        return self.llm.metadata

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Native) -> ChatResponse:
        """The other model's answer to the prepared messages."""
        request = self._request(messages, kwargs)
        call = blocking(self._calls.begin, request)
        return _recorded(call, call.answered_blocking(lambda: self.llm.chat(call.messages, **kwargs)))

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Native) -> ChatResponse:
        """The other model's answer to the prepared messages."""
        request = self._request(messages, kwargs)
        call = await self._calls.begin(request)
        return _recorded(call, await call.answered(lambda: self.llm.achat(call.messages, **kwargs)))

    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Native) -> Iterator[ChatResponse]:
        """As ``chat``, in pieces."""
        request = self._request(messages, kwargs)
        call = blocking(self._calls.begin, request)
        for piece in call.streamed_blocking(lambda: self.llm.stream_chat(call.messages, **kwargs)):
            yield _recorded(call, piece)

    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Native) -> AsyncIterator[ChatResponse]:
        """As ``achat``, in pieces."""
        request = self._request(messages, kwargs)
        call = await self._calls.begin(request)

        async def pieces() -> AsyncGenerator[ChatResponse]:
            async for piece in await self.llm.astream_chat(call.messages, **kwargs):
                yield _recorded(call, piece)

        return call.streamed(pieces)

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Native) -> CompletionResponse:  # noqa: FBT001, FBT002 - LlamaIndex's
        """As the other model does."""
        return self.llm.complete(prompt, formatted, **kwargs)

    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Native) -> CompletionResponse:  # noqa: FBT001, FBT002 - LlamaIndex's
        """As the other model does."""
        return await self.llm.acomplete(prompt, formatted, **kwargs)

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Native) -> Native:  # noqa: FBT001, FBT002 - LlamaIndex's
        """As the other model does."""
        return self.llm.stream_complete(prompt, formatted, **kwargs)

    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Native) -> Native:  # noqa: FBT001, FBT002 - LlamaIndex's
        """As the other model does."""
        return await self.llm.astream_complete(prompt, formatted, **kwargs)

    def get_tool_calls_from_response(self, response: ChatResponse, *args: Native, **kwargs: Native) -> Native:
        """As the other model does."""
        return self._other.get_tool_calls_from_response(response, *args, **kwargs)

    def _prepare_chat_with_tools(self, tools: Sequence[Any], *args: Native, **kwargs: Native) -> dict[str, Any]:
        prepared: dict[str, Any] = self._other._prepare_chat_with_tools(tools, *args, **kwargs)  # noqa: SLF001 - LlamaIndex's seam
        return {**prepared, _TOOLS: tools}

    def _prepare_chat_with_tools_compat(self, tools: Sequence[Any], *args: Native, **kwargs: Native) -> dict[str, Any]:
        prepared: dict[str, Any] = self._other._prepare_chat_with_tools_compat(tools, *args, **kwargs)  # noqa: SLF001 - LlamaIndex's seam
        return {**prepared, _TOOLS: tools}

    def _validate_chat_with_tools_response(self, response: ChatResponse, *args: Native, **kwargs: Native) -> Native:
        return self._other._validate_chat_with_tools_response(response, *args, **kwargs)  # noqa: SLF001 - LlamaIndex's seam

    @property
    def _other(self) -> Native:
        return self.llm

    def _request(self, messages: Sequence[ChatMessage], kwargs: dict[str, Any]) -> Request[ChatMessage]:
        tools = [_tool_of(tool)[0] for tool in kwargs.pop(_TOOLS, ())] or None
        pieces = [_pieces_of(message) for message in messages]
        model = self.llm.metadata.model_name
        return Request(UNNAMED, FRAMEWORK_CHAT, messages, pieces, _write, tools=tools, model=model)


def _recorded(call: PreparedCall[ChatMessage], answer: ChatResponse) -> ChatResponse:
    usage = get(answer.raw, "usage")
    if usage is None and "prompt_tokens" in answer.additional_kwargs:
        usage = answer.additional_kwargs
    if usage is not None:
        call.record(usage)
    return answer


def _read(message: ChatMessage) -> list[Any]:
    role = _ROLES.get(message.role.value, message.role.value)
    if role == "tool":
        answers = message.additional_kwargs.get("tool_call_id") or ""
        return [{"role": role, "tool_call_id": answers, "content": _text(message)}]
    words = all(isinstance(block, TextBlock | ToolCallBlock | ThinkingBlock) for block in message.blocks)
    parts = [_part(block) for block in message.blocks if _kind(block) not in ("call", "thinking")]
    content = _text(message) if words else parts
    if role != "assistant":
        return [{"role": role, "content": content}]
    thinking = [_part(block) for block in message.blocks if _kind(block) == "thinking"]
    return [chat_answer(content, _calls(message), thinking)]


def _text(message: ChatMessage) -> str:
    return message.content or ""


def _kind(block: Native) -> str:
    kinds = {TextBlock: "text", ThinkingBlock: "thinking", ToolCallBlock: "call"}
    return next((kind for each, kind in kinds.items() if isinstance(block, each)), "")


def _part(block: Native) -> dict[str, Any]:
    """A block as a part; what Chat Completions does not know is counted as text, and comes back as it was."""
    if isinstance(block, TextBlock):
        return {"type": "text", "text": block.text}
    if isinstance(block, ThinkingBlock):
        return chat_thinking(block.content, block.additional_information.get("signature"))
    if isinstance(block, ImageBlock):
        url = (
            str(block.url)
            if block.url
            else f"data:{block.image_mimetype};base64,{block.resolve_image(as_base64=True).read().decode()}"
        )
        return {"type": "image_url", "image_url": {"url": url, **({"detail": block.detail} if block.detail else {})}}
    if isinstance(block, AudioBlock) and not block.url:
        data = block.resolve_audio(as_base64=True).read().decode()
        return {"type": "input_audio", "input_audio": {"data": data, "format": block.format or "wav"}}
    if isinstance(block, DocumentBlock) and not block.url:
        url = f"data:{block.document_mimetype};base64,{b64encode(block.resolve_document().read()).decode()}"
        return {"type": "file", "file": {"file_data": url, "filename": block.title}}
    return {"type": "text", "text": block.model_dump_json(exclude={"video"})}


def _calls(message: ChatMessage) -> list[dict[str, Any]]:
    """The calls as Chat Completions has them: blocks, or, as older integrations leave them, OpenAI's own objects."""
    blocks = [block for block in message.blocks if isinstance(block, ToolCallBlock)]
    if blocks:
        return [chat_call(block.tool_call_id or "", block.tool_name, block.tool_kwargs) for block in blocks]
    older = message.additional_kwargs.get("tool_calls") or ()
    known = [(get(call, "id"), get(call, "function", "name"), get(call, "function", "arguments")) for call in older]
    return [chat_call(*call) for call in known if all(isinstance(each, str) for each in call)]


def _consists_of(message: ChatMessage) -> Sequence[object]:
    inside = [part for block in message.blocks for part in (block, getattr(block, "text", None))]
    return [message.role, message.additional_kwargs, *inside]


_pieces_of: Converted[ChatMessage] = Converted(_read, _consists_of)
_tool_of: Converted[Any] = Converted(
    lambda tool: [tool.metadata.to_openai_tool(skip_length_check=True)], lambda tool: [tool.metadata]
)


def _write(was: ChatMessage | None, pieces: Sequence[Piece]) -> ChatMessage:
    native = pieces[0].message
    answers = {"tool_call_id": native["tool_call_id"]} if native["role"] == "tool" else {}
    if was is None:
        words = [TextBlock(text=text)] if (text := words_of(native.get("content"))) else []
        calls = [_called(None, call) for call in native.get("tool_calls") or ()]
        return ChatMessage(role=native["role"], blocks=[*words, *calls], additional_kwargs=answers)
    older, form = {}, _BLOCKS
    if was.additional_kwargs.get("tool_calls"):
        older, form = {"tool_calls": [*pieces[0].calls.values()]}, evolve(_BLOCKS, called=None)
    beside = {**was.additional_kwargs, **older, **answers}
    return ChatMessage(role=was.role, blocks=form.left(was.blocks, pieces[0]), additional_kwargs=beside)


def _called(was: Native, call: dict[str, Any]) -> Native:
    arguments, name = call["function"]["arguments"], call["function"]["name"]
    if was is None:
        return ToolCallBlock(tool_call_id=call["id"], tool_name=name, tool_kwargs=arguments)
    if call["id"] != (was.tool_call_id or ""):
        was = was.model_copy(update={"tool_call_id": call["id"]})
    if arguments == chat_call("", "", was.tool_kwargs)["function"]["arguments"]:
        return was
    kwargs = arguments if isinstance(was.tool_kwargs, str) else json.loads(arguments)
    return was.model_copy(update={"tool_kwargs": kwargs})


_BLOCKS = Blocks(_kind, _part, lambda _was, text: TextBlock(text=text), _called)
