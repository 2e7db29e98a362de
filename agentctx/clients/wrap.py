"""``agentctx.wrap``: finds the file for a client by the name of its class, without importing any SDK."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import TypeVar

from agentctx.clients.model_call import Conversations, Key, conversations_of
from agentctx.errors import ConfigError
from agentctx.lazy import too_old, unmet
from agentctx.pipeline import Pipeline
from agentctx.session.session import Session
from agentctx.session.sessions import Sessions

T = TypeVar("T")

_GEMINI = "google.genai"
"""Takes HTTP clients, and has no file of its own."""
_FILES = {
    "openai": "agentctx.clients.openai",
    "anthropic": "agentctx.clients.anthropic",
    "google.genai": _GEMINI,
    "litellm": "agentctx.clients.litellm",
    "botocore": "agentctx.clients.bedrock",
    "aiobotocore": "agentctx.clients.bedrock",
}
"""The file for each SDK, by the package that a client's class comes from."""


def wrap(
    client: T,
    pipeline: Pipeline,
    *,
    session: Session | None = None,
    key: Key | None = None,
    sessions: Sessions | None = None,
) -> T:
    """Return a client that is used as before, and whose requests are prepared before each model call.

    The client that is passed stays as it is; both share its connections.

    A call belongs to the conversation of ``session``; else to that of the ``with session:`` block that it is made in;
    else to the one that ``key`` names. A call that belongs to none is prepared by itself, remembering nothing. The
    block is a ``ContextVar`` (see ``Session.__enter__``), which does not reach threads and pools that are started by
    hand; ``session`` and ``key`` hold there, too. The model is the one that each request names; where the model table
    does not know that name, the session's own.

    In one block, session or key, conversations are told apart by system prompt and first user message (two agents, a
    guardrail among an agent's calls). The session is that of the one that goes on; its ``dump`` has no other.

    A model call that a part of the pipeline makes for a step (a summarizer, say), also by this client, is made legal
    and made to fit, is no part of the conversation, and is not given to the stages again.

    When the provider says that the context was too large, a strictly smaller request is sent, once. A stream starts
    as soon as the client's own would. Where it tells of the overflow before its first content, it goes on with the
    answer to the smaller request: under the id that was read before, though the provider keeps that answer under an id
    of its own. In a stream of Converse the overflow is botocore's own error. Retries stay the SDK's own: the same
    bytes, and no second step.

    Usage is recorded in the session, for a stream at its last event or when it is closed, for OpenAI's response in the
    background when this client retrieves it. A chat stream tells it only where
    ``stream_options={"include_usage": True}`` is asked for; the log says so, once.

    A request that cannot be made to fit is not sent. Its error is the SDK's own, and begins with the provider's own
    sentence; ``agentctx.overflow_of(error)`` gives the ``ContextOverflow``.

    ``wrapped.agentctx`` has the sessions by key (``.sessions``), the last view of this client (``.view``) and its
    report (``.report``); each session has its own (``session.view``). ``agentctx.of(client)`` gives the same for
    copies that the SDK makes of the wrapped client, and for HTTP clients.

    Model calls are chat completions, responses, messages and Converse, also through the helpers built on them.
    Token counting, batches and all else go through as they are. Refused by name are the calls that pass the client's
    HTTP client by (``responses.connect``, ``realtime.connect``, ``live``; not in copies by ``with_options``), the old
    ``/completions`` and ``/responses/compact``; and a conversation that the provider keeps, since it can be neither
    counted nor cut.

    Args:
        client: ``AsyncOpenAI``, ``OpenAI`` (and their Azure kinds), ``AsyncAnthropic``, ``Anthropic`` (and their
            Bedrock, Vertex and Foundry kinds), the functions ``completion``, ``responses``, ``anthropic_messages`` of
            litellm and their async kinds, a ``litellm.Router``, a ``bedrock-runtime`` client of boto3 or aioboto3. For
            ``google.genai`` and everything else that takes an HTTP client, see ``agentctx.http_client``.
        pipeline: Prepares the requests that belong to no session.
        session: The one conversation that this client speaks in, prepared by the pipeline that it was made by.
        key: Names the conversation of a request, given its body; None means none. A plain function.
        sessions: Holds the sessions of the keys, so many at once; with a store, for all workers: each is saved when a
            call was prepared, and when it is known what it cost. May be shared by several clients. Without it, 1,024
            are held, and the first that is forgotten is said in the log.

    Raises:
        ConfigError: If this client cannot be wrapped, ``key`` is no plain function, or ``sessions`` has no use or
            another pipeline.

    Example:
        >>> import agentctx, openai
        >>> pipeline = agentctx.Pipeline(agentctx.FitContextWindow(), budget=agentctx.Budget(window=128_000))
        >>> client = agentctx.wrap(openai.AsyncOpenAI(api_key="…"), pipeline)
        >>> isinstance(client, openai.AsyncOpenAI)
        True
    """
    name = _file_for(client)
    if name is None:
        kind = client if isinstance(client, type) else type(client)
        packages = ", ".join(sorted(_FILES.keys() - {_GEMINI}))
        msg = (
            f"wrap: {kind.__module__}.{kind.__qualname__} is no client that can be wrapped; known are {packages}. "
            "Whatever takes an HTTP client is given agentctx.http_client(pipeline)"
        )
        raise ConfigError(msg)
    if name == _GEMINI:
        raise ConfigError(_TAKES_AN_HTTP_CLIENT)
    conversations = conversations_of("wrap", pipeline, session, key, sessions)
    extra = name.rpartition(".")[2]  # the extra of an SDK is called like its file
    if (refusal := too_old("wrap", extra)) is not None:
        raise ConfigError(refusal)
    try:
        module = import_module(name)
    except ImportError as error:
        raise ConfigError(unmet("wrap", extra, error)) from error
    wrapped: T = module.wrap(client, conversations)
    return wrapped


