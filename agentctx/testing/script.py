"""A model whose answers are written down before, for agent loops without a provider and for local servers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any, Literal, Self, get_args

import anyio.lowlevel
from attrs import define, field, frozen

from agentctx.core.message import Native
from agentctx.errors import ConfigError
from agentctx.providers.registry import format_named
from agentctx.testing.writers import Turn, assistant, transcript

Kind = Literal["status", "hang", "cut stream", "overflow", "silent truncation"]


@frozen
class ServerFault:
    """What a local server does in the place of an answer, or to it: an entry of its script.

    It is made by ``rate_limit``, ``server_error``, ``hang``, ``cut_stream``, ``overflow`` and ``silent_truncation``.

    Args:
        kind: What goes wrong.
        status: The HTTP status of an error.
        retry_after: Seconds that the server asks to wait.
        after: Pieces of a stream that are sent before it is cut; of an answer that is no stream, half is.
        tokens: What a prompt is cut down to without a word.
        answer: What the model says all the same.

    Raises:
        ConfigError: If it is none that a server has: a status below 400, say.

    Example:
        >>> from agentctx.testing import ServerFault
        >>> ServerFault.rate_limit(retry_after=2).status
        429
    """

    kind: Kind
    status: int = 500
    retry_after: float | None = None
    after: int = 1
    tokens: int = 0
    answer: Turn | None = None

    def __attrs_post_init__(self) -> None:
        """Refuse what no server does."""
        least = {"status": 400, "after": 0, "tokens": 1 if self.kind == "silent truncation" else 0}
        for option, low in least.items():
            value = getattr(self, option)
            if type(value) is not int or value < low:
                msg = f"ServerFault: {option} is {value!r:.80}; it is a whole number, at least {low}"
                raise ConfigError(msg)
        if self.kind not in get_args(Kind):
            msg = f"ServerFault: kind is {self.kind!r:.80}; it is one of {', '.join(get_args(Kind))}"
            raise ConfigError(msg)
        if self.retry_after is not None and not (isinstance(self.retry_after, int | float) and self.retry_after >= 0):
            msg = f"ServerFault: retry_after is {self.retry_after!r:.80}; it is a number of seconds, at least 0"
            raise ConfigError(msg)

    @classmethod
    def rate_limit(cls, retry_after: float | None = None) -> Self:
        """Refuse the request with status 429: there were too many.

        Args:
            retry_after: Seconds that the server asks to wait; None: it does not say.

        Raises:
            ConfigError: If it is negative.
        """
        return cls("status", 429, retry_after)

    @classmethod
    def server_error(cls, status: int = 500) -> Self:
        """Refuse the request with status 500, or another above it: 503, or Anthropic's 529."""
        return cls("status", status)

    @classmethod
    def hang(cls) -> Self:
        """Say nothing until the client gives up."""
        return cls("hang")

    @classmethod
    def cut_stream(cls, answer: str | Turn = "This answer ends in the middle.", after: int = 1) -> Self:
        """Close the connection in the midst of the answer.

        Args:
            answer: What the model begins to say.
            after: Pieces of the stream that are sent before; of an answer that is no stream, half is.

        Raises:
            ConfigError: If ``after`` is no whole number, or negative.
        """
        return cls("cut stream", after=after, answer=_turn(answer))

    @classmethod
    def overflow(cls) -> Self:
        """Refuse the request as larger than the window, in the provider's words: for a window a tenth smaller."""
        return cls("overflow")

    @classmethod
    def silent_truncation(cls, tokens: int, answer: str | Turn = "Done.") -> Self:
        """Answer, having read no more than ``tokens`` of the prompt, which only the usage tells; Ollama does so.

        Args:
            tokens: What the prompt is cut down to, at least 1.
            answer: What the model says all the same.

        Raises:
            ConfigError: If ``tokens`` is no whole number, or below 1.
        """
        return cls("silent truncation", tokens=tokens, answer=_turn(answer))


Scripted = str | Turn | Exception | ServerFault
"""An entry of a script: what the model says, an error that is raised, or what a server does wrong."""


