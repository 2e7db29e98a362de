"""OpenAI's Agents SDK: a model that prepares its calls, or a filter of a run's model input, with a session to name it.

The SDK's items are those of Responses, whatever API a model has.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from attrs import frozen

from agentctx.errors import ConfigError
from agentctx.formats.openai_responses import Responses
from agentctx.frameworks.calls import UNNAMED, ModelCalls, PreparedCall, Request, check_is_called, missing
from agentctx.message import Native
from agentctx.pipeline import Pipeline
from agentctx.session.sessions import Sessions

try:
    from agents import FunctionTool, Handoff, Model, ModelResponse, RunContextWrapper, RunHooks, handoff
    from agents.memory import Session
    from agents.run import CallModelData, ModelInputData
    from agents.tracing import get_current_trace
except ImportError as error:
    raise missing("ContextModel", "openai-agents", error) from error

_API = Responses()
_KEY = "prompt_cache_key"
_PARTLY = (
    "{}: the request holds only what is new (previous_response_id or conversation_id), so that what the model is shown "
    "is not known; leave these out, and keep the history in an SDK session or to_input_list()"
)


class ContextModel(Model):
    """A model whose calls are prepared: for an agent, or with ``RunConfig(model=…)`` for all agents of a run.

    A conversation is what the SDK groups a run's requests by: its session's id, else the run's ``group_id``, else the
    run. Agents of one run, as by handoffs, are told apart by instructions and task. Tools, handoffs and instructions
    are counted. After an overflow a smaller request is sent, once; a stream that has begun is not begun again.

    Args:
        model: The model that is called.
        pipeline: Prepares the calls.
        sessions: Holds the sessions, instead of ``pipeline``.

    Raises:
        ConfigError: If neither a pipeline nor sessions are given, or both, or the model is none; at a call, if the
            conversation is kept by the server (``previous_response_id``, ``conversation_id``).

    Example:
        >>> from agents import Agent, OpenAIResponsesModel
        >>> from agentctx import Budget, FitContextWindow, Pipeline
        >>> from agentctx.frameworks.openai_agents import ContextModel
        >>> from openai import AsyncOpenAI
        >>> pipeline = Pipeline(FitContextWindow(), budget=Budget(window=128_000))
        >>> model = OpenAIResponsesModel("gpt-5.4", AsyncOpenAI(api_key="none"))
        >>> agent = Agent("assistant", model=ContextModel(model, pipeline))
    """

    def __init__(self, model: Model, pipeline: Pipeline | None = None, *, sessions: Sessions | None = None) -> None:
        self.model = model
        self.agentctx = ModelCalls("ContextModel", pipeline, sessions)
        check_is_called("ContextModel", "model", model, "get_response")

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[Any],  # noqa: A002 - the SDK's name
        model_settings: Native,
        tools: list[Any],
        output_schema: Native,
        handoffs: list[Any],
        tracing: Native,
        **more: Native,
    ) -> ModelResponse:
        """Prepare a call, and have it answered."""
        asked = _Asked(system_instructions, model_settings, tools, output_schema, handoffs, tracing, more)
        call = await self.agentctx.begin(self._read(asked, input))
        said: ModelResponse = await call.answered(lambda: self.model.get_response(*self._sent(asked, call), **more))
        call.record(_usage(said.usage))
        await call.save()
        return said

    async def stream_response(
        self,
        system_instructions: str | None,
        input: str | list[Any],  # noqa: A002 - the SDK's name
        model_settings: Native,
        tools: list[Any],
        output_schema: Native,
        handoffs: list[Any],
        tracing: Native,
        **more: Native,
    ) -> AsyncIterator[Any]:
        """Prepare a call, and have it answered in a stream."""
        asked = _Asked(system_instructions, model_settings, tools, output_schema, handoffs, tracing, more)
        call = await self.agentctx.begin(self._read(asked, input))

        def send() -> AsyncGenerator[Any]:
            return _recorded(call, self.model.stream_response(*self._sent(asked, call), **more))

        async with aclosing(call.streamed(send)) as events:
            async for event in events:
                yield event

    def _read(self, asked: _Asked, given: str | list[Any]) -> Request[Any]:
        if any(asked.more.get(name) is not None for name in ("previous_response_id", "conversation_id")):
            raise ConfigError(_PARTLY.format("ContextModel"))
        extras = (asked.settings.extra_args, asked.settings.extra_body)
        name = next((extra[_KEY] for extra in extras if isinstance(extra, Mapping) and _KEY in extra), UNNAMED)
        model = getattr(self.model, "model", None)
        return _request(name, given, asked.instructions, (*asked.tools, *asked.handoffs), model)

    def _sent(self, asked: _Asked, call: PreparedCall[Any]) -> tuple[Any, ...]:
        settings = asked.settings
        names_runs = getattr(self.model, "_supports_default_prompt_cache_key", None)  # whether the SDK gives it the key
        if not (callable(names_runs) and names_runs()) and _KEY in (settings.extra_args or {}):
            kept = {name: value for name, value in settings.extra_args.items() if name != _KEY}
            settings = replace(settings, extra_args=kept or None)
        return (
            asked.instructions,
            call.messages,
            settings,
            asked.tools,
            asked.output_schema,
            asked.handoffs,
            asked.tracing,
        )

    def _supports_default_prompt_cache_key(self) -> bool:
        """Have the SDK say what it groups requests by, as it does to models of OpenAI: the conversation's name."""
        return True

    def get_retry_advice(self, request: Native) -> Native:
        """What the model advises."""
        return self.model.get_retry_advice(request)

    async def close(self) -> None:
        """Close the model."""
        await self.model.close()

    async def _cleanup_on_run_end(self, owner: object) -> None:
        """Let the model clean up."""
        await self.model._cleanup_on_run_end(owner)  # noqa: SLF001 - as the SDK does


