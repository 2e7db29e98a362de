"""LiteLLM: its chat completions, responses and messages, as functions, in the module, or of a ``Router``.

LiteLLM takes and answers every provider's calls in the shape of three APIs: OpenAI's Chat Completions and Responses and
Anthropic's Messages. All its other ways to call a model are refused, so that none goes out unprepared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import iscoroutinefunction, signature, unwrap
from itertools import chain
from types import FunctionType, MethodType, ModuleType
from typing import Any, TypeVar

import litellm
from attrs import define, field, frozen
from litellm import exceptions
from litellm.router import Router

from agentctx.clients.answers import Answer, NotSent, Ways, derived, events_of, exchange, follow, hold, opened, said_in
from agentctx.clients.model_call import Conversations, ModelCall
from agentctx.core.message import Native
from agentctx.errors import ConfigError
from agentctx.providers.adapter import Adapter
from agentctx.providers.anthropic.format import Messages
from agentctx.providers.openai_chat.format import ChatCompletions
from agentctx.providers.openai_responses.format import Responses

T = TypeVar("T")

_CHAT, _RESPONSES, _MESSAGES = ChatCompletions(), Responses(), Messages()
PREPARED: Mapping[str, Adapter] = {
    "completion": _CHAT,
    "acompletion": _CHAT,
    "responses": _RESPONSES,
    "aresponses": _RESPONSES,
    "anthropic_messages": _MESSAGES,
    "aanthropic_messages": _MESSAGES,
}
"""The model calls of the module and of a router that are prepared, and the API of each."""
_FOR_CHAT = (
    "text_completion", "atext_completion", "completion_with_retries", "acompletion_with_retries",
    "completion_with_fallbacks", "async_completion_with_fallbacks", "config_completion", "adapter_completion",
    "aadapter_completion", "batch_completion", "batch_completion_models", "batch_completion_models_all_responses",
    "abatch_completion", "abatch_completion_one_model_multiple_requests", "abatch_completion_fastest_response",
    "schedule_acompletion", "nlp_cloud_chat_completion", "replicate_chat_completion", "run_tool_loop",
    "arun_tool_loop", "maybe_run_chat_completion_agentic_loop", "query", "aquery", "generate_content",
    "agenerate_content", "generate_content_stream", "agenerate_content_stream", "aadapter_generate_content",
    "acreate", "LiteLLM", "Chat", "Completions", "AsyncCompletions",
)  # fmt: skip
_FOR_RESPONSES = (
    "responses_with_retries", "aresponses_with_retries", "aresponses_api_with_mcp", "compact_responses",
    "acompact_responses", "create_interaction", "acreate_interaction",
)  # fmt: skip
_ALONE = (
    "llm_passthrough_route", "allm_passthrough_route", "agent", "aagent", "agent_session", "aagent_session",
    "agent_resume", "aagent_resume",
)  # fmt: skip
_WHOLE = "call completion or acompletion with messages; options of theirs do retries, fallbacks and adapters"
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(_FOR_CHAT, _WHOLE),
    **dict.fromkeys(_FOR_RESPONSES, "call responses or aresponses with all items in input"),
    "anthropic_messages_handler": "call anthropic_messages",
    **dict.fromkeys(_ALONE, "what it sends cannot be seen here; call completion, responses or anthropic_messages"),
}
"""The other names of the module and of a router that call a model, and what to call instead."""
_WITHIN: Mapping[str, Mapping[str, str]] = {
    "google_genai": {name: _WHOLE for name in _FOR_CHAT if "generate_content" in name},
    "interactions": dict.fromkeys(("create", "acreate"), REFUSED["create_interaction"]),
    "anthropic": dict.fromkeys(("create", "acreate"), "call anthropic_messages"),
}
"""The same for modules within, where they are called as well."""
_ERRORS = (
    exceptions.BadRequestError,  # context windows too: its ContextWindowExceededError
    exceptions.RateLimitError,
    exceptions.APIError,
    exceptions.APIConnectionError,
    exceptions.InternalServerError,
    exceptions.ServiceUnavailableError,
    exceptions.UnprocessableEntityError,
)


def wrap(client: T, conversations: Conversations) -> T:
    """The module, the function or the router whose model calls are prepared.

    Raises:
        ConfigError: If it is something else of LiteLLM; says what to wrap.
    """
    given: Native = client
    name = getattr(given, "__name__", type(given).__qualname__)
    wrapped: Native = None
    if given is litellm or (isinstance(given, _Module) and name == litellm.__name__):
        wrapped = _module(given, conversations)
    elif isinstance(given, FunctionType | MethodType) and name in PREPARED:
        wrapped = _prepared(given, PREPARED[name], conversations)
    elif isinstance(given, Router):
        wrapped = _router(given, conversations)
    elif name in REFUSED:
        raise _refusal(name, REFUSED[name])
    if wrapped is None:
        msg = f"wrap: {name} of litellm makes no model calls; pass the module, one of {tuple(PREPARED)}, or a Router"
        raise ConfigError(msg)
    result: T = wrapped
    return result


def _module(real: ModuleType, conversations: Conversations) -> ModuleType:
    """The module with its model calls prepared or refused, also where a module within it, or one in that, has them."""
    own = {name: adapter for name, adapter in PREPARED.items() if hasattr(real, name)}
    calls = {name: _prepared(getattr(real, name), adapter, conversations) for name, adapter in own.items()}
    refused = {name: _refused(name, instead) for name, instead in REFUSED.items()}
    stand_ins = _StandIns()
    for name, call in {**refused, **calls}.items():
        stand_ins.put(real, name, call)
    for within, names in _WITHIN.items():
        for name, instead in names.items():
            module = getattr(real, within)
            stand_ins.put(module, name, _refused(f"{module.__name__}.{name}", instead))
    wrapped = _Module(real, stand_ins, {**calls, **refused})
    stand_ins.put(real.main, real.__name__, wrapped)  # which modules within have in turn
    return wrapped


@define
class _StandIns:
    """What stands in for a function, wherever it is reached: LiteLLM decorates some of them more than once."""

    _known: dict[int, tuple[object, object]] = field(init=False, factory=dict)

    def put(self, owner: object, name: str, stand_in: object) -> None:
        """Let ``stand_in`` stand for what an object has under that name, if it has it."""
        if (real := getattr(owner, name, None)) is not None:
            self._known[_identity(real)] = (real, stand_in)

    def of(self, value: Native) -> Native:
        """What stands for a value: a module that leads to model calls is read by the same rules."""
        if _is_module(value) and id(value) not in self._known and self._leads(value):
            self._known[id(value)] = (value, _Module(value, self, {}))
        known = self._known.get(_identity(value))
        return value if known is None else known[1]

    def _leads(self, module: ModuleType) -> bool:
        """Whether a model call is reached by a module, or by one in it."""
        inner = filter(_is_module, vars(module).values())
        reached = chain(vars(module).values(), *(vars(each).values() for each in inner))
        return any(_identity(each) in self._known for each in reached if not isinstance(each, ModuleType))


def _is_module(value: object) -> bool:
    return isinstance(value, ModuleType) and value.__name__.startswith(f"{litellm.__name__}.")


def _identity(value: object) -> int:
    return id(unwrap(value)) if isinstance(value, FunctionType) else id(value)


def _refused(name: str, instead: str) -> Callable[..., Any]:
    """Stands in the place of a model call that cannot be prepared."""

    def refuse(*_args: Native, **_more: Native) -> Native:
        raise _refusal(name, instead)

    return refuse


def _refusal(name: str, instead: str) -> ConfigError:
    return ConfigError(f"{name} of a wrapped litellm is a model call that cannot be prepared: {instead}")


class _Module(ModuleType):
    """A module in which some functions are replaced; everything else is read from, and set in, the real one."""

    def __init__(self, real: ModuleType, stand_ins: _StandIns, functions: Mapping[str, object]) -> None:
        super().__init__(real.__name__, real.__doc__)
        vars(self).update(functions, _agentctx_of=real, _agentctx_stand_ins=stand_ins)

    def __getattr__(self, name: str) -> Native:
        return self._agentctx_stand_ins.of(getattr(self._agentctx_of, name))

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._agentctx_of, name, value)


def _router(router: Native, conversations: Conversations) -> Native:
    """A copy of a router on the same state: cooldowns and counters are shared.

    Many of a router's calls are attributes of it, made when it is: properties go before those.
    """
    own = {name: _Call(router, name, adapter, conversations) for name, adapter in PREPARED.items()}
    refused = {name: _Call(router, name, instead, conversations) for name, instead in REFUSED.items()}
    calls: Mapping[str, property] = {
        name: property(call.get, call.set) for name, call in {**refused, **own}.items() if hasattr(router, name)
    }
    chat = property(lambda proxy: litellm.Chat(params=router.chat.params, router_obj=proxy))
    proxy: Native = object.__new__(derived(type(router), {**calls, "chat": chat}))
    proxy.__dict__ = vars(router)
    return proxy


@frozen
class _Call:
    """A call of a router that is prepared, or refused with what to do instead."""

    router: Native
    name: str
    how: Adapter | str
    conversations: Conversations

    def get(self, _proxy: object) -> Callable[..., Any]:
        """What stands in front of the router's own, as that is now."""
        if isinstance(self.how, str):
            return _refused(self.name, self.how)
        return _prepared(getattr(self.router, self.name), self.how, self.conversations)

    def set(self, _proxy: object, value: object) -> None:
        """Let the router have another."""
        setattr(self.router, self.name, value)