def _listed(answers: Native) -> tuple[Scripted, ...]:
    if isinstance(answers, (str, Turn, Exception, ServerFault)):
        return (answers,)
    if not isinstance(answers, Iterable):
        msg = f"ScriptedModel: answers: expected texts, assistant(...), exceptions or faults, got {answers!r:.80}"
        raise ConfigError(msg)
    return tuple(answers)


@define(eq=False)
class ScriptedModel:
    """A model that gives answers of a list, one a call, and remembers what it was asked.

    A call takes the messages that are to be sent, and gives back what to put behind them.

    Args:
        answers: In order: texts, ``assistant(...)`` turns with ``call(...)`` and ``thinking(...)``, or exceptions,
            which are raised. In the script of a server: a ``ServerFault`` in the place of an exception.
        format: The format of the messages.
        requests: What it was asked, in order: requests with messages and tools, as they were then.

    Raises:
        AssertionError: When it is asked more often than there are answers.
        ConfigError: If an answer is none of these, or the format is not known.

    Example:
        >>> from agentctx import Pipeline
        >>> from agentctx.testing import ScriptedModel, assistant, call, result, transcript, user
        >>> model = ScriptedModel([assistant(call("c1", "read", {"path": "a.py"})), "It is empty."])
        >>> session, messages = Pipeline(budget=8_000).session(), transcript("openai-chat", user("What is in a.py?"))
        >>> messages += await model((await session.prepare(messages)).messages)
        >>> messages += transcript("openai-chat", result("c1", ""))
        >>> messages += await model((await session.prepare(messages)).messages)
        >>> messages[-1]["content"]
        'It is empty.'
        >>> model.assert_complete()
    """

    answers: tuple[Scripted, ...] = field(converter=_listed)
    format: str = "openai-chat"
    requests: list[dict[str, Native]] = field(factory=list, init=False, repr=False)
    _taken: int = field(default=0, init=False)
    _beyond: int = field(default=0, init=False)

    @answers.validator
    def _check_answers(self, _attribute: Native, value: tuple[object, ...]) -> None:
        wrong = next((each for each in value if not isinstance(each, (str, Turn, Exception, ServerFault))), None)
        if wrong is not None:
            msg = f"ScriptedModel: answers: expected texts, assistant(...), exceptions or faults, got {wrong!r:.80}"
            raise ConfigError(msg)

    def __attrs_post_init__(self) -> None:
        """Check the format."""
        format_named(self.format)

    async def __call__(self, messages: Sequence[Native], tools: Native = None) -> list[Any]:
        """The next answer, as messages of the format."""
        key = format_named(self.format).messages_key
        told = {} if tools is None else {"tools": deepcopy(tools)}
        self.requests.append({key: deepcopy(list(messages)), **told})
        await anyio.lowlevel.checkpoint()
        answer = self.take()
        if isinstance(answer, ServerFault):
            msg = f"ScriptedModel: {answer.kind} is what a server does: use provider_server, or an exception here"
            raise ConfigError(msg)
        if isinstance(answer, Exception):
            raise answer
        return transcript(self.format, _turn(answer))

    @property
    def next(self) -> Scripted | None:
        """What comes next; None at the end."""
        return self.answers[self._taken] if self._taken < len(self.answers) else None

    def take(self) -> Scripted:
        """What comes next, which is done with then.

        Raises:
            AssertionError: At the end.
        """
        answer = self.next
        if answer is None:
            self._beyond += 1
            raise AssertionError(self.beyond)
        self._taken += 1
        return answer

    @property
    def beyond(self) -> str:
        """What is said when it is asked beyond the end."""
        return f"the script has {len(self.answers)} answers, and the model was asked once more"

    def assert_complete(self) -> None:
        """See that each answer was asked for, and none beyond them.

        Raises:
            AssertionError: If not.
        """
        if self._beyond:
            asked = len(self.answers) + self._beyond
            msg = f"the script has {len(self.answers)} answers, and the model was asked {asked} times"
            raise AssertionError(msg)
        if self.next is not None:
            left = len(self.answers) - self._taken
            msg = f"{left} of {len(self.answers)} answers were not asked for, from this one on: {self.next!r:.200}"
            raise AssertionError(msg)


def _turn(answer: str | Turn) -> Turn:
    return assistant(answer) if isinstance(answer, str) else answer
