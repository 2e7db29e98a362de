"""LiteLLM's proxy: a callback that prepares the requests of all its clients before they are routed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from attrs import define

from agentctx.engine.plan import logger
from agentctx.errors import ContextOverflow, InvalidInput
from agentctx.formats.anthropic import Messages
from agentctx.formats.openai_chat import ChatCompletions
from agentctx.formats.openai_responses import Responses
from agentctx.formats.registry import Adapter, RequestParts, format_named, get
from agentctx.frameworks.calls import UNNAMED, ModelCalls, PreparedCall, Request, missing
from agentctx.message import Native
from agentctx.pipeline import Pipeline
from agentctx.session.conversations import opening_of
from agentctx.session.sessions import Sessions

try:
    from litellm.constants import SESSION_ID_GENERATED_METADATA_KEY
    from litellm.integrations.custom_logger import CustomLogger

    from agentctx.clients.litellm import too_long
except ImportError as error:
    raise missing("ContextLogger", "litellm-proxy", error) from error

_APIS: Mapping[str, Adapter] = {
    "completion": ChatCompletions(),
    "acompletion": ChatCompletions(),
    "anthropic_messages": Messages(),
    "aresponses": Responses(),
    "responses": Responses(),
}
"""The API of each kind of model call, as LiteLLM calls it."""

_MOST_CALLS = 4_096
"""So many model calls are remembered until they are answered; those that were given up go first."""


@define
class _Sent:
    """A request that was prepared.

    Args:
        smaller: Whether it was too large, and can be sent smaller.
    """

    call: PreparedCall[Any]
    adapter: Adapter
    parts: RequestParts
    smaller: bool = False

    def written(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The request with what was prepared."""
        view = self.call.view
        return {**body} if view is None else self.adapter.write(body, self.parts, view)


class ContextLogger(CustomLogger):
    """Prepares chat completions, Anthropic's messages and responses: ``litellm_settings: callbacks: file.context``.

    Each conversation has a session: the one that the client names, by LiteLLM's session id (the header
    ``x-litellm-session-id``, or what LiteLLM takes for it), else the one whose history it shows; in a store the one of
    requests with this system prompt and task. Those of two API keys are never the same. What is billed is recorded.

    A request that cannot be read, or goes on from what the provider keeps, is passed on as it is; one that cannot be
    made to fit is refused before it is sent, as LiteLLM refuses it. After an overflow the session knows the limit, and
    LiteLLM sends a smaller request where it tries again (``context_window_fallbacks``); it has no hook that would send
    one by itself.

    Args:
        pipeline: Prepares the requests.
        sessions: Holds the sessions by name, instead of ``pipeline``.
        agentctx: The sessions, and the last view.

    Raises:
        ConfigError: If neither a pipeline nor sessions are given, or both.

    Example:
        >>> from agentctx import FitContextWindow, Pipeline
        >>> from agentctx.frameworks.litellm_proxy import ContextLogger
        >>> context = ContextLogger(Pipeline(FitContextWindow(), budget=128_000))
        >>> len(context.agentctx.sessions)
        0
    """

    def __init__(self, pipeline: Pipeline | None = None, *, sessions: Sessions | None = None) -> None:
        super().__init__()
        self.agentctx = ModelCalls(type(self).__name__, pipeline, sessions)
        self._sent: OrderedDict[str, _Sent] = OrderedDict()

    async def async_pre_call_hook(
        self, user_api_key_dict: Native, cache: object, data: dict[str, Any], call_type: str
    ) -> dict[str, Any] | None:
        """Prepare a request of the proxy; None for one that is passed on as it is."""
        adapter = _APIS.get(call_type)
        if adapter is None:
            return None
        try:
            sent = await self._prepared(adapter, data, str(get(user_api_key_dict, "api_key") or ""))
        except InvalidInput as error:
            logger.warning("a request of LiteLLM's proxy is passed on as it is: %s", error)
            return None
        except ContextOverflow as error:
            raise too_long(adapter, error) from error
        if sent is None:
            return None
        if (name := data.get("litellm_call_id")) is not None:
            self._sent[name] = sent
            if len(self._sent) > _MOST_CALLS:
                self._sent.popitem(last=False)
        return sent.written(data)

    async def _prepared(self, adapter: Adapter, data: dict[str, Any], key: str) -> _Sent | None:
        parts = adapter.read(data)
        if parts is None:
            return None
        noted = [data.get("metadata") or {}, data.get("litellm_metadata") or {}]
        names = (data.get("litellm_session_id"), *(each.get("session_id") for each in noted))
        made_up = any(each.get(SESSION_ID_GENERATED_METADATA_KEY) for each in noted)
        own_name = None if made_up else next(filter(None, names), None)
        owner, named = _digest(key), None if own_name is None else str(own_name)
        if named is None and self.agentctx.sessions.store is not None:  # which keeps what has a name
            begins = opening_of(parts.messages, parts.system, format_named(adapter.format, parts.model)).beginning
            named = _digest(f"{begins.system.hex()}/{begins.task.hex()}")
        name = UNNAMED if named is None else f"{owner}/{named}"
        given = {"system": parts.system, "tools": parts.tools, "model": parts.model}
        call = await self.agentctx.begin(Request(name, adapter, parts.messages, **given, owner=owner))
        return _Sent(call, adapter, parts)

    async def async_pre_call_deployment_hook(self, kwargs: dict[str, Any], call_type: object) -> dict[str, Any] | None:
        """Where LiteLLM tries again after an overflow, the smaller request."""
        sent = self._sent.get(kwargs.get("litellm_call_id") or "")
        if sent is None or not sent.smaller or sent.adapter.messages_key not in kwargs:
            return None
        return sent.written(kwargs)

    async def async_post_call_failure_deployment_hook(
        self,
        request_data: Mapping[str, Any],
        exception: Exception,
        call_type: object,
        fallback_depth: int | None = None,
    ) -> None:
        """Learn the limit from an overflow."""
        sent = self._sent.get(request_data.get("litellm_call_id") or "")
        if sent is not None and await sent.call.recover(exception):
            sent.smaller = True

    async def async_log_success_event(
        self, kwargs: Native, response_obj: Native, start_time: object, end_time: object
    ) -> None:
        """Record what was billed, of a stream when it has ended."""
        sent = self._sent.pop(kwargs.get("litellm_call_id") or "", None)
        usage = get(response_obj, "usage")
        if sent is not None and usage is not None:
            sent.call.record(usage)
            await sent.call.save()


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