def _prepared(function: Callable[..., Any], adapter: Adapter, conversations: Conversations) -> Callable[..., Any]:
    """The function in front of which requests are prepared."""
    names = tuple(signature(function).parameters)
    ways = Ways(_ERRORS, _open, OverflowBeforeSending, iscoroutinefunction(function))

    @wraps(function)
    async def call(*args: Native, **more: Native) -> Native:
        async def send(body: dict[str, Native]) -> Native:
            return await ways.sent(function(**body))

        return await exchange(conversations, adapter, {**dict(zip(names, args, strict=False)), **more}, send, ways)

    return ways.plain(call)


async def _open(value: Native, call: ModelCall, ways: Ways, /) -> Answer:
    if not hasattr(value, "__anext__" if ways.waits else "__next__"):
        return opened(value, value, call)
    if ways.waits and call.adapter is _MESSAGES:  # bytes, as the HTTP response has them
        return follow(events_of(value), call, ways, getattr(value, "aclose", None), said_in)
    return hold(value, call, ways)


class OverflowBeforeSending(NotSent, exceptions.ContextWindowExceededError):
    """A request that cannot be made to fit: nothing was sent."""

    def tell(self, message: str) -> None:
        """Be built as LiteLLM builds its error."""
        exceptions.ContextWindowExceededError.__init__(self, message, "", "agentctx")
