"""Microsoft's Agent Framework: chat middleware that prepares each model call; sessions keep what was said."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from copy import copy
from itertools import count
from typing import Any

from attrs import define, field

from agentctx.engine.plan import logger
from agentctx.formats.openai_chat import FRAMEWORK_CHAT
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
    missing,
    words_of,
)
from agentctx.message import Native
from agentctx.pipeline import Pipeline
from agentctx.session.sessions import Sessions

try:
    from agent_framework import ChatContext, ChatMiddleware, ChatResponse, Content, Message, ResponseStream
except ImportError as error:
    raise missing("ContextMiddleware", "agent-framework", error) from error

_OWN_HISTORY = "agent_framework_local_history"
_KEPT_BY_PROVIDER = (
    "a model call of Agent Framework is sent as it is: it goes on from a conversation that the provider keeps, which "
    "can be neither counted nor cut; pass default_options={'store': False} to the agent"
)


class ContextMiddleware(ChatMiddleware):
    """Prepares each model call of an agent: ``Agent(client, middleware=[ContextMiddleware(pipeline)])``.

    The agent's history keeps all messages. Each model call gets a view of them, in the session that is called as the
    ``AgentSession``; agents in one session are told apart by how they begin. Without one, a call goes on with the
    conversation whose history it shows. A request that the model refuses as too large is made smaller and sent again,
    once, a stream as long as nothing of it came. What is billed is recorded. What goes on from a conversation that the
    provider keeps is sent as it is, and the log says so.

    Args:
        pipeline: Prepares the calls.
        sessions: Holds the sessions by name, instead of ``pipeline``.
        agentctx: The sessions, and the last view.

    Raises:
        ConfigError: If neither a pipeline nor sessions are given, or both.

    Example:
        >>> from agent_framework import Agent
        >>> from agent_framework.openai import OpenAIChatCompletionClient
        >>> from agentctx import FitContextWindow, Pipeline
        >>> from agentctx.frameworks.agent_framework import ContextMiddleware
        >>> client = OpenAIChatCompletionClient(model="gpt-5.4", api_key="none")
        >>> agent = Agent(client, middleware=[ContextMiddleware(Pipeline(FitContextWindow(), budget=128_000))])
        >>> len(agent.middleware[0].agentctx.sessions)
        0
    """

    def __init__(self, pipeline: Pipeline | None = None, *, sessions: Sessions | None = None) -> None:
        self.agentctx = ModelCalls(type(self).__name__, pipeline, sessions)

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Let the call be made with the view."""
        options = context.options or {}
        if not str(options.get("conversation_id") or _OWN_HISTORY).startswith(_OWN_HISTORY):
            logger.warning(_KEPT_BY_PROVIDER)
            await call_next()
            return
        head = [Message("system", [options["instructions"]])] if options.get("instructions") else []
        written = _Written()
        call = await self.agentctx.begin(_request(context, [*head, *context.messages], written))

        def put() -> None:
            """Send the view, without the instructions, which stand in the options."""
            context.messages = [message for message in call.messages if message not in head]
            written.tell(context)

        put()
        if context.stream:
            await call_next()
            context.result = _stream(context, call, put, call_next)
            return
        try:
            await call_next()
        except Exception as error:
            if not await call.recover(error):
                raise
            put()
            await call_next()
        _record(call, context.result)
        await call.save()


@define
class _Written:
    """Messages that were made anew, with those that they were made of."""

    pairs: list[tuple[Message, Message]] = field(factory=list)

    def __call__(self, was: Message | None, pieces: Sequence[Piece]) -> Message:
        """Make a message."""
        message = _write(was, pieces)
        if was is not None:
            self.pairs.append((message, was))
        return message

    def tell(self, context: Native) -> None:
        """Say which message was made of which, for a compaction further in."""
        for message, was in self.pairs:
            context.record_message_replacement(message, was)
        self.pairs.clear()


def _stream(
    context: Native, call: PreparedCall[Message], put: Callable[[], None], call_next: Callable[[], Awaitable[None]]
) -> ResponseStream[Any, Any]:
    """The stream of the call; of the smaller one where the first says before anything else that it was too large."""
    streams: list[Any] = [context.result]
    tries = count()

    async def send() -> AsyncGenerator[Any]:
        if next(tries):
            put()
            await call_next()
            streams.append(context.result)
        async for update in streams[-1]:
            yield update

    async def finished(_updates: Sequence[Any]) -> ChatResponse:
        response: ChatResponse = await streams[-1].get_final_response()
        _record(call, response)
        await call.save()
        return response

    return ResponseStream(call.streamed(send), finalizer=finished)


def _record(call: PreparedCall[Message], response: Native) -> None:
    usage = getattr(response, "usage_details", None) or {}
    call.record_tokens(usage.get("input_token_count"), usage.get("output_token_count"))


def _request(context: Native, messages: Sequence[Message], write: _Written) -> Request[Message]:
    options = context.options or {}
    tools: list[Any] = []  # functions only: what the provider runs itself is not counted
    for tool in options.get("tools") or ():
        if isinstance(tool, Mapping):
            tools += [tool] if tool.get("type") == "function" and "function" in tool else []
        elif hasattr(tool, "to_json_schema_spec"):
            tools += _function_of(tool)
    session = context.session
    return Request(
        name=UNNAMED if session is None else session.session_id,
        adapter=FRAMEWORK_CHAT,
        objects=messages,
        pieces=[_pieces_of(message) for message in messages],
        write=write,
        tools=tools or None,
        model=options.get("model") or getattr(context.client, "model", None),
    )


