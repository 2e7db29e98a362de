"""Inspect: an agent that stands for another one's model, and a compaction strategy; samples keep all messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from operator import is_
from typing import Any
from uuid import uuid4

from attrs.validators import gt, lt

from agentctx.formats.openai_chat import FRAMEWORK_CHAT
from agentctx.frameworks.calls import (
    UNNAMED,
    Blocks,
    Converted,
    ModelCalls,
    Piece,
    Request,
    arguments_of,
    chat_answer,
    chat_call,
    chat_thinking,
    chat_tool,
    missing,
    words_of,
)
from agentctx.message import Native
from agentctx.pipeline import Pipeline
from agentctx.session.sessions import Sessions
from agentctx.validators import numeric

try:
    from inspect_ai.agent import Agent, AgentState, agent
    from inspect_ai.model import (
        ChatMessage,
        ChatMessageAssistant,
        ChatMessageSystem,
        ChatMessageTool,
        ChatMessageUser,
        CompactionStrategy,
        Content,
        ContentAudio,
        ContentDocument,
        ContentImage,
        ContentReasoning,
        ContentText,
        ContentVideo,
        Model,
        ModelOutput,
        get_model,
    )
    from inspect_ai.solver._task_state import sample_state
    from inspect_ai.tool import Tool, ToolCall, ToolDef, ToolInfo
except ImportError as error:
    raise missing("ContextModel", "inspect-ai", error) from error


class TooLarge(Exception):
    """A request is larger than what Inspect asks for."""


class ContextModel:
    """Stands for the model of an agent, and prepares its calls: ``react(model=ContextModel(pipeline).agent())``.

    The sample keeps all messages, its log shows what each call was sent. Each sample's conversation has a session,
    named by the sample's uuid; agents of one sample are told apart by how they begin. A request that the model refuses
    as too large is made smaller and sent again, once. What is billed is recorded.

    Args:
        pipeline: Prepares the calls.
        sessions: Holds the sessions by name, instead of ``pipeline``.
        model: The model that is called; without it, the one that is evaluated.
        agentctx: The sessions, and the last view.

    Raises:
        ConfigError: If neither a pipeline nor sessions are given, or both.

    Example:
        >>> from agentctx import FitContextWindow, Pipeline
        >>> from agentctx.frameworks.inspect_ai import ContextModel
        >>> from inspect_ai.agent import react
        >>> model = ContextModel(Pipeline(FitContextWindow(), budget=128_000))
        >>> agent = react(model=model.agent())
        >>> len(model.agentctx.sessions)
        0
    """

    def __init__(
        self,
        pipeline: Pipeline | None = None,
        *,
        sessions: Sessions | None = None,
        model: str | Model | None = None,
    ) -> None:
        self.agentctx = ModelCalls(type(self).__name__, pipeline, sessions)
        self.model = model

    def agent(self) -> Agent:
        """The agent that stands for the model: it makes one call."""
        return _generating(self)

    async def generate(self, messages: Sequence[ChatMessage], tools: Sequence[Tool] = ()) -> ModelOutput:
        """The model's output for the prepared messages."""
        model = get_model(self.model)
        described = [ToolDef(tool) for tool in tools]
        call = await self.agentctx.begin(_request(model, messages, described))
        output = await model.generate(call.messages, list(tools))
        words = output.error or f"{output.completion} maximum context length"
        if output.stop_reason == "model_length" and await call.recover(TooLarge(words)):
            output = await model.generate(call.messages, list(tools))
        if output.usage is not None:
            usage = output.usage
            # Inspect counts apart what the provider read from its cache or wrote there
            told = (usage.input_tokens, usage.input_tokens_cache_read, usage.input_tokens_cache_write)
            call.record_tokens(sum(each or 0 for each in told), usage.output_tokens)
            await call.save()
        return output


