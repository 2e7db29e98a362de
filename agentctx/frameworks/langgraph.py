"""LangGraph: the hook before the model of ``create_react_agent``, or a node before the model of one's own graph.

Here LangChain's messages and tools become those of Chat Completions, and come back, for LangChain's middleware as well.
LangChain's own converters do it, except for three things. A call that stands in the content, too, is one call. Signed
reasoning stands beside the content. A call whose arguments are not JSON (``invalid_tool_calls``) is a call: LangChain's
integrations send it after the others.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from itertools import islice
from threading import Lock
from typing import Any

from agentctx.formats.openai_chat import FRAMEWORK_CHAT
from agentctx.frameworks.calls import (
    UNNAMED,
    Converted,
    ModelCalls,
    Piece,
    PreparedCall,
    Request,
    arguments_of,
    chat_call,
    missing,
)
from agentctx.message import Native
from agentctx.pipeline import Pipeline
from agentctx.session.blocking import blocking
from agentctx.session.sessions import Sessions

try:
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        SystemMessage,
        convert_to_messages,
        convert_to_openai_messages,
    )
    from langchain_core.runnables import RunnableLambda
    from langchain_core.utils.function_calling import convert_to_openai_tool
    from langgraph.config import get_config
except ImportError as error:
    raise missing("ContextHook", "langgraph", error) from error

MOST_UNANSWERED = 64
"""So many calls are remembered whose answers have not been seen; the oldest is forgotten first."""


class ContextHook(RunnableLambda[Any, Any]):
    """Gives ``llm_input_messages``, which the model is shown; the state keeps all messages.

    A conversation is the graph's ``thread_id``; without one, it is known by the id of its first message. What was
    billed is read off the answer when the hook is called next. An overflow cannot be recovered from here: nothing of
    the hook is around the model call.

    Args:
        pipeline: Prepares the calls.
        sessions: Holds the sessions, instead of ``pipeline``.
        tools: The model's tools, as the agent is given them: a hook is not shown them, and they take room.
        system: The system prompt, as the agent is given it, for the same reason.
        model: The chat model, or its name, where its own window, prices or rules shall hold.

    Raises:
        ConfigError: If neither a pipeline nor sessions are given, or both.

    Example:
        >>> from agentctx import Budget, FitContextWindow, Pipeline
        >>> from agentctx.frameworks.langgraph import ContextHook
        >>> hook = ContextHook(Pipeline(FitContextWindow(), budget=Budget(window=128_000)))
        >>> hook.invoke({"messages": [{"role": "user", "content": "Why?"}]})["llm_input_messages"][0].text
        'Why?'
    """

    def __init__(
        self,
        pipeline: Pipeline | None = None,
        *,
        sessions: Sessions | None = None,
        tools: Sequence[Any] = (),
        system: str | SystemMessage | None = None,
        model: object = None,
    ) -> None:
        super().__init__(self._prepared, self._aprepared, name="ContextHook")
        self.agentctx = ModelCalls("ContextHook", pipeline, sessions)
        self._tools, self._model = tools, model
        self._system = SystemMessage(system) if isinstance(system, str) else system
        self._unanswered: OrderedDict[tuple[object, str | None], PreparedCall[BaseMessage]] = OrderedDict()
        self._guard = Lock()

    def _prepared(self, state: Native) -> dict[str, Any]:
        """For ``invoke``."""
        return blocking(self._aprepared, state, _thread())

    async def _aprepared(self, state: Native, thread: object = None) -> dict[str, Any]:
        """For ``ainvoke``."""
        messages = convert_to_messages(state["messages"] if isinstance(state, Mapping) else state.messages)
        head = [] if self._system is None else [self._system]
        request = read(_thread() if thread is None else thread, [*head, *messages], self._tools, self._model)
        self._record(request.name, messages)
        call = await self.agentctx.begin(request)
        key = (request.name, messages[-1].id if messages else None)
        with self._guard:
            self._unanswered[key] = call
            if len(self._unanswered) > MOST_UNANSWERED:
                self._unanswered.popitem(last=False)
        return {"llm_input_messages": call.messages[len(head) :]}

    def _record(self, name: object, messages: Sequence[BaseMessage]) -> None:
        """Take note of what the last answer cost: it stands behind the last message of the call that it answers."""
        answers = [place for place, message in enumerate(messages) if isinstance(message, AIMessage)]
        if not answers or not answers[-1]:
            return
        with self._guard:
            call = self._unanswered.pop((name, messages[answers[-1] - 1].id), None)
        if call is not None:
            call.record(usage_of(messages[answers[-1]]))


def _thread() -> object:
    """The thread of the graph that runs; None outside of one."""
    try:
        configured: Mapping[str, Any] = get_config().get("configurable", {})
    except RuntimeError:
        return None
    return configured.get("thread_id")


_THINKING = frozenset({"thinking", "redacted_thinking"})
_CALLS = frozenset({"tool_use", "function_call", "tool_call"})


def read(
    thread: object, messages: Sequence[BaseMessage], tools: Sequence[Native], model: object
) -> Request[BaseMessage]:
    """What LangChain is about to send.

    Args:
        thread: The conversation's name, if it has one; without it, the id of its first message.
        messages: The messages, the system prompt first.
        tools: LangChain's tools, or a provider's own definitions.
        model: LangChain's chat model, or its name.
    """
    first = next((each.id for each in messages if each.type != "system"), None)
    name = (first or UNNAMED) if thread is None else str(thread)
    pieces = [_pieces_of(message) for message in messages]
    definitions = [tool if isinstance(tool, Mapping) else _tool_of_object(tool)[0] for tool in tools] or None
    while (bound := getattr(model, "bound", None)) is not None:
        model = bound
    names = (model, *(getattr(model, key, None) for key in ("model_name", "model", "model_id")))
    model_name = next((each for each in names if isinstance(each, str)), None)
    return Request(name, FRAMEWORK_CHAT, messages, pieces, write, tools=definitions, model=model_name)


def usage_of(message: object) -> Native:
    """What was billed for an answer, as the API has it; None when it is not told."""
    billed = getattr(message, "usage_metadata", None)
    if not billed:
        return None
    cached = (billed.get("input_token_details") or {}).get("cache_read") or 0
    return {
        "prompt_tokens": billed["input_tokens"],
        "completion_tokens": billed["output_tokens"],
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def _read_message(message: BaseMessage) -> list[Any]:
    natives: list[dict[str, Any]] = convert_to_openai_messages([message])
    if isinstance(message, AIMessage) and isinstance(content := natives[0].get("content"), list):
        thought = [block for block in content if _kind(block) in _THINKING]
        natives[0]["content"] = [block for block in content if _kind(block) not in _THINKING | _CALLS]
        natives[0].update({"thinking_blocks": thought} if thought else {})
    if isinstance(message, AIMessage) and message.invalid_tool_calls:
        # Calls whose arguments are not JSON, as LangChain's integrations send them.
        unparsed = message.invalid_tool_calls
        invalid = [chat_call(call["id"] or "", call["name"] or "", call["args"] or "") for call in unparsed]
        ids = {call["id"] for call in invalid}
        in_content = natives[0].get("tool_calls", [])[len(message.tool_calls) :]
        others = [call for call in in_content if call["id"] not in ids]
        valid = natives[0].get("tool_calls", [])[: len(message.tool_calls)]
        natives[0]["tool_calls"] = [*valid, *others, *invalid]
    return natives


def _parts(message: BaseMessage) -> Sequence[object]:
    content = message.content if isinstance(message.content, list) else [message.content]
    return [message.content, *content, *getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ())]


_pieces_of: Converted[BaseMessage] = Converted(_read_message, _parts)
_tool_of_object: Converted[Any] = Converted(lambda tool: [convert_to_openai_tool(tool)], lambda _tool: ())


def write(was: BaseMessage | None, pieces: Sequence[Piece]) -> BaseMessage:
    """LangChain's message of what is to be sent, with the id that it had."""
    native = pieces[0].message
    if was is None:
        return _made(native)
    if was.type == "human" and len(_pieces_of(was)) > 1:
        return was.model_copy(update={"content": [block for piece in pieces for block in _in_human(piece.message)]})
    if isinstance(was, AIMessage):
        return _answer(was, pieces[0])
    answers = {"tool_call_id": native["tool_call_id"]} if native["role"] == "tool" else {}
    return was.model_copy(update={"content": native["content"], **answers})


