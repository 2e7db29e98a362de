"""smolagents: a model that prepares what another model is called with; the agent's memory stays as it is.

smolagents sends an agent's calls and their observations as text. Here they are read as calls and results, so that a cut
takes old observations before anything that the user said.
"""

from __future__ import annotations

import json
from ast import literal_eval
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

from attrs import frozen

from agentctx.formats.openai_chat import FRAMEWORK_CHAT
from agentctx.frameworks.calls import (
    UNNAMED,
    Converted,
    ModelCalls,
    Piece,
    PreparedCall,
    Request,
    chat_answer,
    chat_call,
    check_is_called,
    missing,
    words_of,
)
from agentctx.message import Native
from agentctx.pipeline import Pipeline
from agentctx.session.blocking import blocking
from agentctx.session.sessions import Sessions

try:
    from smolagents.models import ChatMessage, MessageRole, Model, get_tool_json_schema
    from smolagents.utils import encode_image_base64, make_image_url
except ImportError as error:
    raise missing("ContextModel", "smolagents", error) from error

Group = tuple[ChatMessage, ...]
"""What the model said and which tools it called, which are two messages in smolagents; or one other message."""

_CALLING = "Calling tools:\n"


class ContextModel(Model):
    """Another model whose calls are prepared: ``CodeAgent(tools, model=ContextModel(model, pipeline))``.

    Everything else is asked of the other model. A request that it refuses as too large is made smaller and sent again,
    once. What is billed is recorded. smolagents names no run: a call goes on with the conversation whose history it
    shows; one that is kept stands in ``with session:`` (``Sessions.open``).

    Args:
        model: The model that is called, of whichever class.
        pipeline: Prepares the calls.
        sessions: Holds the sessions by name, instead of ``pipeline``.
        agentctx: The sessions, and the last view.

    Raises:
        ConfigError: If neither a pipeline nor sessions are given, or both, or the model is none.

    Example:
        >>> from agentctx import FitContextWindow, Pipeline
        >>> from agentctx.frameworks.smolagents import ContextModel
        >>> from smolagents.models import ChatMessage, Model
        >>> class Echo(Model):
        ...     def generate(self, messages, **_options):
        ...         return ChatMessage("assistant", messages[-1].content)
        >>> model = ContextModel(Echo(), Pipeline(FitContextWindow(), budget=128_000))
        >>> model.generate([ChatMessage("user", "Hello.")]).content
        'Hello.'
    """

    def __init__(self, model: Model, pipeline: Pipeline | None = None, *, sessions: Sessions | None = None) -> None:
        self.model = model
        self.agentctx = ModelCalls(type(self).__name__, pipeline, sessions)
        check_is_called(type(self).__name__, "model", model, "generate")

    def __getattr__(self, name: str) -> Native:
        """What the other model has."""
        if name in {"model", "agentctx"}:  # while it is copied or unpickled
            raise AttributeError(name)
        return getattr(self.model, name)

    def generate(self, messages: Sequence[Any], *args: Native, **kwargs: Native) -> ChatMessage:
        """The other model's answer to the prepared messages."""
        call = self._begin(messages, args, kwargs)
        answer: ChatMessage = call.answered_blocking(lambda: self.model.generate(_flat(call), *args, **kwargs))
        _record(call, answer)
        return answer

    @property
    def generate_stream(self) -> Native:
        """As ``generate``, in pieces; a model that has no such method has none here."""
        stream = self.model.generate_stream

        def generate_stream(messages: Sequence[Any], *args: Native, **kwargs: Native) -> Iterator[Any]:
            call = self._begin(messages, args, kwargs)
            for delta in call.streamed_blocking(lambda: stream(_flat(call), *args, **kwargs)):
                _record(call, delta)
                yield delta

        return generate_stream

    def parse_tool_calls(self, message: ChatMessage) -> ChatMessage:
        """As the other model does."""
        return self.model.parse_tool_calls(message)

    def to_dict(self) -> dict[str, Any]:
        """The other model's."""
        written: dict[str, Any] = self.model.to_dict()
        return written

    def _begin(self, messages: Sequence[Any], args: Sequence[Any], kwargs: dict[str, Any]) -> PreparedCall[Group]:
        tools = kwargs.get("tools_to_call_from") or (args[2] if len(args) > 2 else None)
        given = [ChatMessage.from_dict(each) if isinstance(each, dict) else each for each in messages]
        turns = list(_turns(given))
        request = Request(
            name=UNNAMED,
            adapter=FRAMEWORK_CHAT,
            objects=[turn.group for turn in turns],
            pieces=[[turn.read()] for turn in turns],
            write=_write,
            tools=[get_tool_json_schema(tool) for tool in tools] if tools else None,
            model=getattr(self.model, "model_id", None),
        )
        return blocking(self.agentctx.begin, request)


def _write(group: Group | None, pieces: Sequence[Piece]) -> Group:
    written = pieces[0].message
    if group is None:
        role = MessageRole.ASSISTANT if written["role"] == "assistant" else MessageRole.USER
        return (ChatMessage(role=role, content=_blocks(written.get("content"), {})),)
    return tuple(_written(message, written) for message in group)