@agent(name="context_model")
def _generating(model: ContextModel) -> Agent:
    async def execute(state: AgentState, tools: Sequence[Tool] = ()) -> AgentState:
        """Make one model call.

        Args:
            state: The conversation.
            tools: The tools that the model may call.
        """
        state.output = await model.generate(state.messages, tools)
        state.messages.append(state.output.message)
        return state

    return execute


class ContextCompaction(CompactionStrategy):
    """Compacts where Inspect says that it is time: ``react(compaction=ContextCompaction(pipeline))``.

    Inspect counts, decides when, keeps the compacted messages and tells of it in its log; the pipeline says what goes.
    It comes down to the target of its budget, or of ``threshold`` where that is smaller. After an overflow Inspect has
    it compact once more. Sessions and samples are as with ``ContextModel``.

    Args:
        pipeline: Says what goes.
        sessions: Holds the sessions by name, instead of ``pipeline``.
        threshold: When Inspect compacts: tokens, or a share of the model's window.
        agentctx: The sessions, and the last view.

    Raises:
        ConfigError: If neither a pipeline nor sessions are given, or both, or the threshold is no number above 0.

    Example:
        >>> from agentctx import FitContextWindow, Pipeline
        >>> from agentctx.frameworks.inspect_ai import ContextCompaction
        >>> from inspect_ai.agent import react
        >>> compaction = ContextCompaction(Pipeline(FitContextWindow(), budget=128_000))
        >>> agent = react(compaction=compaction)
        >>> compaction.threshold
        0.9
    """

    def __init__(
        self, pipeline: Pipeline | None = None, *, sessions: Sessions | None = None, threshold: float = 0.9
    ) -> None:
        within = numeric("a number of tokens, or a share of the window, above 0", gt(0), lt(inf))
        within.check("ContextCompaction.threshold", threshold)
        super().__init__(type="edit", threshold=threshold, memory=False)
        self.agentctx = ModelCalls(type(self).__name__, pipeline, sessions)

    async def compact(
        self, model: Model, messages: list[ChatMessage], tools: list[ToolInfo]
    ) -> tuple[list[ChatMessage], None]:
        """The messages, smaller. Inspect decides that it is time, also where the pipeline's own budget has room."""
        call = await self.agentctx.begin(_request(model, messages, tools))
        if call.view is not None and len(call.messages) == len(messages) and all(map(is_, call.messages, messages)):
            had = call.view.report.tokens_after
            limit = int(min(self.threshold if self.threshold > 1 else self.threshold * had, had - 1))
            budget = self.agentctx.sessions.pipeline.budget_for(model.name)
            window = limit + (0 if budget is None else budget.reserved)  # Inspect counts what is asked, not the answer
            what = f"This model's maximum context length is {window} tokens."
            await call.recover(TooLarge(f"{what} However, your messages resulted in {had} tokens."))
        return call.messages, None


def _request(model: Model, messages: Sequence[ChatMessage], tools: Sequence[Any]) -> Request[ChatMessage]:
    state = sample_state()
    return Request(
        name=UNNAMED if state is None else state.uuid,
        adapter=FRAMEWORK_CHAT,
        objects=messages,
        pieces=[_pieces_of(message) for message in messages],
        write=_write,
        tools=[_described(tool) for tool in tools] or None,
        model=model.name,
    )


def _described(tool: Native) -> dict[str, Any]:
    return chat_tool(tool.name, tool.description, tool.parameters.model_dump(exclude_none=True))


def _read(message: ChatMessage) -> list[Any]:
    content: Native = message.content
    if not isinstance(content, str):
        visible = [block for block in content if not isinstance(block, ContentReasoning)]
        words = all(isinstance(block, ContentText) for block in visible)
        content = "\n".join(block.text for block in visible) if words else [_part(block) for block in visible]
    if isinstance(message, ChatMessageTool):
        said = content if message.error is None else f"{message.error.message}\n{message.text}"
        return [{"role": "tool", "tool_call_id": message.tool_call_id or "", "content": said}]
    if not isinstance(message, ChatMessageAssistant):
        return [{"role": message.role, "content": content}]
    calls = [_call(call) for call in message.tool_calls or ()]
    blocks = message.content if isinstance(message.content, list) else []
    return [chat_answer(content, calls, [_part(block) for block in blocks if isinstance(block, ContentReasoning)])]


