"""What every local server does with a request before it answers in its provider's words."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from itertools import count as count_up
from struct import pack
from typing import Any, Literal, get_args
from zlib import crc32

import anyio
from attrs import define, field, frozen
from starlette.requests import Request
from starlette.responses import StreamingResponse

from agentctx.checking import count, validate
from agentctx.message import Native
from agentctx.testing.fakes import ServerFault
from agentctx.validators import NOT_NEGATIVE, function, one_of, whole_number

Refusal = Literal["status", "stream", "late"]
"""Where a server tells a streaming client that its request was too large: by the HTTP status; in the stream, before
the answer; in the stream, in the midst of the answer."""


@frozen
class Said:
    """What the model answers.

    Args:
        text: Its words.
        calls: The tools that it calls: their names and arguments.
        thinking: What it thinks before; signed by the providers that sign it, left out by the others.
        cleared: Tokens of the prompt that Anthropic's server has cleared, where the request asks for clearing.
    """

    text: str = "Done."
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    thinking: str | None = None
    cleared: int = 0

    @property
    def words(self) -> list[str]:
        """The text in pieces, as a stream sends it."""
        return [word if index == 0 else f" {word}" for index, word in enumerate(self.text.split(" "))]


@frozen
class Asked:
    """A request as a server reads it.

    Args:
        format: The wire format.
        messages: The transcript.
        system: The system prompt, where the format keeps it apart.
        tools: The tool definitions.
        model: The model's name.
        room: Tokens kept for the answer that count against the window.
        wrong: The provider's words about what is wrong with the request apart from its conversation.
    """

    format: str
    messages: Sequence[Any]
    system: Native = None
    tools: Native = None
    model: str | None = None
    room: int = 0
    wrong: str | None = None


@frozen
class Verdict:
    """What a server thinks of a request.

    Args:
        tokens: How large it is.
        wrong: Why it is refused, apart from its size.
        too_large: Whether it is refused as too large,
        window: and for which window.
    """

    tokens: int
    wrong: str | None
    too_large: bool
    window: int = 0


fault_of_the_request: ContextVar[ServerFault | None] = ContextVar("fault_of_the_request", default=None)
"""What a script has the server do wrong with the request that is being answered."""


_ANSWER = function("a function of a request's body that gives a Said")


@define
class Desk:
    """How a local server behaves, and what it has seen.

    Args:
        window: Tokens of prompt and answer that the model takes.
        answer: What the model says to a request's body.
        refuses: Where a stream tells of an overflow.
        overflows: So many requests are refused as too large whatever their size, before sizes count.
        pause: Seconds before each answer, and before each piece of a stream.
        requests: The bodies of all requests, in the order in which they came.
        accepted: Those of them that were answered.
        refused: Why others were refused, as the provider says it; one that is too large is none of them.

    Raises:
        ConfigError: If an option makes no sense.
    """

    window: int = field(default=1_000_000, validator=whole_number(1))
    answer: Callable[[Mapping[str, Any]], Said] = field(default=lambda _body: Said(), repr=False, validator=_ANSWER)
    refuses: Refusal = field(default="status", validator=one_of(get_args(Refusal)))
    overflows: int = field(default=0, validator=whole_number(0))
    pause: float = field(default=0.0, validator=NOT_NEGATIVE)
    requests: list[Mapping[str, Any]] = field(factory=list, repr=False)
    accepted: list[Mapping[str, Any]] = field(factory=list, repr=False)
    refused: list[str] = field(factory=list, repr=False)
    _ids: Iterator[int] = field(init=False, factory=lambda: count_up(1), repr=False)

    def id(self, kind: str) -> str:
        """A new id for something in an answer."""
        return f"{kind}_{next(self._ids)}"

    async def judge(self, body: Mapping[str, Any], asked: Asked) -> Verdict:
        """Write a request down, check it by the provider's rules and count it.

        Args:
            body: The request, as ``agentctx.validate`` takes it.
            asked: What was read of it.
        """
        self.requests.append(body)
        await anyio.sleep(self.pause)
        errors = [found.message for found in validate(body, asked.format, asked.model) if found.severity == "error"]
        wrong = next(iter([asked.wrong] if asked.wrong is not None else errors), None)
        if wrong is not None:
            self.refused.append(wrong)
            return Verdict(0, wrong, too_large=False)
        size = count(asked.messages, asked.model, asked.tools, asked.system, asked.format)
        too_large = self.overflows > 0 or size + asked.room > self.window
        self.overflows = max(0, self.overflows - 1)
        window, fault = self.window, fault_of_the_request.get()
        if fault is not None and fault.kind == "silent truncation":
            size, too_large = min(size, fault.tokens), False
        if fault is not None and fault.kind == "overflow":
            window, too_large = min(window, size * 9 // 10), True
        if not too_large:
            self.accepted.append(body)
        return Verdict(size, None, too_large, window)


async def body_of(request: Request) -> dict[str, Any]:
    """The object that a request holds; an empty one when it holds none, so that something required is missing."""
    try:
        body = await request.json()
    except json.JSONDecodeError:
        return {}
    return body if isinstance(body, dict) else {}


Path = tuple[str | int, ...]
"""The keys and places that lead to a value in a request."""

_MESSAGES = {"openai-chat": "messages", "openai-responses": "input", "anthropic": "messages", "gemini": "contents"}
_PARTS = {"openai-chat": "content", "anthropic": "content", "gemini": "parts"}


def unknown_field(body: Mapping[str, Any], format_name: str, *, beta: bool = False) -> Path | None:
    """Where the first field stands that the provider does not know; None when it knows all of them."""
    known = _table().get(format_name)
    return None if known is None else next(_unknown(body, format_name, known, beta=beta), None)


def _unknown(body: Mapping[str, Any], format_name: str, known: Mapping[str, Any], *, beta: bool) -> Iterator[Path]:
    top = {*known["request"], *(known.get("beta", ()) if beta else ())}
    yield from ((name,) for name in body if name not in top)
    key, parts = _MESSAGES[format_name], _PARTS.get(format_name, "")
    for path, message in _objects(body, (key,)):
        yield from _in_object(path, message, known["message"], message.get("type", "message"), message.get("role"))
        for place, part in _objects(message, (parts,)):
            yield from _in_object((*path, *place), part, known["part"], part.get("type"))


def _objects(holder: Mapping[str, Any], path: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    items = holder.get(str(path[0]))
    for place, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, Mapping):
            yield (*path, place), item


def _in_object(path: Path, item: Mapping[str, Any], known: Mapping[str, Any], *kinds: object) -> Iterator[Path]:
    """The unknown fields of an object of a known kind; what is known of all kinds stands under the empty name."""
    names = next((known[kind] for kind in (*kinds, "") if isinstance(kind, str) and kind in known), None)
    if names is not None:
        yield from ((*path, name) for name in item if name not in names)


def dotted(path: Sequence[str | int]) -> str:
    """A path as most providers write it: ``messages[0].content``."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