def of(client: object) -> Conversations:
    """Return what belongs to a client that prepares its calls: sessions, the last view and its report.

    Args:
        client: A wrapped client, a copy that its SDK made of it, or an HTTP client of this library.

    Raises:
        ConfigError: If nothing is prepared for this client.

    Example:
        >>> import agentctx, openai
        >>> pipeline = agentctx.Pipeline(agentctx.FitContextWindow(), budget=agentctx.Budget(window=128_000))
        >>> client = agentctx.wrap(openai.OpenAI(api_key="…"), pipeline).with_options(timeout=30)
        >>> agentctx.of(client).view is None
        True
    """
    name = _file_for(client)
    finders = {"agentctx.clients.openai": "own_http_client", "agentctx.clients.anthropic": "preparing"}
    places = [client]
    if name in finders:
        with suppress(ConfigError):  # a part of an SDK that has no HTTP client
            places.append(getattr(import_module(name), finders[name])(client))
    for place in places:
        conversations = getattr(place, "agentctx", None)
        if isinstance(conversations, Conversations):
            return conversations
    msg = f"of: this {type(client).__qualname__} was not wrapped: pass the client that wrap() or http_client() returned"
    raise ConfigError(msg)


_TAKES_AN_HTTP_CLIENT = (
    "wrap: a google.genai client cannot be copied: give it HTTP clients when it is made: "
    "genai.Client(http_options=HttpOptions(httpx_client=agentctx.http_client(pipeline), "
    "httpx_async_client=agentctx.async_http_client(pipeline)))"
)


def _file_for(client: object) -> str | None:
    origins = [kind.__module__ for kind in client.__class__.__mro__]  # a wrapped Router's is the Router's
    if isinstance(client, ModuleType):
        origins = [client.__name__]
    elif type(client).__module__ == "builtins":  # a function
        origins = [str(getattr(client, "__module__", ""))]
    for origin in origins:
        for package, name in _FILES.items():
            if origin == package or origin.startswith(f"{package}."):
                return name
    return None