def _made(native: Mapping[str, Any]) -> BaseMessage:
    """A message that a stage or a repair put in."""
    made: BaseMessage = convert_to_messages([{key: value for key, value in native.items() if key != "tool_calls"}])[0]
    calls = native.get("tool_calls") or ()
    if not calls:
        return made
    valid = [_parsed(call) for call in calls if _is_object(call["function"]["arguments"])]
    invalid = [_unparsed(call) for call in calls if not _is_object(call["function"]["arguments"])]
    return made.model_copy(update={"tool_calls": valid, "invalid_tool_calls": invalid})


def _unparsed(call: Mapping[str, Any]) -> dict[str, Any]:
    """A call whose arguments are not JSON, as LangChain has it."""
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    return {"type": "invalid_tool_call", "id": call["id"], "name": name, "args": arguments, "error": None}


def _is_object(arguments: str) -> bool:
    """Whether arguments are a JSON object, or nothing, which stands for an empty one."""
    try:
        return isinstance(json.loads(arguments or "{}"), dict)
    except ValueError:
        return False


def _answer(was: AIMessage, piece: Piece) -> AIMessage:
    """An answer with the words, the reasoning and the calls that are left of it."""
    before, left = len(piece.before.get("tool_calls") or ()), piece.calls
    first_invalid = before - len(was.invalid_tool_calls)
    valid = [{**each, **_parsed(left[place])} for place, each in enumerate(was.tool_calls) if place in left]
    invalid = [(each, left.get(place)) for place, each in enumerate(was.invalid_tool_calls, first_invalid)]
    changes = {
        "content": _content(was, piece),
        "tool_calls": [*valid, *(_parsed(call) for place, call in left.items() if place >= before)],
        "invalid_tool_calls": [{**each, **_unparsed(call), "error": each["error"]} for each, call in invalid if call],
        "additional_kwargs": {key: value for key, value in was.additional_kwargs.items() if key != "tool_calls"},
    }
    changed: AIMessage = was.model_copy(update=changes)
    return changed


