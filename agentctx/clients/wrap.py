"""``agentctx.wrap``: finds the file for a client by the name of its class, without importing any SDK."""

from __future__ import annotations

from importlib import import_module
from types import FunctionType, ModuleType
from typing import TypeVar

from agentctx.clients.model_call import Conversations, Key
from agentctx.core.message import Native
from agentctx.engine.listeners import is_async
from agentctx.errors import ConfigError
from agentctx.pipeline import Pipeline
from agentctx.session.lock import patch_threads_once
from agentctx.session.session import Session
from agentctx.session.sessions import Sessions

T = TypeVar("T")

_FILES = {
    "openai": "agentctx.clients.openai",
    "anthropic": "agentctx.clients.anthropic",
    "google.genai": "agentctx.clients.google_genai",
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
    """A client of the same type whose requests are prepared before each model call. The given one is not changed.

    A call belongs to the conversation of ``session``; else to that of the ``with session:`` block that it is made in;
    else to the one that ``key`` names. A call that belongs to none is prepared by itself, remembering nothing. The
    model is the one that each request names; where the model table does not know that name, the session's own.

    Two conversations in one block, or of one ``session`` or key (two agents, a guardrail among an agent's calls), are
    told apart by how they begin, by system prompt and task, and each is prepared by itself. The session is that of the
    one that goes on; what is beside it is not in its ``dump``.

    A model call that a part of the pipeline makes for a step (a summarizer, a stage, a listener), also by this very
    client, is no part of the conversation: it is made legal and made to fit, and not given to the stages again.

    When the provider says that the context was too large, a strictly smaller request is sent, once. A stream starts
    as soon as the client's own would. Where it tells of the overflow before its first content, it goes on with the
    answer to the smaller request: then the ids in what was read before (``response.created``, ``message_start``) are
    those of the first answer. In a stream of Converse the overflow is botocore's own error. What is billed is recorded
    in the session, for a stream when it ends or is closed, for OpenAI's response in the background when this client
    retrieves it. A chat stream tells it only where ``stream_options={"include_usage": True}`` is asked for; that is
    said in the log, once. Retries stay the SDK's own.

    ``wrapped.agentctx`` has the sessions by key (``.sessions``), the last view of this client (``.view``) and its
    report (``.report``); each session has its own (``session.view``).

    Model calls are chat completions, responses, messages, ``generate_content`` and Converse, also through the helpers
    built on them. Everything else goes through as it is: token counting, batches, server-side threads of assistants,
    web sockets. What goes on from a conversation that the provider keeps is refused, since it can be neither counted
    nor cut.

    Args:
        client: ``AsyncOpenAI``, ``OpenAI`` (and their Azure kinds), ``AsyncAnthropic``, ``Anthropic`` (and their
            Bedrock, Vertex and Foundry kinds), ``google.genai.Client``, LiteLLM's functions ``completion``,
            ``responses`` and their async kinds or ``anthropic_messages``, a ``litellm.Router`` (its other model calls
            are refused), a ``bedrock-runtime`` client of boto3 or aioboto3.
        pipeline: Prepares the requests.
        session: The one conversation that this client speaks in.
        key: Names the conversation of a request, given its body; None means none. A plain function.
        sessions: Holds the sessions of the keys, so many at once; with a store, for all workers: each is saved when a
            call was prepared, and when it is known what it cost. May be shared by several clients. Without it, 1,024
            are held, and the first that is forgotten is said in the log.

    Raises:
        ConfigError: If no file knows this client, ``key`` is no plain function, or ``sessions`` has no use or another
            pipeline.

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
        msg = f"wrap: {kind.__module__}.{kind.__qualname__} is no client that can be wrapped; known are {_known()}"
        raise ConfigError(msg)
    patch_threads_once()
    if sessions is not None and (key is None or sessions.pipeline is not pipeline):
        msg = "wrap: sessions= needs key=, and the pipeline that the client is wrapped with"
        raise ConfigError(msg)
    if key is not None and (not callable(key) or is_async(key)):
        msg = f"wrap: key= takes a plain function of a request's body, not {key!r}: nobody would await it"
        raise ConfigError(msg)
    known = Conversations(pipeline, session, key, sessions=Sessions(pipeline) if sessions is None else sessions)
    wrapped: T = import_module(name).wrap(client, known)
    _reachable(wrapped, known)
    return wrapped


def _reachable(wrapped: Native, known: Conversations) -> None:
    """Let the client have ``agentctx``: on its class, which is its own, so that copies have it too."""
    if isinstance(wrapped, ModuleType | FunctionType):
        vars(wrapped)["agentctx"] = known
    elif vars(wrapped).get("agentctx") is not known:  # the file that knows the client has not set it
        type(wrapped).agentctx = known


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


def _known() -> str:
    return ", ".join(sorted(_FILES))
