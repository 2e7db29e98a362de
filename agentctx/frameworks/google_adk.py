"""Google's Agent Development Kit: a plugin that prepares the requests of all agents of a runner."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from agentctx.engine.plan import logger
from agentctx.formats.gemini import GenerateContent
from agentctx.frameworks.calls import ModelCalls, Piece, PreparedCall, Request, missing
from agentctx.message import Native
from agentctx.pipeline import Pipeline
from agentctx.session.sessions import Sessions

try:
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.agents.invocation_context import InvocationContext
    from google.adk.agents.readonly_context import ReadonlyContext
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.adk.plugins.base_plugin import BasePlugin
    from google.genai.types import Content
except ImportError as error:
    raise missing("ContextPlugin", "google-adk", error) from error

_KEPT_BY_PROVIDER = (
    "a model call of ADK is sent as it is: it goes on from an interaction that the provider keeps, which can be "
    "neither counted nor cut; leave use_interactions_api out of the model"
)
_MOST_CALLS = 1_024
"""So many model calls are remembered until they are answered; those of runs that were given up go first."""


class ContextPlugin(BasePlugin):
    """Prepares each model call of a runner: ``App(…, plugins=[ContextPlugin(pipeline)])``.

    The session service keeps all events. Each model call gets a view of the contents that ADK makes of them, in the
    session ``app/user/session/agent``. A request that the model refuses as too large is made smaller and sent again,
    once, and not as a stream. What is billed is recorded. What goes on from an interaction that the provider keeps is
    sent as it is, and the log says so.

    Args:
        pipeline: Prepares the calls.
        sessions: Holds the sessions by name, instead of ``pipeline``.
        name: The plugin's name in ADK.
        agentctx: The sessions, and the last view.

    Raises:
        ConfigError: If neither a pipeline nor sessions are given, or both.

    Example:
        >>> from agentctx import FitContextWindow, Pipeline
        >>> from agentctx.frameworks.google_adk import ContextPlugin
        >>> from google.adk.agents import LlmAgent
        >>> from google.adk.apps import App
        >>> plugin = ContextPlugin(Pipeline(FitContextWindow(), budget=128_000))
        >>> App(name="reading", root_agent=LlmAgent(name="reader"), plugins=[plugin]).plugins[0].name
        'agentctx'
    """

    def __init__(
        self, pipeline: Pipeline | None = None, *, sessions: Sessions | None = None, name: str = "agentctx"
    ) -> None:
        super().__init__(name)
        self.agentctx = ModelCalls(type(self).__name__, pipeline, sessions)
        self._calls: OrderedDict[tuple[str, str], PreparedCall[Content]] = OrderedDict()

    async def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        """Put the view into the request."""
        if llm_request.previous_interaction_id is not None:
            logger.warning(_KEPT_BY_PROVIDER)
            return
        call = await self.agentctx.begin(_request(callback_context, llm_request))
        key = _key(callback_context)
        self._calls[key] = call
        self._calls.move_to_end(key)
        if len(self._calls) > _MOST_CALLS:
            self._calls.popitem(last=False)
        _put(llm_request, call)

    async def after_model_callback(self, *, callback_context: CallbackContext, llm_response: LlmResponse) -> None:
        """Record what was billed."""
        call = self._calls.get(_key(callback_context))
        if call is not None and llm_response.usage_metadata is not None and not llm_response.partial:
            call.record(llm_response.usage_metadata)
            await call.save()

    async def on_model_error_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest, error: Exception
    ) -> LlmResponse | None:
        """After an overflow, the answer to a smaller request; None after any other error, which ADK raises then."""
        call = self._calls.get(_key(callback_context))
        if call is None or not await call.recover(error):
            return None
        _put(llm_request, call)
        invocation: Native = callback_context._invocation_context  # noqa: SLF001 - nothing else leads to the model
        model = await invocation.agent.canonical_model_async(ReadonlyContext(invocation))
        responses: list[LlmResponse] = [each async for each in model.generate_content_async(llm_request, stream=False)]
        return responses[-1] if responses else None

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Forget the calls of the run."""
        for key in [key for key in self._calls if key[0] == invocation_context.invocation_id]:
            del self._calls[key]


def _key(context: CallbackContext) -> tuple[str, str]:
    """An agent makes one model call at a time in an invocation."""
    return context.invocation_id, context.agent_name


def _request(context: CallbackContext, request: LlmRequest) -> Request[Content]:
    session = context.session
    return Request(
        name=f"{session.app_name}/{session.user_id}/{session.id}/{context.agent_name}",
        adapter=GenerateContent(request.model or ""),
        objects=request.contents,
        write=_write,
        system=request.config.system_instruction,
        tools=request.config.tools or None,
        model=request.model,
    )


def _write(_content: Content | None, pieces: Sequence[Piece]) -> Content:
    message: Native = pieces[0].message
    return message if isinstance(message, Content) else Content.model_validate(message)


def _put(request: LlmRequest, call: PreparedCall[Content]) -> None:
    request.contents = call.messages
