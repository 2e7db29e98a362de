"""Strands: a conversation manager that prepares what the model is called with; an agent's messages stay as they are."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

from agentctx.formats.bedrock import Converse
from agentctx.frameworks.calls import ModelCalls, PreparedCall, Request, missing
from agentctx.message import Native
from agentctx.pipeline import Pipeline
from agentctx.session.sessions import Sessions

try:
    from strands.agent.conversation_manager import ConversationManager
    from strands.hooks import AgentInitializedEvent, HookRegistry
    from strands.middleware import InvokeModelStage
    from strands.types.events import ModelStopReason
except ImportError as error:
    raise missing("ContextConversationManager", "strands", error) from error

_CONVERSE = Converse()


class ContextConversationManager(ConversationManager):
    """Prepares each model call of an agent: ``Agent(conversation_manager=ContextConversationManager(pipeline))``.

    ``agent.messages`` keeps everything that was said. Each model call gets a view of it, in the session of its
    conversation: that of the agent's session manager (``session_id/agent_id``) if it has one, else the agent's own. A
    request that the model refuses as too large is made smaller and sent again, once. What is billed is recorded.

    Args:
        pipeline: Prepares the calls.
        sessions: Holds the sessions by name, instead of ``pipeline``.
        agentctx: The sessions, and the last view.

    Raises:
        ConfigError: If neither a pipeline nor sessions are given, or both.

    Example:
        >>> from agentctx import FitContextWindow, Pipeline
        >>> from agentctx.frameworks.strands import ContextConversationManager
        >>> manager = ContextConversationManager(Pipeline(FitContextWindow(), budget=128_000))
        >>> len(manager.agentctx.sessions)
        0
    """

    def __init__(self, pipeline: Pipeline | None = None, *, sessions: Sessions | None = None) -> None:
        super().__init__()
        self.agentctx = ModelCalls(type(self).__name__, pipeline, sessions)
        self._names: WeakKeyDictionary[Any, str] = WeakKeyDictionary()

    def register_hooks(self, registry: HookRegistry, **kwargs: Native) -> None:
        """Take part in the model calls of the agent that this belongs to."""
        super().register_hooks(registry, **kwargs)
        registry.add_callback(AgentInitializedEvent, self._take_part)

    def _take_part(self, event: AgentInitializedEvent) -> None:
        event.agent.add_middleware(InvokeModelStage, self._call_model)

    def apply_management(self, agent: Native, **kwargs: Native) -> None:
        """Leave the agent's messages as they are."""

    def reduce_context(self, agent: Native, e: Exception | None = None, **kwargs: Native) -> None:
        """Raise the error: what could be made smaller was sent again already."""
        if e is not None:
            raise e

    async def _call_model(self, context: Native, next_fn: Callable[[Any], AsyncGenerator[Any]]) -> AsyncGenerator[Any]:
        call = await self.agentctx.begin(self._request(context))
        async with aclosing(call.streamed(lambda: next_fn(_with_view(context, call)), _says)) as events:
            async for event in events:
                if isinstance(event, ModelStopReason):
                    call.record(event.usage)
                    await call.save()
                yield event

    def _request(self, context: Native) -> Request[Any]:
        system, agent = context.system_prompt, context.agent
        session = getattr(getattr(agent, "_session_manager", None), "session_id", None)
        return Request(
            name=self._names.setdefault(agent, uuid4().hex) if session is None else f"{session}/{agent.agent_id}",
            adapter=_CONVERSE,
            objects=context.messages,
            system=[{"text": system}] if isinstance(system, str) else system,
            tools=[{"toolSpec": spec} for spec in context.tool_specs] or None,
            model=context.model.get_config().get("model_id"),
        )


def _with_view(context: Native, call: PreparedCall[Any]) -> Native:
    view = call.view
    if view is None or view.system is call.request.system:
        return context.replace(messages=call.messages)
    return context.replace(messages=call.messages, system_prompt=view.system)


def _says(event: Native) -> bool:
    return "data" in event or "delta" in event