@cache
def _table() -> Mapping[str, Any]:
    table: Mapping[str, Any] = json.loads(files(__package__).joinpath("fields.json").read_text("utf-8"))
    return table


Event = tuple[str | None, Mapping[str, Any] | str]
"""An event's name, if it has one, and its data: an object, or a text as it stands."""


def events(of: Iterable[Event], pause: float = 0.0) -> StreamingResponse:
    """A stream of events."""

    async def sent() -> AsyncIterator[str]:
        for name, data in of:
            await anyio.sleep(pause)
            head = "" if name is None else f"event: {name}\n"
            yield f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n"

    return StreamingResponse(sent(), media_type="text/event-stream")


Sent = tuple[str, str, Mapping[str, Any]]
"""A message of a stream of AWS: whether it is an event or an exception, its name, and what it says."""


def frames(of: Iterable[Sent], pause: float = 0.0) -> StreamingResponse:
    """A stream of messages in AWS's binary form.

    Source: https://docs.aws.amazon.com/AmazonS3/latest/API/RESTSelectObjectAppendix.html.
    """

    async def sent() -> AsyncIterator[bytes]:
        for kind, name, said in of:
            await anyio.sleep(pause)
            yield _frame(kind, name, json.dumps(said).encode())

    return StreamingResponse(sent(), media_type="application/vnd.amazon.eventstream")


def _frame(kind: str, name: str, payload: bytes) -> bytes:
    """One message: lengths, headers and payload, each part with its checksum."""
    headers = {":message-type": kind, f":{kind}-type": name, ":content-type": "application/json"}
    written = b"".join(
        pack("!B", len(key)) + key.encode() + pack("!BH", 7, len(value)) + value.encode()
        for key, value in headers.items()
    )
    lengths = pack("!II", 16 + len(written) + len(payload), len(written))
    whole = lengths + pack("!I", crc32(lengths)) + written + payload
    return whole + pack("!I", crc32(whole))
