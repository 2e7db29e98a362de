"""LangChain: middleware of an agent, sync and async."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from agentctx.frameworks.calls import Converted, ModelCalls, PreparedCall, Request, chat_tool, missing
from agentctx.message import Native
from agentctx.pipeline import Pipeline
from agentctx.session.blocking import blocking
from agentctx.session.sessions import Sessions

try:
    from langchain.agents.middleware import AgentMiddleware, ExtendedModelResponse, ModelRequest, ModelResponse
    from langchain.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy
    from langchain_core.messages import BaseMessage

    from agentctx.frameworks.langgraph import read, usage_of
except ImportError as error:
    raise missing("ContextMiddleware", "langchain", error) from error


class ContextMiddleware(AgentMiddleware[Any, Any]):
    """Prepares each model call of an agent; its state keeps all messages.

    A conversation is LangGraph's ``thread_id``; without one, it is known by the id of its first message. Several agents
    of one thread, such as sub-agents, are told apart by system prompt and task. After an overflow a smaller request is
    sent, once. List it before middleware that places cache markers.

    Args:
        pipeline: Prepares the calls.
        sessions: Holds the sessions, instead of ``pipeline``.

    Raises:
        ConfigError: If neither is given, or both.

    Example:
        >>> from agentctx import Budget, FitContextWindow, Pipeline
        >>> from agentctx.frameworks.langchain import ContextMiddleware
        >>> from langchain.agents import create_agent
        >>> from langchain_core.language_models import FakeListChatModel
        >>> pipeline = Pipeline(FitContextWindow(), budget=Budget(window=128_000))
        >>> agent = create_agent(FakeListChatModel(responses=["Hello."]), middleware=[ContextMiddleware(pipeline)])
        >>> agent.invoke({"messages": ["Hi."]})["messages"][-1].content
        'Hello.'
    """

    def __init__(self, pipeline: Pipeline | None = None, *, sessions: Sessions | None = None) -> None:
        super().__init__()
        self.agentctx = ModelCalls("ContextMiddleware", pipeline, sessions)

    def wrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], ModelResponse[Any]],
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Prepare a call of ``agent.invoke``."""
        call = blocking(self.agentctx.begin, _read(request))
        response = call.answered_blocking(lambda: handler(_with(request, call)))
        _record(call, response)
        if call.is_kept:
            blocking(call.save)
        return response

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Prepare a call of ``agent.ainvoke``."""
        call = await self.agentctx.begin(_read(request))
        response = await call.answered(lambda: handler(_with(request, call)))
        _record(call, response)
        await call.save()
        return response


def _read(request: ModelRequest[Any]) -> Request[BaseMessage]:
    head = [] if request.system_message is None else [request.system_message]
    running = getattr(request.runtime, "execution_info", None)
    answers = [] if request.response_format is None else _schemas_of(request.response_format)
    tools = [*request.tools, *answers]
    return read(getattr(running, "thread_id", None), [*head, *request.messages], tools, request.model)


def _schemas(asked: Native) -> list[Any]:
    """The schemas of a structured answer, as the tools that they mostly are."""
    asked = ToolStrategy(asked.schema) if isinstance(asked, AutoStrategy) else asked
    specs = [asked.schema_spec] if isinstance(asked, ProviderStrategy) else asked.schema_specs
    return [chat_tool(spec.name, spec.description, spec.json_schema) for spec in specs]


_schemas_of: Converted[Any] = Converted(_schemas, lambda _asked: ())


def _with(request: ModelRequest[Any], call: PreparedCall[BaseMessage]) -> ModelRequest[Any]:
    messages: list[Any] = call.messages
    if request.system_message is None:
        return request.override(messages=messages)
    return request.override(messages=messages[1:], system_message=messages[0])


def _record(call: PreparedCall[BaseMessage], response: Native) -> None:
    said = getattr(response, "model_response", response)
    call.record(next(filter(None, map(usage_of, getattr(said, "result", [said]))), None))
