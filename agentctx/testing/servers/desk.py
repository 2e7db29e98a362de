"""What every local server does with a request before it answers in its provider's words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import anyio
from attrs import define, field, frozen

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
    """

    text: str = "Done."
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()

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
    """

    format: str
    messages: Sequence[Any]
    system: Any = None
    tools: Any = None
    model: str | None = None
    room: int = 0


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

    async def judge(self, body: Mapping[str, Any], asked: Asked) -> Verdict:
        """Write a request down, check it by the provider's rules and count it.

        Args:
            body: The request, as ``agentctx.validate`` takes it.
            asked: What was read of it.
        """
        self.requests.append(body)
        await anyio.sleep(self.pause)
        errors = [found for found in validate(body, asked.format, asked.model) if found.severity == "error"]
        if errors:
            return Verdict(0, errors[0].message, too_large=False)
        size = count(asked.messages, asked.model, asked.tools, asked.system, asked.format)
        too_large = self.overflows > 0 or size + asked.room > self.window
        self.overflows = max(0, self.overflows - 1)
        if not too_large:
            self.accepted.append(body)
        return Verdict(size, None, too_large)