def _read(message: Message) -> list[Any]:
    results = [_result(content) for content in message.contents if content.type == "function_result"]
    beside = [content for content in message.contents if content.type != "function_result"]
    if message.role == "assistant":
        return [*results, *([_said(beside)] if beside or not results else [])]
    if results and not beside:
        return results
    role = message.role if message.role in ("system", "developer") else "user"
    return [*results, {"role": role, "content": _words(beside)}]


def _words(contents: Sequence[Content]) -> Native:
    """Text as one, or parts where there is more than text."""
    parts = [_part(content) for content in contents]
    only_text = all(content.type == "text" for content in contents)
    return "\n".join(part["text"] for part in parts) if only_text else parts


def _said(contents: Sequence[Content]) -> dict[str, Any]:
    calls = [_call(content) for content in contents if _is_call(content)]
    thought = [_part(content) for content in contents if content.type == "text_reasoning"]
    words = _words([each for each in contents if not _is_call(each) and each.type != "text_reasoning"])
    return chat_answer(words, calls, thought)


def _is_call(content: Content) -> bool:
    """Whether a call is answered by a message of the history, and not by the provider."""
    return content.type == "function_call" and not content.hosted and not content.informational_only


def _call(content: Content) -> dict[str, Any]:
    return chat_call(content.call_id or "", content.name or "", content.arguments or {})


def _result(content: Content) -> dict[str, Any]:
    answers = {"role": "tool", "tool_call_id": content.call_id or ""}
    items = content.items or ()
    if any(item.type != "text" for item in items):
        return {**answers, "content": [_part(item) for item in items]}
    said = "\n".join(item.text or "" for item in items) if items else content.result
    return {**answers, "content": said if isinstance(said, str) else json.dumps(said, default=str)}


def _part(content: Content) -> dict[str, Any]:
    """A content as a part; what Chat Completions does not know is counted as text, and comes back as it was."""
    if content.type == "text":
        return {"type": "text", "text": content.text or ""}
    if content.type == "text_reasoning":
        return chat_thinking(content.text, content.protected_data)
    uri, kind = content.uri or "", content.media_type or ""
    if content.type in ("data", "uri") and kind.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": uri}}
    if content.type == "data" and kind == "application/pdf":
        return {"type": "file", "file": {"file_data": uri, "filename": "document.pdf"}}
    if content.type == "data" and kind.startswith("audio/"):
        data, sound = uri.partition(",")[2], "mp3" if kind in {"audio/mp3", "audio/mpeg"} else "wav"
        return {"type": "input_audio", "input_audio": {"data": data, "format": sound}}
    if content.type in ("data", "uri"):
        return {"type": "text", "text": f"{kind} {uri[:200]}"}
    return {"type": "text", "text": json.dumps(content.to_dict(), default=str)}


def _consists_of(message: Message) -> Sequence[object]:
    inside = [part for each in message.contents for part in (each, each.text, each.arguments, each.result, each.items)]
    return [message.role, *inside]


_pieces_of: Converted[Message] = Converted(_read, _consists_of)
_function_of: Converted[Any] = Converted(lambda tool: [tool.to_json_schema_spec()], lambda _tool: ())


def _write(was: Message | None, pieces: Sequence[Piece]) -> Message:
    if was is None:
        return _made(pieces[0].message)
    results = [content for content in was.contents if content.type == "function_result"]
    beside = [content for content in was.contents if content.type != "function_result"]
    contents: list[Any] = []
    for piece in pieces:
        if piece.before["role"] == "tool":
            contents.append(_answered(results[piece.place], piece))
        else:
            contents += _BLOCKS.left(beside, piece)
    named = {"author_name": was.author_name, "message_id": was.message_id}
    return Message(was.role, contents, additional_properties=was.additional_properties, **named)


def _called(was: Content | None, call: Mapping[str, Any]) -> Content:
    arguments = call["function"]["arguments"]
    if was is None:
        made: Content = Content.from_function_call(call["id"], call["function"]["name"], arguments=arguments)
        return made
    same = arguments == _call(was)["function"]["arguments"]
    if same and call["id"] == was.call_id:
        return was
    changed = copy(was)
    changed.call_id, changed.raw_representation = call["id"], None
    if not same:
        changed.arguments = arguments if isinstance(was.arguments, str) else json.loads(arguments)
    return changed


def _answered(content: Content, piece: Piece) -> Content:
    """A function's result as it is to be sent."""
    if not piece.changed:
        return content
    said, changed = piece.message["content"], copy(content)
    changed.call_id, changed.raw_representation = piece.message["tool_call_id"], None
    if said == piece.before["content"]:
        return changed
    parts = [{"type": "text", "text": said}] if isinstance(said, str) else said
    known = [(_part(item), item) for item in content.items or ()]
    changed.items = [
        next((item for part, item in known if part == each), None) or Content.from_text(each.get("text") or "")
        for each in parts
    ]
    changed.result = words_of(parts)
    return changed


def _made(native: Mapping[str, Any]) -> Message:
    """A message that a stage or a repair put in."""
    text = words_of(native.get("content"))
    if native["role"] == "tool":
        return Message("tool", [Content.from_function_result(native["tool_call_id"], result=text)])
    calls = [_called(None, call) for call in native.get("tool_calls") or ()]
    return Message(native["role"], [*([text] if text or not calls else []), *calls])


def _kind(content: Content) -> str:
    if _is_call(content):
        return "call"
    return "thinking" if content.type == "text_reasoning" else str(content.type)


_BLOCKS = Blocks(_kind, _part, lambda _was, text: Content.from_text(text), _called)
