"""What every local server does with a request before it answers in its provider's words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count as count_up
from typing import Any, Literal

import anyio
from attrs import define, field, frozen
from starlette.requests import Request

from agentctx.checking import count, validate

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
    """

    text: str = "Done."
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    thinking: str | None = None

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
    system: Any = None
    tools: Any = None
    model: str | None = None
    room: int = 0
    wrong: str | None = None


@frozen
class Verdict:
    """What a server thinks of a request.

    Args:
        tokens: Its size.
        wrong: The provider's words about the first rule that it breaks; None when it breaks none.
        too_large: Whether it is larger than the window.
    """

    tokens: int
    wrong: str | None
    too_large: bool


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
    """

    window: int = 1_000_000
    answer: Callable[[Mapping[str, Any]], Said] = field(default=lambda _body: Said(), repr=False)
    refuses: Refusal = "status"
    overflows: int = 0
    pause: float = 0.0
    requests: list[Mapping[str, Any]] = field(factory=list, repr=False)
    accepted: list[Mapping[str, Any]] = field(factory=list, repr=False)
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
            return Verdict(0, wrong, too_large=False)
        size = count(asked.messages, asked.model, asked.tools, asked.system, asked.format)
        too_large = self.overflows > 0 or size + asked.room > self.window
        self.overflows = max(0, self.overflows - 1)
        if not too_large:
            self.accepted.append(body)
        return Verdict(size, None, too_large)


async def body_of(request: Request) -> dict[str, Any]:
    """The object that a request holds; an empty one when it holds none, so that something required is missing."""
    try:
        body = await request.json()
    except json.JSONDecodeError:
        return {}
    return body if isinstance(body, dict) else {}