def _part(block: Content) -> dict[str, Any]:
    """A block as a part; what Chat Completions does not know is counted as text, and comes back as it was."""
    if isinstance(block, ContentReasoning):
        return chat_thinking(block.reasoning, block.signature)
    if isinstance(block, ContentText):
        return {"type": "text", "text": block.text}
    if isinstance(block, ContentImage):
        return {"type": "image_url", "image_url": {"url": block.image, "detail": block.detail}}
    if isinstance(block, ContentDocument):
        return {"type": "file", "file": {"file_data": block.document, "filename": block.filename}}
    if isinstance(block, ContentAudio):
        return {"type": "input_audio", "input_audio": {"data": block.audio.partition(",")[2], "format": block.format}}
    if isinstance(block, ContentVideo):
        return {"type": "text", "text": f"video {block.format} {block.video[:200]}"}
    return {"type": "text", "text": block.model_dump_json(exclude_none=True)}


def _call(call: ToolCall) -> dict[str, Any]:
    return chat_call(call.id, call.function, call.arguments)


def _consists_of(message: ChatMessage) -> Sequence[object]:
    blocks = message.content if isinstance(message.content, list) else ()
    return [message.content, *blocks, *(getattr(message, "tool_calls", None) or ())]


_pieces_of: Converted[ChatMessage] = Converted(_read, _consists_of)


def _write(was: ChatMessage | None, pieces: Sequence[Piece]) -> ChatMessage:
    """A message as it is to be sent; under an id of its own, since Inspect knows messages by their ids."""
    piece = pieces[0]
    native = piece.message
    if was is None:
        return _made(native)
    changes: dict[str, Any] = {"id": uuid4().hex}
    content: Native = native.get("content") or ""
    if not isinstance(was.content, str):
        content = _BLOCKS.left(was.content, piece)
    if not isinstance(was, ChatMessageTool):
        changes["content"] = content
    elif native["content"] != piece.before["content"]:
        changes.update(content=content, error=None)
    if isinstance(was, ChatMessageTool):
        changes["tool_call_id"] = native["tool_call_id"]
    if isinstance(was, ChatMessageAssistant):
        known = dict(enumerate(was.tool_calls or ()))
        calls = [_called(known.get(place), call) for place, call in piece.calls.items()]
        changes["tool_calls"] = calls or None
    changed: ChatMessage = was.model_copy(update=changes)
    return changed


def _made(native: dict[str, Any]) -> ChatMessage:
    text = words_of(native.get("content"))
    if native["role"] == "tool":
        return ChatMessageTool(content=text, tool_call_id=native["tool_call_id"])
    if native.get("tool_calls"):
        return ChatMessageAssistant(content=text, tool_calls=[_called(None, call) for call in native["tool_calls"]])
    kinds = {"assistant": ChatMessageAssistant, "system": ChatMessageSystem}
    made: ChatMessage = kinds.get(native["role"], ChatMessageUser)(content=text)
    return made


def _called(was: ToolCall | None, call: dict[str, Any]) -> ToolCall:
    if was is None:
        return ToolCall(id=call["id"], function=call["function"]["name"], arguments=arguments_of(call))
    if call == _call(was):
        return was
    changed: ToolCall = replace(was, id=call["id"])
    if call["function"] != _call(was)["function"]:
        changed = replace(changed, arguments=arguments_of(call), parse_error=None)
    return changed


_KINDS = {ContentText: "text", ContentReasoning: "thinking"}
_BLOCKS = Blocks(lambda block: _KINDS.get(type(block), ""), _part, lambda _was, text: ContentText(text=text))