@frozen
class _Asked:
    """What the SDK asks of a model, but for the items."""

    instructions: str | None
    settings: Native
    tools: list[Any]
    output_schema: Native
    handoffs: list[Any]
    tracing: Native
    more: Mapping[str, Any]


async def _recorded(call: PreparedCall[Any], events: AsyncIterator[Any]) -> AsyncGenerator[Any]:
    async for event in events:
        answer = getattr(event, "response", None)
        if answer is not None:
            call.record(_usage(getattr(answer, "usage", None)))
        yield event
    await call.save()


class ContextFilter(RunHooks[Any]):
    """Prepares the model calls of all agents of a run, as the run's filter and as its hooks.

    A conversation is the session's id where that is a ``ContextSession``, else the run's ``group_id`` where it is
    traced; without either a call goes on with the one whose history it shows. As hooks it learns what was billed. An
    overflow cannot be recovered from here: nothing of a filter is around the model call; ``ContextModel`` can.

    Args:
        pipeline: Prepares the calls.
        sessions: Holds the sessions, instead of ``pipeline``.

    Raises:
        ConfigError: If neither is given, or both; at a call, if the conversation is kept by the server.

    Example:
        >>> from agents import RunConfig
        >>> from agentctx import Budget, FitContextWindow, Pipeline
        >>> from agentctx.frameworks.openai_agents import ContextFilter
        >>> context = ContextFilter(Pipeline(FitContextWindow(), budget=Budget(window=128_000)))
        >>> config = RunConfig(call_model_input_filter=context)  # Runner.run(…, run_config=config, hooks=context)
    """

    def __init__(self, pipeline: Pipeline | None = None, *, sessions: Sessions | None = None) -> None:
        self.agentctx = ModelCalls("ContextFilter", pipeline, sessions)
        self._call: ContextVar[PreparedCall[Any] | None] = ContextVar("agentctx_call", default=None)

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Prepare a call."""
        given, agent = data.model_data, data.agent
        items: list[Any] = given.input
        called = {each.get("call_id") for each in items if each.get("type") == "function_call"}
        if any(each.get("type") == "function_call_output" and each["call_id"] not in called for each in items):
            raise ConfigError(_PARTLY.format("ContextFilter"))
        tools = await agent.get_all_tools(RunContextWrapper(data.context))
        offered = [each if isinstance(each, Handoff) else handoff(each) for each in agent.handoffs]
        model = agent.model if isinstance(agent.model, str) else getattr(agent.model, "model", None)
        group: str | None = getattr(get_current_trace(), "group_id", None)
        request = _request(_session_id.get() or group or UNNAMED, items, given.instructions, (*tools, *offered), model)
        call = await self.agentctx.begin(request)
        self._call.set(call)
        return ModelInputData(input=call.messages, instructions=given.instructions)

    async def on_llm_end(self, context: Native, agent: Native, response: ModelResponse) -> None:
        """Take note of what was billed."""
        call = self._call.get()
        if call is not None:
            call.record(_usage(response.usage))
            await call.save()


_session_id: ContextVar[str | None] = ContextVar("agentctx_session_id", default=None)


class ContextSession:
    """A session of the SDK that names the conversation for ``ContextFilter``; all else is the given session's.

    Args:
        session: What keeps the items.

    Example:
        >>> from agents import SQLiteSession
        >>> from agentctx.frameworks.openai_agents import ContextSession
        >>> session = ContextSession(SQLiteSession("thread-42"))
        >>> session.session_id
        'thread-42'
    """

    def __init__(self, session: Session) -> None:
        check_is_called("ContextSession", "session", session, "get_items")
        self.session = session

    @property
    def session_id(self) -> str:
        """The session's id."""
        name: str = self.session.session_id
        return name

    async def get_items(self, *given: Native, **named: Native) -> list[Any]:
        """What is kept; the SDK asks for it where a run begins."""
        _session_id.set(self.session.session_id)
        items: list[Any] = await self.session.get_items(*given, **named)
        return items

    def __getattr__(self, name: str) -> Native:
        """What the session has."""
        return getattr(self.session, name)


def _request(
    name: str, given: str | list[Any], instructions: str | None, tools: Iterable[Native], model: object
) -> Request[Any]:
    items: list[Any] = [{"role": "user", "content": given}] if isinstance(given, str) else given
    definitions = [_definition(tool) for tool in tools] or None
    model_name = model if isinstance(model, str) else None
    return Request(name, _API, items, system=instructions, tools=definitions, model=model_name)


def _definition(tool: Native) -> dict[str, Any]:
    """A tool, or a handoff, as Responses has it; a hosted tool by its name."""
    if isinstance(tool, FunctionTool):
        named = {"name": tool.name, "description": tool.description, "parameters": tool.params_json_schema}
    elif isinstance(tool, Handoff):
        described = {"description": tool.tool_description, "parameters": tool.input_json_schema}
        named = {"name": tool.tool_name, **described}
    else:
        return {"type": tool.name}
    return {"type": "function", "strict": True, **named}


def _usage(used: Native) -> Native:
    """What one request was billed; None where several were, or nothing is known."""
    if used is None or getattr(used, "requests", 1) != 1 or not used.input_tokens:
        return None
    return {"input_tokens": used.input_tokens, "output_tokens": used.output_tokens}
