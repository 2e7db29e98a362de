"""LangGraph: the hook before the model of ``create_react_agent``, or a node before the model of one's own graph."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from agentctx.frameworks.calls import ModelCalls, PreparedCall, missing
from agentctx.message import Native
from agentctx.pipeline import Pipeline
from agentctx.session.lock import blocking
from agentctx.session.sessions import Sessions

try:
    from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, convert_to_messages
    from langchain_core.runnables import RunnableLambda
    from langgraph.config import get_config

    from agentctx.frameworks.langchain_core import read, usage_of
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
