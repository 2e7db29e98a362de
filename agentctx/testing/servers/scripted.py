"""Local servers that run: of one provider, which answers from a script and fails where the script says so."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from threading import Thread
from time import monotonic, sleep
from typing import Any

import uvicorn
from attrs import fields, frozen
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message as Piece, Receive, Scope, Send

from agentctx.errors import ConfigError
from agentctx.formats.native import json_object
from agentctx.message import Message, Native, Text, Thinking
from agentctx.testing.fakes import Scripted, ScriptedModel, ServerFault, filtered
from agentctx.testing.servers.anthropic import messages
from agentctx.testing.servers.bedrock import converse
from agentctx.testing.servers.desk import Desk, Said, fault_of_the_request
from agentctx.testing.servers.gemini import generate_content
from agentctx.testing.servers.openai import chat_completions, responses
from agentctx.testing.writers import assistant
from agentctx.validators import must_be, one_of

_APPS: Mapping[str, Callable[[Desk], Starlette]] = {
    "openai-chat": chat_completions,
    "openai-responses": responses,
    "anthropic": messages,
    "gemini": generate_content,
    "bedrock": converse,
}


@frozen(eq=False)
class ProviderServer:
    """A local server that is running.

    Args:
        url: Where it is, such as ``http://127.0.0.1:40123``.
        format: The format that it speaks.
        desk: How it behaves, and what it has seen.
        model: The script; None where it says ``"Done."`` whenever it is asked.
    """

    url: str
    format: str
    desk: Desk
    model: ScriptedModel | None = None

    @property
    def base_url(self) -> str:
        """What the provider's SDK takes as its base URL (Bedrock's: as ``endpoint_url``)."""
        return f"{self.url}/v1" if self.format.startswith("openai") else self.url

    @property
    def requests(self) -> list[Mapping[str, Any]]:
        """The bodies of the requests that were answered, in order."""
        return self.desk.accepted

    def assert_complete(self) -> None:
        """See that each answer of the script was asked for and none beyond them, and that every request was legal.

        Raises:
            AssertionError: If not.
        """
        if self.desk.refused:
            msg = f"a request was refused: {self.desk.refused[0]}"
            raise AssertionError(msg)
        if self.model is not None:
            self.model.assert_complete()


@contextmanager
def provider_server(
    format: str = "openai-chat",  # noqa: A002 - the name that the whole library gives it
    answers: Sequence[Scripted] | None = None,
    **behaviour: Native,  # what ``Desk`` takes
) -> Iterator[ProviderServer]:
    """Serve a provider's API on this machine, as strict as the provider, until the block ends.

    The script is that of one conversation: calls at once take its entries in the order in which they are answered.

    Args:
        format: ``"openai-chat"``, ``"openai-responses"``, ``"anthropic"``, ``"gemini"`` or ``"bedrock"``.
        answers: The script: texts, ``assistant(...)`` turns (the ids of their calls are the server's), and a
            ``ServerFault`` where something goes wrong. Without one the answer is always ``"Done."``.
        behaviour: Further options of ``Desk``, such as ``window=16_000`` in tokens.

    Raises:
        ConfigError: If the format or an option is not known, or the script has what no server can do.

    Example:
        >>> import json, urllib.request
        >>> from agentctx.testing.servers import provider_server
        >>> body = {"model": "gpt-5.4", "messages": [{"role": "user", "content": "Hi"}]}
        >>> with provider_server("openai-chat", ["Hello."]) as server:
        ...     request = urllib.request.Request(f"{server.base_url}/chat/completions", json.dumps(body).encode())
        ...     with urllib.request.urlopen(request) as response:
        ...         json.load(response)["choices"][0]["message"]["content"]
        ...     server.assert_complete()
        'Hello.'
    """
    one_of(_APPS).check("provider_server.format", format)
    known = [
        field.name for field in fields(Desk) if field.init and not (answers is not None and field.name == "answer")
    ]
    if (unknown := next((option for option in behaviour if option not in known), None)) is not None:
        near = get_close_matches(unknown, known, 1) or known
        msg = f"provider_server: {unknown}: there is no such option; there is {', '.join(near)}"
        raise ConfigError(msg)
    if answers is None:
        desk = Desk(**behaviour)
        with serving(_APPS[format](desk)) as url:
            yield ProviderServer(url, format, desk)
        return
    model = ScriptedModel(answers, format)
    if any(isinstance(each, Exception) for each in model.answers):
        raise must_be("provider_server.answers", "without exceptions, which no server raises: use ServerFault", answers)
    desk = Desk(answer=lambda _body: _said(model.take()), **behaviour)
    with filtered("uvicorn.error", _is_no_cut), serving(_Scripted(_APPS[format](desk), model)) as url:
        yield ProviderServer(url, format, desk, model)


_START = 10.0
"""So long a server may take to start, in seconds."""


@contextmanager
def serving(app: ASGIApp) -> Iterator[str]:
    """Serve an application in a thread of its own; gives its address, for example ``http://127.0.0.1:40123``.

    Args:
        app: The application.

    Raises:
        TimeoutError: If it does not start within ten seconds.
    """
    listening = socket.socket(proto=socket.IPPROTO_TCP)  # asyncio asks for that to send small pieces at once
    listening.bind(("127.0.0.1", 0))
    settings = uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1, ws="none")
    server = uvicorn.Server(settings)
    thread = Thread(target=server.run, args=([listening],), name="agentctx-server", daemon=True)
    thread.start()
    try:
        _wait_for(server)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def _wait_for(server: uvicorn.Server) -> None:
    late = monotonic() + _START
    while not server.started:
        if monotonic() > late:
            msg = f"the server did not start within {_START} seconds"
            raise TimeoutError(msg)
        sleep(0.005)


def _is_no_cut(record: logging.LogRecord) -> bool:
    """Whether uvicorn says something else than that an answer was cut, which is done on purpose."""
    return "without completing response" not in record.getMessage()


def _said(answer: Scripted) -> Said:
    """An entry of the script as the servers take answers."""
    if isinstance(answer, ServerFault):
        answer = answer.answer or assistant()
    message = answer if isinstance(answer, Message) else assistant(str(answer))
    thoughts = [part.text for part in message.parts if isinstance(part, Thinking)]
    return Said(
        "\n".join(part.text for part in message.parts if isinstance(part, Text)),
        tuple((call.name, json_object(call.arguments)) for call in message.calls),
        "\n".join(thoughts) if thoughts else None,
    )


@frozen(eq=False)
class _Scripted:
    """An application that fails where the script says so, and answers by another one else."""

    app: ASGIApp
    model: ScriptedModel

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["method"] != "POST" or "count" in scope["path"].rpartition("/")[2].lower():  # which asks no model
            await self.app(scope, receive, send)
            return
        entry = self.model.next
        if entry is None:
            try:
                self.model.take()
            except AssertionError as error:
                await _refusal(self.model.format, 500, str(error))(scope, receive, send)
            return
        fault = entry if isinstance(entry, ServerFault) else None
        if fault is not None and fault.answer is None:
            self.model.take()
        if fault is not None and fault.kind == "status":
            await _refusal(self.model.format, fault.status, None, fault.retry_after)(scope, receive, send)
        elif fault is not None and fault.kind == "hang":
            while (await receive())["type"] != "http.disconnect":
                pass
        else:
            cut = _Cut(send, fault.after) if fault is not None and fault.kind == "cut stream" else send
            token = fault_of_the_request.set(fault)
            try:
                await self.app(scope, receive, cut)
            finally:
                fault_of_the_request.reset(token)


class _Cut:
    """Sends the beginning of a response and no end of it: the connection is closed then."""

    def __init__(self, send: Send, after: int) -> None:
        self._send, self._left, self._streams = send, after, False

    async def __call__(self, message: Piece) -> None:
        """Send a message, or half of it, or nothing."""
        body = message.get("body", b"")
        if message["type"] != "http.response.body":
            await self._send(message)
            return
        self._streams = self._streams or message.get("more_body", False)
        if body and self._left > 0:
            self._left -= 1
            piece = body if self._streams else body[: len(body) // 2]
            await self._send({**message, "body": piece, "more_body": True})


_KINDS = {
    429: ("rate_limit_error", "rate_limit_exceeded", "RESOURCE_EXHAUSTED", "ThrottlingException"),
    500: ("api_error", None, "INTERNAL", "InternalServerException"),
    503: ("api_error", None, "UNAVAILABLE", "ServiceUnavailableException"),
    529: ("overloaded_error", None, "UNAVAILABLE", "ServiceUnavailableException"),
}
_WORDS = {
    429: "Rate limit reached: too many requests. Please wait and try again.",
    500: "The server had an error while processing your request. Please try again.",
    503: "The service is temporarily unavailable. Please try again.",
    529: "Overloaded",
}


def _refusal(format: str, status: int, words: str | None, retry_after: float | None = None) -> JSONResponse:  # noqa: A002
    """An error that is not the request's, as the provider writes it."""
    kind, code, google, aws = _KINDS.get(status, _KINDS[500])
    said = words or _WORDS.get(status, _WORDS[500])
    headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    if format == "anthropic":
        told = {"type": "error", "error": {"type": kind, "message": said}, "request_id": "req_1"}
    elif format == "gemini":
        told = {"error": {"code": status, "message": said, "status": google}}
    elif format == "bedrock":
        told, headers = {"message": said}, {**headers, "x-amzn-ErrorType": aws}
    else:
        named = "server_error" if code is None else "requests"
        told = {"error": {"message": said, "type": named, "param": None, "code": code}}
    return JSONResponse(told, status, headers)