def _flat(call: PreparedCall[Group]) -> list[ChatMessage]:
    return list(chain.from_iterable(call.messages))


def _record(call: PreparedCall[Group], answer: Native) -> None:
    if (usage := answer.token_usage) is not None:
        call.record_tokens(usage.input_tokens, usage.output_tokens)


@frozen
class _Turn:
    """A message, or two, as one message of Chat Completions.

    Args:
        calls: How many answers follow what the model said.
        answers: The id of the call that this answers; None where it answers none.
    """

    group: Group
    ids: tuple[str, ...] = ()
    answers: str | None = None

    def read(self) -> dict[str, Any]:
        """The message of Chat Completions."""
        first = self.group[0]
        if self.answers is not None:
            return {"role": "tool", "tool_call_id": self.answers, "content": _text(first)}
        if not _is(first, MessageRole.ASSISTANT, MessageRole.TOOL_CALL):
            role = "system" if _is(first, MessageRole.SYSTEM) else "user"
            return {"role": role, "content": _parts(first.content)}
        said = "\n".join(_text(each) for each in self.group if _is(each, MessageRole.ASSISTANT) or not self.ids)
        return chat_answer(said, [chat_call(id_, *_function(_text(self.group[-1]))) for id_ in self.ids])


def _turns(messages: Sequence[ChatMessage]) -> Iterator[_Turn]:
    """The messages in order; images that were observed stand behind the text of the observation."""
    place = 0
    while place < len(messages):
        first, *following = messages[place : place + 2]
        if not _is(first, MessageRole.ASSISTANT, MessageRole.TOOL_CALL):
            yield _Turn((first,))
            place += 1
            continue
        calls = following if _is(first, MessageRole.ASSISTANT) else []
        group = (first, *(each for each in calls if _is(each, MessageRole.TOOL_CALL)))
        start = place + len(group)
        seen = [each for each in messages[start : start + 1] if _is(each, MessageRole.USER)]
        start = end = start + len(seen)
        while end < len(messages) and _is(messages[end], MessageRole.TOOL_RESPONSE):
            end += 1
        results = messages[start:end]
        seen = seen if results else []
        ids = tuple(f"step_{place}_{number}" for number in range(len(results)))
        yield _Turn(group, ids)
        yield from (_Turn((each,), answers=id_) for each, id_ in zip(results, ids, strict=True))
        yield from (_Turn((each,)) for each in seen)
        place += len(group) + len(results) + len(seen)


def _is(message: ChatMessage, *roles: MessageRole) -> bool:
    return message.role in roles


@lru_cache(1_024)
def _function(text: str) -> tuple[str, str]:
    """A call's name and arguments: its own where the text is one call, as smolagents writes it."""
    if (known := _one_call(text)) is None:
        return "step", json.dumps({"text": text}, ensure_ascii=False)
    return known["function"]["name"], json.dumps(known["function"]["arguments"], ensure_ascii=False)


def _one_call(text: str) -> Native:
    try:
        (call,) = literal_eval(text.removeprefix(_CALLING))
        return call if isinstance(call["function"]["arguments"], dict) else None
    except (ValueError, TypeError, KeyError, SyntaxError, MemoryError, RecursionError):
        return None


def _written(message: ChatMessage, written: dict[str, Any]) -> ChatMessage:
    """A message of a group as it is to be sent; itself where it says the same."""
    content: Native = _calls_text(message, written) if _is(message, MessageRole.TOOL_CALL) else written.get("content")
    if content == (_text(message) if isinstance(content, str) else _parts(message.content)):
        return message
    blocks = message.content if isinstance(message.content, list) else ()
    images = {_url_of(block["image"]): block["image"] for block in blocks if block.get("type") == "image"}
    return ChatMessage(role=message.role, content=_blocks(content, images))


def _calls_text(message: ChatMessage, written: dict[str, Any]) -> str:
    text = _text(message)
    if not (calls := written.get("tool_calls")):
        return text
    function = calls[0]["function"]
    if (function["name"], function["arguments"]) == _function(text):
        return text
    arguments = json.loads(function["arguments"])
    if (known := _one_call(text)) is None:
        return str(arguments["text"]) if set(arguments) == {"text"} else function["arguments"]
    return _CALLING + str([{**known, "function": {**known["function"], "arguments": arguments}}])


def _text(message: ChatMessage) -> str:
    return words_of(message.content)


def _parts(content: Native) -> Native:
    if not isinstance(content, list):
        return content or ""
    return [
        {"type": "image_url", "image_url": {"url": _url_of(block["image"])}} if block.get("type") == "image" else block
        for block in content
    ]


def _blocks(content: Native, images: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Content of Chat Completions as smolagents has it."""
    if not isinstance(content, list):
        return [{"type": "text", "text": content or ""}]
    return [
        {"type": "image", "image": images[part["image_url"]["url"]]} if part["type"] == "image_url" else part
        for part in content
    ]


def _url_of(image: Native) -> str:
    url: str = _urls_of(image)[0]
    return url


_urls_of: Converted[Any] = Converted(lambda image: [make_image_url(encode_image_base64(image))], lambda _image: ())