def _parsed(call: Mapping[str, Any]) -> dict[str, Any]:
    """A call as LangChain has it."""
    return {"type": "tool_call", "id": call["id"], "name": call["function"]["name"], "args": arguments_of(call)}


def _in_human(native: Mapping[str, Any]) -> list[Any]:
    """What stands in one message beside others, as Anthropic has it."""
    content = native["content"]
    if native["role"] == "tool":
        return [{"type": "tool_result", "tool_use_id": native["tool_call_id"], "content": content}]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _content(was: AIMessage, piece: Piece) -> Native:
    """The content of an answer: without reasoning and calls that are gone, with calls as they are now."""
    said = piece.message.get("content") or ""
    if isinstance(was.content, str):
        return said
    if said == piece.before["content"]:
        said = [block for block in was.content if _kind(block) not in _THINKING | _CALLS]
    words = iter([{"type": "text", "text": said}] if isinstance(said, str) else said)
    thought = piece.message.get("thinking_blocks") or ()
    places = [*enumerate(piece.before.get("tool_calls") or ())]
    content: list[Any] = []
    for block in was.content:
        if _kind(block) in _THINKING:
            content += [block] if block in thought else []
        elif isinstance(block, Mapping) and _kind(block) in _CALLS:
            content += _call_in_content(block, places, piece.calls)
        else:
            content += islice(words, 1)
    return [*content, *words]


def _call_in_content(
    block: Mapping[str, Any], places: list[tuple[int, Any]], left: Mapping[int, Mapping[str, Any]]
) -> list[Any]:
    """A block of the content that is a call: the first one with its id that no block before it was."""
    id_key = "call_id" if block.get("call_id") else "id"
    own = next((each for each in places if each[1]["id"] == block.get(id_key)), None)
    if own is None:
        return [block]
    places.remove(own)
    place, before = own
    if place not in left:
        return []
    call, key = left[place], next(key for key in ("input", "arguments", "args") if key in block)
    arguments = call["function"]["arguments"]
    if arguments == before["function"]["arguments"]:
        return [{**block, id_key: call["id"]}]
    return [{**block, id_key: call["id"], key: arguments if isinstance(block[key], str) else json.loads(arguments)}]


def _kind(block: object) -> object:
    return block.get("type") if isinstance(block, Mapping) else None
