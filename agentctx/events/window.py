"""How full the window is, and of what: numbers, one line of text, warnings, and what would help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import define, field, frozen

from agentctx.changes import shared
from agentctx.engine.reading import Reader, as_list, reader
from agentctx.marks import is_recap
from agentctx.message import Context, Message, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.protocols import Meter
from agentctx.reports import View

KINDS = ("system", "tools", "recap", "user", "assistant", "reasoning", "calls", "results", "other", "framing")
"""Every kind, in the order in which a picture stacks them, from below; the last is what a request costs by itself."""

_OF_PARTS: Mapping[type, str] = {Thinking: "reasoning", ToolCall: "calls", ToolResult: "results"}


def kind_of(part: Part, message: Message) -> str:
    """The kind of one part of a message."""
    if is_recap(message):
        return "recap"
    if message.is_system:
        return "system"
    if isinstance(part, Text):
        return "assistant" if message.role == "assistant" else "user"
    return _OF_PARTS.get(type(part), "other")


def tokens_by_kind(message: Message, meter: Meter) -> dict[str, int]:
    """Tokens of a message by kind; they add up to what the message costs.

    What the message itself costs beside its parts belongs to the first of them.
    """
    whole = meter.message(message)
    if not message.parts:
        return {"assistant" if message.role == "assistant" else "user": whole}
    kinds = [kind_of(part, message) for part in message.parts]
    if len(set(kinds)) == 1:
        return {kinds[0]: whole}
    found: dict[str, int] = {kinds[0]: 0}
    for kind, part in zip(kinds[1:], message.parts[1:], strict=True):
        found[kind] = found.get(kind, 0) + meter.parts((part,))
    found[kinds[0]] += whole - sum(found.values())
    return found


def main_kind(message: Message, meter: Meter) -> str:
    """The kind that most of a message is of."""
    found = tokens_by_kind(message, meter)
    return max(found, key=lambda kind: found[kind])


def tokens_of_head(context: Context, meter: Meter) -> dict[str, int]:
    """Tokens of what stands before the messages: the system prompt where it is kept apart, and the tools.

    What a request costs by itself belongs to the system prompt; without one it is framing.
    """
    whole = meter.fixed(context)
    first = "framing" if context.system is None else "system"
    system = meter.fixed(Context((), context.system, ()))
    return {first: system, "tools": whole - system} if context.tools else {first: whole}


@define
class KindSizes:
    """Tokens of requests by kind; what a request shares with the one before is not looked at again.

    Args:
        meter: Counts messages.
    """

    meter: Meter
    _messages: Sequence[Message] = field(factory=tuple, init=False)
    _sums: list[tuple[int, ...]] = field(factory=list, init=False)

    def of(self, context: Context) -> tuple[int, ...]:
        """Tokens of a request by kind, in the order of ``KINDS``."""
        messages = context.messages
        same = shared(self._messages, messages)
        del self._sums[same:]
        for message in messages[same:]:
            found = tokens_by_kind(message, self.meter)
            before = self._sums[-1] if self._sums else (0,) * len(KINDS)
            self._sums.append(tuple(sum_ + found.get(kind, 0) for sum_, kind in zip(before, KINDS, strict=True)))
        self._messages = messages
        head = tokens_of_head(context, self.meter)
        whole = self._sums[-1] if self._sums else (0,) * len(KINDS)
        return tuple(sum_ + head.get(kind, 0) for sum_, kind in zip(whole, KINDS, strict=True))


NAMES = {
    "system": "system",
    "tools": "tools",
    "recap": "recap",
    "user": "user",
    "assistant": "answers",
    "reasoning": "reasoning",
    "calls": "calls",
    "results": "results",
    "other": "other",
    "framing": "framing",
}
"""What each kind of content is called for people, in the order in which a bar stacks them."""

FULL, NEARLY_FULL = 0.95, 0.85
"""Above these shares of the limit there is a warning."""

RESULTS, CALLS, REASONING, TOOLS, SYSTEM, ONE = 0.3, 0.2, 0.2, 0.2, 0.25, 0.1
"""Above these shares of a request there is something to be said of tool results, arguments, reasoning, tool
definitions, the system prompt, and of one result alone."""

RECENT = 5
"""So many tool results are left out of what would be saved: an agent works with the last ones."""


@frozen
class ContentSize:
    """What of a request is of one kind.

    Args:
        kind: ``"system"``, ``"tools"``, ``"recap"``, ``"user"``, ``"assistant"``, ``"reasoning"``, ``"calls"``,
            ``"results"``, ``"other"`` or ``"framing"``: what a request costs by itself.
        tokens: Its size.

    Example:
        >>> from agentctx.events import ContentSize
        >>> ContentSize("results", 12_000).name
        'results'
    """

    kind: str
    tokens: int

    @property
    def name(self) -> str:
        """What it is called for people."""
        return NAMES.get(self.kind, self.kind)


@frozen
class Advice:
    """What would help against a full window.

    Args:
        what: What takes so much, in one sentence.
        stage: What would help: a stage with its options, or what to do.
        saves: Tokens that it takes off at most; 0 where that cannot be said.

    Example:
        >>> from agentctx.events import Advice
        >>> print(Advice("tool results take 61 % of the request", "ClearToolResults(keep_last=5)", 9_000))
        tool results take 61 % of the request: ClearToolResults(keep_last=5) takes off up to 9,000 tokens
    """

    what: str
    stage: str
    saves: int = 0

    def __str__(self) -> str:
        """One line."""
        return f"{self.what}: {self.stage}" + (f" takes off up to {self.saves:,} tokens" if self.saves else "")


@frozen
class Window:
    """What a request consists of, and how full the window is with it.

    Args:
        sections: What there is of each kind of content; what there is none of is left out.
        limit: The most tokens that the request could have; None without a budget.
        advice: What would help, the largest first.

    Example:
        >>> from agentctx import Pipeline
        >>> from agentctx.events import Window
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> turns = user("Read it."), assistant(call("a", "read")), result("a", "word " * 2_000)
        >>> view = await Pipeline(budget=4_000).prepare(transcript("openai-chat", *turns))
        >>> window = Window.of(view)
        >>> print(window)
        68% of 3,000 | results 99% calls 1% | 970 free
    """

    sections: tuple[ContentSize, ...]
    limit: int | None = None
    advice: tuple[Advice, ...] = ()

    @classmethod
    def of(cls, view: View, *, model: str | None = None, format: str | None = None) -> Window:  # noqa: A002 - the contract's name
        """What a prepared request consists of.

        Args:
            view: The request.
            model: The model, for its count of tokens.
            format: The wire format; found out when not given.
        """
        return Windows(model, format).of(view)

    @property
    def tokens(self) -> int:
        """The size of the request."""
        return sum(section.tokens for section in self.sections)

    @property
    def share(self) -> float:
        """The share of the limit that the request takes; 0 without one."""
        return self.tokens / self.limit if self.limit else 0.0

    @property
    def free(self) -> int:
        """Tokens that are left; 0 where there is no limit or none are."""
        return max(0, (self.limit or 0) - self.tokens)

    @property
    def warning(self) -> str:
        """What there is to say where the window is nearly full; empty where it is not."""
        if self.share > FULL:
            return f"critical: the request takes {self.share:.0%} of what is allowed"
        if self.share > NEARLY_FULL:
            return f"the request takes {self.share:.0%} of what is allowed: it will be cut soon"
        return ""

    def of_kind(self, kind: str) -> int:
        """Tokens of one kind of content."""
        return next((section.tokens for section in self.sections if section.kind == kind), 0)

    def __str__(self) -> str:
        """One line: how full, of what, how much is free."""
        whole = max(1, self.tokens)
        sections = sorted(self.sections, key=lambda section: -section.tokens)
        shares = ((section.name, f"{section.tokens / whole:.0%}") for section in sections)
        parts = " ".join(f"{name} {share}" for name, share in shares if share != "0%")
        if self.limit is None:
            return f"{short(self.tokens)} tokens | {parts}"
        return f"{self.share:.0%} of {self.limit:,} | {parts} | {short(self.free)} free"


class Windows:
    """Looks at the requests of a conversation, one after another; only what is new is counted.

    Args:
        model: The model, for its count of tokens.
        format: The wire format; found out when not given.
    """

    def __init__(self, model: str | None = None, format: str | None = None) -> None:  # noqa: A002 - the contract's name
        """Begin with nothing known."""
        self._model, self._format = model, format
        self._reader: Reader | None = None
        self._sizes: KindSizes | None = None

    def of(self, view: View) -> Window:
        """What a prepared request consists of."""
        if self._reader is None:
            given = as_list(view.messages)
            self._reader = reader(given, system=view.system, tools=view.tools, format=self._format, model=self._model)
        return self.of_context(view.context, self._reader, view.report.limit)

    def of_context(self, context: Context, read: Reader, limit: int | None) -> Window:
        """The same of a request as values, counted by a reader."""
        if self._sizes is None:
            self._sizes = KindSizes(read.meter)
        sizes = dict(zip(KINDS, self._sizes.of(context), strict=True))
        sections = tuple(ContentSize(kind, size) for kind, size in sizes.items() if size)
        return Window(sections, limit, tuple(_advice(sizes, context.messages, read)))


def short(tokens: int) -> str:
    """A number of tokens in few characters: 950, 48.2k, 1.19M."""
    if tokens < _KILO:
        return str(tokens)
    return f"{tokens / _KILO:.1f}k" if tokens < _KILO**2 else f"{tokens / _KILO**2:.2f}M"


_KILO = 1_000


def _advice(sizes: dict[str, int], messages: Sequence[Message], read: Reader) -> list[Advice]:
    """What would help, by what takes most."""
    whole = max(1, sum(sizes.values()))
    found: list[Advice] = []

    def over(kind: str, share: float) -> bool:
        return sizes[kind] > share * whole

    if over("results", RESULTS):
        found += _of_results(sizes["results"], whole, messages, read)
    if over("calls", CALLS):
        what = f"arguments of tool calls take {sizes['calls'] / whole:.0%} of the request"
        found.append(Advice(what, "ShrinkArguments()", sizes["calls"]))
    if over("reasoning", REASONING):
        what = f"reasoning takes {sizes['reasoning'] / whole:.0%} of the request"
        found.append(Advice(what, "ClearByProvider()", sizes["reasoning"]))
    if over("tools", TOOLS):
        found.append(
            Advice(f"tool definitions take {sizes['tools'] / whole:.0%} of the request", "offer fewer of them")
        )
    if over("system", SYSTEM):
        found.append(Advice(f"the system prompt takes {sizes['system'] / whole:.0%} of the request", "make it shorter"))
    return sorted(found, key=lambda advice: -advice.saves)


def _of_results(whole: int, request: int, messages: Sequence[Message], read: Reader) -> list[Advice]:
    results = [
        (place, read.meter.parts((part,)))
        for place, message in enumerate(messages)
        for part in message.parts
        if isinstance(part, ToolResult)
    ]
    old = sum(size for _, size in results[:-RECENT])
    found = []
    if old:
        what = f"tool results take {whole / request:.0%} of the request"
        found.append(Advice(what, f"ClearToolResults(keep_last={RECENT})", old))
    place, largest = max(results, key=lambda result: result[1], default=(0, 0))
    if largest > ONE * request:
        what = f"one tool result, message {place}, takes {largest / request:.0%} of the request"
        most = max(100, largest // 4 // 100 * 100)
        found.append(Advice(what, f"TruncateToolOutputs(max_tokens={most:_})", max(0, largest - most)))
    return found
