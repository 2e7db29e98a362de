"""The size of requests: counters of text, and what a message costs beside its text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from inspect import iscoroutine, iscoroutinefunction
from math import ceil
from operator import index
from threading import Lock
from types import TracebackType
from typing import Any, SupportsIndex, cast
from weakref import WeakValueDictionary

from attrs import define, field, frozen
from attrs.validators import or_

from agentctx.characters import cluster_end_after, cluster_end_before, said_by
from agentctx.errors import AgentctxError, ConfigError
from agentctx.json_text import characters, serialise
from agentctx.lazy import lazy_pattern
from agentctx.message import (
    Context,
    Media,
    Message,
    Native,
    Opaque,
    Part,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    is_marker,
    is_marker_tool,
    without_marker,
)
from agentctx.models.profile import JSON_TOOLS, SERVER_TOOLS, SHORT_TOOLS, ImageRule, ModelProfile
from agentctx.models.table import encoding_for, percent_for
from agentctx.protocols import MessageCounter, PartCounter, TextCutter, TokenCounter, as_cutter
from agentctx.tokens.media import carried, may_be_office, may_be_text, media_tokens
from agentctx.tokens.tiktoken import TextCache, TiktokenCounter
from agentctx.users_code import MUCH_TEXT, offload
from agentctx.validators import POSITIVE, MustBe, function, must_be, whole_number
from agentctx.wire_format import TokenOverheads


def as_counter(given: object, where: str = "") -> TokenCounter | None:
    """The counter; a plain function of a text becomes one, None stays None.

    Args:
        given: What was passed.
        where: What it was passed to, for the error, if it is not asked by name.

    Raises:
        ConfigError: If it neither counts nor can be called, or is async.
    """
    if given is None:
        return None
    option = f"{where}.counter" if where else "counter"
    count = getattr(given, "count", None)
    asked = count if callable(count) else given
    if not callable(asked) or isinstance(given, (type, Sequence)):
        raise must_be(option, "a function of a text, or an object with count", given)
    if iscoroutinefunction(asked) or iscoroutinefunction(type(asked).__call__):
        raise must_be(option, "a plain function of a text, and not async", given)
    return cast("TokenCounter", given) if callable(count) else FunctionCounter(asked)


@frozen
class FunctionCounter:
    """A counter that asks a plain function of a text.

    Args:
        function: Gives the tokens of a text.
    """

    function: Callable[[str], int]

    def count(self, text: str, /) -> int:
        """The tokens of ``text``."""
        return self.function(text)


EXACT = 100
"""Hundredths: the model counts as its encoding does."""


def default_counter(model: str | None = None) -> TokenCounter:
    """The counter for a model: exact for OpenAI's, the nearest public encoding with a known correction for others.

    Without a model, and for unknown ones, that of ``o200k_base``. Neither tiktoken nor a vocabulary is loaded before
    the first count.
    """
    if model is None:
        return TiktokenCounter()
    counter, percent = TiktokenCounter(encoding_for(model)), percent_for(model)
    return counter if percent == EXACT else CalibratedCounter(counter, percent, cutter=counter)


def counter_of_texts(given: object) -> TokenCounter:
    """The counter for what counts texts alone: a caller's counter or function, that of ``o200k_base`` for None.

    Raises:
        ConfigError: If it is no counter.
    """
    counter = as_counter(given)
    return default_counter() if counter is None else _remembering(counter)


def remembering(counter: TokenCounter) -> TokenCounter:
    """The counter as one that counts each text once; itself when it does so already or counts whole messages."""
    return counter if hasattr(counter, "count_message") else _remembering(counter)


def _remembering(counter: TokenCounter) -> TokenCounter:
    ours = TiktokenCounter, CalibratedCounter, FixedCounter, HeuristicCounter, RememberingCounter
    if isinstance(counter, ours):
        return counter
    cutter = as_cutter(counter)
    return RememberingCounter(counter) if cutter is None else RememberingCutter(counter, cutter=cutter)


@frozen
class RememberingCounter:
    """A counter that asks another one about each text once.

    Args:
        counter: The counter that is asked.
    """

    counter: TokenCounter
    _cache: TextCache = field(factory=TextCache, init=False, eq=False, repr=False)

    def count(self, text: str, /) -> int:
        """The tokens of ``text``."""
        known = self._cache.get(text)
        if known is None:
            with Asking(self.counter):
                known = self.counter.count(text)
            if type(known) is not int or known < 0:
                known = whole_tokens(self.counter, known, f"a text of {len(text):,} characters")
            self._cache.put(text, known)
        return known


@frozen
class RememberingCutter(RememberingCounter):
    """The same for a counter that can cut.

    Args:
        counter: The counter that is asked.
        cutter: The same counter, as one that cuts.
    """

    cutter: TextCutter = field(kw_only=True)

    def exceeds(self, text: str, tokens: int, /) -> bool:
        """Whether ``text`` has more than ``tokens`` tokens."""
        known = self._cache.get(text)
        if known is not None:
            return known > tokens
        with Asking(self.counter):
            return self.cutter.exceeds(text, tokens)

    def head(self, text: str, tokens: int, /) -> str:
        """A longest start of ``text`` with at most ``tokens`` tokens."""
        with Asking(self.counter):
            return self.cutter.head(text, tokens)

    def tail(self, text: str, tokens: int, /) -> str:
        """A longest end of ``text`` with at most ``tokens`` tokens."""
        with Asking(self.counter):
            return self.cutter.tail(text, tokens)


def name_of_counter(counter: object) -> str:
    """What a counter is called in errors."""
    asked = counter.function if isinstance(counter, FunctionCounter) else counter
    name = getattr(asked, "__name__", None)
    return name if isinstance(name, str) else type(asked).__name__


class Asking:
    """Makes of whatever a counter raises one error that names it; the counter's own is the cause."""

    __slots__ = ("counter",)

    def __init__(self, counter: object) -> None:
        """Remember who is asked."""
        self.counter = counter

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raise ``ConfigError`` in place of what is no error of this library."""
        if isinstance(error, Exception) and not isinstance(error, AgentctxError):
            msg = (
                f"counter {name_of_counter(self.counter)} raised {said_by(error)}; "
                "a counter takes any text and gives its tokens as a whole number"
            )
            raise ConfigError(msg) from error


def whole_tokens(counter: object, tokens: object, what: str) -> int:
    """A count as a whole number of Python's own.

    Args:
        counter: What counted.
        tokens: What it gave.
        what: What it was asked for, in a few words.

    Raises:
        ConfigError: If it is no number of tokens.
    """
    if isinstance(tokens, SupportsIndex) and not isinstance(tokens, bool) and index(tokens) >= 0:
        return index(tokens)
    if iscoroutine(tokens):
        tokens.close()  # nobody waits for it
    msg = f"counter {name_of_counter(counter)}: {what} was counted as {tokens!r}; expected a whole number of tokens"
    raise ConfigError(msg)


SCRIPTS: tuple[tuple[str, str, int], ...] = (
    ("Greek", "\u0370-\u03ff\u1f00-\u1fff", 37),
    ("Cyrillic", "\u0400-\u052f", 28),
    ("Armenian, Georgian", "\u0530-\u058f\u10a0-\u10ff", 31),
    ("Hebrew, Arabic", "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff", 42),
    ("Indic", "\u0900-\u0dff", 34),
    ("Thai, Lao", "\u0e00-\u0eff", 50),
    ("Tibetan, Burmese, Khmer", "\u0f00-\u109f\u1780-\u17ff", 65),
    ("Ethiopic, Cherokee, Canadian", "\u1200-\u167f", 200),
    ("kana", "\u3040-\u30ff\uff66-\uff9f", 75),
    ("hangul", "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af", 70),
    ("Han and its punctuation", "\u3000-\u303f\u3400-\u9fff\uf900-\ufaff\uff00-\uff65\U00020000-\U000323af", 88),
    ("emoji and signs", "\u2190-\u2bff\u200d\ufe0f\U0001f000-\U0001faff", 120),
    ("other planes", "\U00010000-\U0001efff", 250),
)
"""Scripts with their characters and the tokens of 100 of them, measured with o200k_base on natural text."""

PLAIN: tuple[tuple[str, bytes, int], ...] = (
    ("upper case", bytes(range(65, 91)), 320),
    ("digits", bytes(range(48, 58)), 220),
    ("punctuation", bytes([*range(33, 48), *range(58, 65), *range(91, 97), *range(123, 127)]), 200),
    ("spaces", b" ", 40),
    ("line ends and other controls", bytes([*range(32), 127]), 320),
)
"""Characters beside small letters, with what 100 of them are worth in small letters, which go into words best.

Measured with o200k_base and cl100k_base on prose, code, JSON, logs, tables and base64. None of them occurs within a
character of more than one byte, so that they can be counted in UTF-8.
"""

_RUN = lazy_pattern("|".join(f"([{characters}]+)" for _, characters, _ in SCRIPTS))
_PER_HUNDRED = (0, *(tokens for _, _, tokens in SCRIPTS))
_CHEAPEST = min(_PER_HUNDRED[1:])
_CHEAPEST_PLAIN = min(worth for _, _, worth in PLAIN)


_CALL_TOKENS = MustBe(
    "a whole number of at least 0, or a function of a call", or_(whole_number(0), function("a function of a call"))
).or_none


@frozen
class HeuristicCounter:
    """Estimates: one token for so many small letters; capitals, digits, signs and other scripts by their own measure.

    Right within a third for prose, code, JSON, logs and base64, and within a factor of two for natural text of any
    script. Needs no vocabulary and next to no time.

    Args:
        chars_per_token: Small letters of Latin script that make one token.
        media_tokens: What each image, sound, film or document costs; None: what the provider's formula says.
        call_tokens: What each tool call costs, as a number of tokens or a function of the call; None: its name and its
            arguments as text, and what the format adds.

    Raises:
        ConfigError: If ``chars_per_token`` is not positive, or a number of tokens is negative.

    Example:
        >>> from agentctx.tokens import HeuristicCounter
        >>> HeuristicCounter(chars_per_token=4).count("Why does the build fail?")
        7
    """

    chars_per_token: float = field(default=4, validator=POSITIVE)
    media_tokens: int | None = field(default=None, validator=whole_number(0).or_none, kw_only=True)
    call_tokens: int | Callable[[ToolCall], int] | None = field(default=None, validator=_CALL_TOKENS, kw_only=True)

    def count_part(self, part: Part, /) -> int | None:
        """What a medium or a call costs by the options; None: as for any counter.

        Args:
            part: A part of a message.
        """
        if isinstance(part, Media):
            return self.media_tokens
        if not isinstance(part, ToolCall):
            return None
        return self.call_tokens(part) if callable(self.call_tokens) else self.call_tokens

    def count(self, text: str, /) -> int:
        """The estimated tokens of ``text``."""
        letters, hundredths = len(text), 0
        for run in () if text.isascii() else _RUN.finditer(text):
            length = run.end() - run.start()
            letters -= length
            hundredths += length * _PER_HUNDRED[run.lastindex or 0]
        return ceil((100 * letters + _beyond_letters(text)) / (100 * self.chars_per_token) + hundredths / 100)

    def exceeds(self, text: str, tokens: int, /) -> bool:
        """Whether ``text`` has more than ``tokens`` tokens; looks at no more of it than it must."""
        return self.count(text[: self._reach(tokens)]) > tokens

    def head(self, text: str, tokens: int, /) -> str:
        """The longest start of ``text`` with at most ``tokens`` tokens, in whole grapheme clusters."""
        near = text[: self._reach(tokens)]
        return text[: cluster_end_before(text, self._longest(near, tokens, from_end=False))]

    def tail(self, text: str, tokens: int, /) -> str:
        """The longest end of ``text`` with at most ``tokens`` tokens, in whole grapheme clusters."""
        near = text[max(0, len(text) - self._reach(tokens)) :]
        return text[cluster_end_after(text, len(text) - self._longest(near, tokens, from_end=True)) :]

    def _reach(self, tokens: int) -> int:
        """Characters that have more than ``tokens`` tokens, whatever they are."""
        return int(max(tokens, 0) * max(100 / _CHEAPEST_PLAIN * self.chars_per_token, 100 / _CHEAPEST)) + 2

    def _longest(self, text: str, tokens: int, *, from_end: bool) -> int:
        def cost(length: int) -> int:
            return self.count(text[len(text) - length :] if from_end else text[:length])

        return max(0, bisect_right(range(len(text) + 1), max(tokens, 0), key=cost) - 1)


def _beyond_letters(text: str) -> int:
    """What the plain characters of ``text`` are worth beyond as many small letters, in hundredths of one."""
    content = text.encode("utf-8", "replace")
    size = len(content)
    return sum((size - len(content.translate(None, kind))) * (worth - 100) for _, kind, worth in PLAIN)


@frozen
class FixedCounter:
    """Every message costs the same, whatever it holds; so do every text, the system prompt, and the tools together.

    Nothing else costs anything, unless a price is given for it: a request of three messages and no tools has
    ``3 * tokens`` tokens.

    Args:
        tokens: What each message costs, in tokens.
        per_part: What each part of a message adds (a text, a thought; what a tool result holds), in tokens.
        per_call: What each tool call adds, in tokens.
        per_media: What each image, sound, film or document adds, in tokens; None: what any part adds.

    Raises:
        ConfigError: If ``tokens`` is not positive, or another number is negative.

    Example:
        >>> from agentctx import count
        >>> from agentctx.tokens import FixedCounter
        >>> count([{"role": "user", "content": "Why does the build fail?"}], counter=FixedCounter(tokens=10))
        10
    """

    tokens: int = field(default=10, validator=whole_number(1))
    per_part: int = field(default=0, validator=whole_number(0))
    per_call: int = field(default=0, validator=whole_number(0))
    per_media: int | None = field(default=None, validator=whole_number(0).or_none)

    def count(self, text: str, /) -> int:
        """``tokens``, or 0 for the empty text."""
        return self.tokens if text else 0

    def count_message(self, message: Message, /) -> int:
        """``tokens``, and what its parts add.

        Args:
            message: The message.
        """
        return self.tokens + sum(map(self._added, message.parts))

    def _added(self, part: Part) -> int:
        if isinstance(part, ToolResult):
            return sum(map(self._added, part.content))
        if isinstance(part, Media):
            return self.per_part if self.per_media is None else self.per_media
        return self.per_call if isinstance(part, ToolCall) else self.per_part

    def exceeds(self, text: str, tokens: int, /) -> bool:
        """Whether ``text`` has more than ``tokens`` tokens."""
        return self.count(text) > tokens

    def head(self, text: str, tokens: int, /) -> str:
        """The whole text when it fits, else nothing of it: no shorter text costs less.

        Args:
            text: The text.
            tokens: Tokens that it may have.
        """
        return text if self.count(text) <= tokens else ""

    def tail(self, text: str, tokens: int, /) -> str:
        """The whole text when it fits, else nothing of it: no shorter text costs less.

        Args:
            text: The text.
            tokens: Tokens that it may have.
        """
        return self.head(text, tokens)


@frozen
class CalibratedCounter:
    """Another counter's count, a fixed share larger or smaller, rounded up for each text.

    Args:
        counter: The counter that is corrected; it must be able to cut, too.
        percent: What a token of ``counter`` is worth, in hundredths of the model's tokens; 120 counts a fifth more.
        cutter: The same counter, as one that cuts.
    """

    counter: TokenCounter
    percent: int = field(validator=whole_number(1))
    cutter: TextCutter = field(kw_only=True, eq=False, repr=False)

    def count(self, text: str, /) -> int:
        """The tokens of ``text``."""
        return -(-self.counter.count(text) * self.percent // 100)

    def exceeds(self, text: str, tokens: int, /) -> bool:
        """Whether ``text`` has more than ``tokens`` tokens."""
        return self.cutter.exceeds(text, self._uncorrected(tokens))

    def head(self, text: str, tokens: int, /) -> str:
        """A longest start of ``text`` with at most ``tokens`` tokens, in whole grapheme clusters."""
        return self.cutter.head(text, self._uncorrected(tokens))

    def tail(self, text: str, tokens: int, /) -> str:
        """A longest end of ``text`` with at most ``tokens`` tokens, in whole grapheme clusters."""
        return self.cutter.tail(text, self._uncorrected(tokens))

    def _uncorrected(self, tokens: int) -> int:
        return tokens * 100 // self.percent


@define(eq=False, repr=False)
class MessageMeter:
    """Counts messages and requests as a provider would, and remembers the count on the message.

    Meters with an equal counter, profile and overheads share what messages remember.

    Args:
        counter: Counts text. One that is a ``MessageCounter`` counts whole messages itself, and one that is a
            ``PartCounter`` what parts it likes, but plain text.
        profile: The model's profile: how images count, what tools add. None when no model was named.
        overheads: What the provider's format adds.
    """

    counter: TokenCounter
    profile: ModelProfile | None = None
    overheads: TokenOverheads = field(factory=TokenOverheads)
    _key: _Key = field(init=False)
    _mark: object = field(init=False)
    _whole: MessageCounter | None = field(init=False)
    _own: PartCounter | None = field(init=False)
    _image: ImageRule = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Find what goes with the format and the profile."""
        self._key = _key_of(self.counter, self.profile, self.overheads)
        self._mark = self._key.mark
        self._whole = self.counter if isinstance(self.counter, MessageCounter) else None
        asked = self.counter.counter if isinstance(self.counter, RememberingCounter) else self.counter
        self._own = asked if isinstance(asked, PartCounter) else None
        self._image = _IMAGES if self.profile is None else self.profile.image

    def message(self, message: Message, /) -> int:
        """Tokens of one message, with role, name, calls, media; counted once and remembered."""
        mark, tokens, _ = message.counted
        return tokens if mark is self._mark else self._work_out(message)[0]

    def weight(self, message: Message, /) -> int:
        """Bytes of one message; worked out once and remembered."""
        mark, _, size = message.counted
        return size if mark is self._mark else self._work_out(message)[1]

    def parts(self, parts: Sequence[Part], /) -> int:
        """Tokens of parts, without a message around them."""
        return sum(map(self._part, parts))

    def fixed(self, context: Context, /) -> int:
        """Tokens of system prompt and tools, and what every request costs."""
        system = 0 if context.system is None else self.message(context.system)
        tools = self._tools(context.tools)[0] if context.tools else 0
        return system + tools + (self.overheads.reply if self._whole is None else 0)

    def size(self, context: Context, /) -> int:
        """Tokens of a whole request: ``fixed`` and all its messages."""
        return self.fixed(context) + sum(map(self.message, context.messages))

    def bytes(self, context: Context, /) -> int:
        """Bytes of text (as UTF-8) and inline media of a whole request, without the provider's syntax around them."""
        system = 0 if context.system is None else self.weight(context.system)
        tools = self._tools(context.tools)[1] if context.tools else 0
        return system + tools + sum(map(self.weight, context.messages))

    async def settle(self, messages: Sequence[Message], /) -> None:
        """Count what was not counted yet: here when it is little, in one worker thread when it is much.

        A message that is settled costs no more than a look at it. The event loop is held for a few milliseconds at
        most (but for the first count of all, which loads the vocabulary: see ``agentctx.warmup``).
        """
        mark = self._mark
        pending = [each for each in messages if each.counted[0] is not mark]
        if pending:
            work = len(pending), characters_to_count(pending)
            await offload(lambda: [self._work_out(message) for message in pending], *work)

    def _work_out(self, message: Message) -> tuple[int, int]:
        size = sum(map(part_bytes, message.parts))
        if self._whole is not None:
            with Asking(self._whole):
                tokens = self._whole.count_message(message)
        else:
            tokens = self.overheads.message + self.counter.count(message.role) + self.parts(message.parts)
            name = _name_of(message)
            if name:
                tokens += self.overheads.name + self.counter.count(name)
        if type(tokens) is not int or tokens < 0:
            tokens = whole_tokens(self.counter, tokens, "a message")
        object.__setattr__(message, "counted", (self._mark, tokens, size))  # invisible to equality
        return tokens, size

    def _part(self, part: Part) -> int:
        """Tokens of a part: by the user's counter of parts, else by its text and the provider's formulas."""
        count = self.counter.count
        if self._own is not None and not isinstance(part, Text):
            with Asking(self._own):
                tokens = self._own.count_part(part)
            if tokens is not None:
                return tokens
        match part:
            case Text():
                return count(part.text)
            case ToolCall():
                return self.overheads.call + count(part.name) + count(part.arguments)
            case ToolResult():
                return self.overheads.result + self.parts(part.content) + count(part.name or "")
            case Thinking():
                return _hidden(part.encrypted, self.overheads.envelope) if part.encrypted else count(part.text)
            case Media():
                words = count(part.words) if part.words else 0
                return words + media_tokens(part, self._image, count)
            case Opaque():
                return 0 if is_marker(part) else max(1, self._opaque(without_marker(part.data)))

    def _opaque(self, data: object) -> int:
        """A block that is not understood: its words as text, and what it carries as what that is."""
        found = carried(data)
        media = sum(media_tokens(each, self._image, self.counter.count) for each in found.media)
        return self.counter.count(serialise(found.rest)) + media + found.encrypted

    def _tools(self, tools: tuple[Tool, ...]) -> tuple[int, int]:
        """Tokens and bytes of the tools; worked out again when they say something else than the last time."""
        seen = self._key.tools
        if seen is not None and seen[0] is tools:
            return seen[2], seen[3]
        real = tuple(tool for tool in tools if not is_marker_tool(tool))
        now: list[object] = [(tool.name, tool.description, tool.parameters, tool.source) for tool in tools]
        if seen is None or seen[1] != now:
            self._key.tools = seen = (tools, _copied(now), self._tool_tokens(real), sum(map(tool_bytes, tools)))
        return seen[2], seen[3]

    def _tool_tokens(self, tools: tuple[Tool, ...]) -> int:
        count = self.counter.count
        if not tools:
            return 0
        if self._whole is not None:
            return count("tools")
        overhead = 0 if self.profile is None else self.profile.tool_overhead
        if shows_schemas(self.overheads, self.profile):
            return overhead + json_tools(tools, count)
        old = self.profile is not None and self.profile.encoding == "cl100k_base"
        return overhead + openai_tools(tools, count, TOOL_START_CL100K if old else TOOL_START)


def _hidden(encrypted: str, envelope: int) -> int:
    """Estimate of reasoning that cannot be read, at six characters a token; never zero.

    Source: what OpenAI's usage said of the reasoning in recorded answers (``reasoning_tokens``), of 26 to 1,792 tokens.
    A summary beside it is not read by the model.
    """
    return max(1, -(-(len(encrypted) - envelope) // 6))


def _name_of(message: Message) -> str | None:
    """The participant's name, which the Chat format keeps beside role and content."""
    source = message.source
    if not isinstance(source, dict) or "name" not in source or "role" not in source or message.role == "tool":
        return None  # the name of a call's item, where a call is a message, is that of the tool
    name = source.get("name")
    return name if isinstance(name, str) else None


_IMAGES = ImageRule("openai-tiles")


class _Key:
    """What a counter, a profile and overheads share: messages remember by its mark what they were counted by."""

    __slots__ = ("__weakref__", "mark", "tools")

    def __init__(self) -> None:
        self.mark = object()
        self.tools: tuple[tuple[Tool, ...], list[object], int, int] | None = None


_keys: WeakValueDictionary[tuple[TokenCounter, ModelProfile | None, TokenOverheads], _Key] = WeakValueDictionary()
_lock = Lock()


def _key_of(counter: TokenCounter, profile: ModelProfile | None, overheads: TokenOverheads) -> _Key:
    """The key shared by all meters that count alike; one of its own for a counter without a hash."""
    try:
        with _lock:
            return _keys.setdefault((counter, profile, overheads), _Key())
    except TypeError:
        return _Key()


def _copied(value: object) -> Native:
    """Containers copied, all else shared, so that what a caller changes in place is noticed."""
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_copied, value))
    return value


Count = Callable[[str], int]

TOOL_START = 7
"""Tokens that open a tool; 10 for models on cl100k_base."""
TOOL_START_CL100K = 10
PROPERTIES_START = 3
PROPERTY = 3
ENUM_START = -3
ENUM_ITEM = 3
TOOLS_END = 12
"""Tokens that close the list of tools, once."""

_NESTED = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_CHOICES = ("anyOf", "oneOf", "allOf", "prefixItems")
_DEFINITIONS = ("$defs", "definitions", "patternProperties", "dependentSchemas")
# Told by the form itself, or not told to the model at all.
_SILENT = frozenset({"type", "description", "enum", "properties", "required", "title", "strict", "$schema", "$id"})
_KNOWN = _SILENT.union(_NESTED, _CHOICES, _DEFINITIONS)


def shows_schemas(overheads: TokenOverheads, profile: ModelProfile | None) -> bool:
    """Whether a model is shown its tools as JSON schemas: that is the model's way, whatever format they come in.

    The format's ``overheads`` decide where the model's family is not known.
    """
    if profile is not None and SHORT_TOOLS.match(profile.family):
        return False
    return bool(profile and JSON_TOOLS.match(profile.family)) or overheads.schema_as_json


def openai_tools(tools: tuple[Tool, ...], count: Count, start: int = TOOL_START) -> int:
    """Tokens of the tools in OpenAI's form; 0 for none."""
    return sum(start + _openai_tool(tool, count) for tool in tools) + (TOOLS_END if tools else 0)


def json_tools(tools: tuple[Tool, ...], count: Count) -> int:
    """Tokens of the tools where the model is shown their JSON schema; 0 for none."""
    return sum(TOOL_START + _json_tool(tool, count) for tool in tools)


def _openai_tool(tool: Tool, count: Count) -> int:
    if not tool.name:  # a server tool: nothing is known of it but its definition
        return count(serialise(without_marker(tool.source)))
    return count(f"{tool.name}:{tool.description.rstrip('.')}") + _schema(tool.parameters or {}, count)


def _json_tool(tool: Tool, count: Count) -> int:
    for kind, tokens in SERVER_TOOLS:
        if _type_of(tool).startswith(kind):
            return tokens
    if not tool.name or tool.parameters is None:
        return (
            count(serialise(without_marker(tool.source)))
            if tool.source is not None
            else count(tool.name + tool.description)
        )
    return count(tool.name) + count(tool.description) + count(serialise(tool.parameters))


def _type_of(tool: Tool) -> str:
    kind = tool.source.get("type") if isinstance(tool.source, Mapping) else None
    return kind if isinstance(kind, str) else ""


def _schema(schema: Mapping[str, Any], count: Count) -> int:
    """Tokens of a schema's insides: its properties, the schemas within it, and what else it says."""
    total = 0
    open_schemas = [schema]
    while open_schemas:
        each = open_schemas.pop()
        properties = each.get("properties")
        if isinstance(properties, Mapping) and properties:
            total += PROPERTIES_START
            for key, value in properties.items():
                body = value if isinstance(value, Mapping) else {}
                total += PROPERTY + _heading(str(key), body, count)
                open_schemas.append(body)
        for inner in _within(each):
            total += _heading("", inner, count)
            open_schemas.append(inner)
        total += sum(count(f"{key}:{_text(value)}") for key, value in each.items() if key not in _KNOWN)
    return total


def _heading(key: str, schema: Mapping[str, Any], count: Count) -> int:
    """Tokens of a schema's own line: key, type, description, and the values to choose from."""
    enum = schema.get("enum")
    choices = ENUM_START + sum(ENUM_ITEM + count(_text(item)) for item in enum) if isinstance(enum, list) else 0
    description = _text(schema.get("description", "")).rstrip(".")
    return choices + count(f"{key}:{_text(schema.get('type', '')).lower()}:{description}")


def _within(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The schemas directly within one, but for its properties."""
    yield from (schema[key] for key in _NESTED if isinstance(schema.get(key), Mapping))
    for key in _CHOICES:
        if isinstance(schema.get(key), list):
            yield from (each for each in schema[key] if isinstance(each, Mapping))
    for key in _DEFINITIONS:
        if isinstance(schema.get(key), Mapping):
            yield from (each for each in schema[key].values() if isinstance(each, Mapping))


def _text(value: object) -> str:
    return value if isinstance(value, str) else serialise(value)


_MESSAGE_CHARACTERS = 200  # what looking at a message costs, beside counting its text


def characters_to_count(messages: Iterable[Message]) -> int:
    """About how many characters have to be counted; of much text only that it is much."""
    total = 0
    for message in messages:
        total += _MESSAGE_CHARACTERS
        for part in message.parts:
            total += _characters(part)
        if total > MUCH_TEXT:
            break
    return total


def _characters(part: Part) -> int:
    """About how many characters have to be counted."""
    match part:
        case ToolCall():
            return len(part.arguments)
        case Text() | Thinking():
            return len(part.text)
        case ToolResult():
            return sum(map(_characters, part.content))
        case Opaque():
            return characters(part.data)
        case Media() if may_be_office(part):
            return MUCH_TEXT  # there may be much in a small archive
        case Media():
            return len(part.words) + (len(part.data or "") if may_be_text(part) else 0)


def part_bytes(part: Part) -> int:
    """Bytes of text (as UTF-8) and inline media."""
    match part:
        case ToolCall():
            return _utf8(part.name) + _utf8(part.arguments) + len(part.signature or "")
        case Text():
            return _utf8(part.text)
        case ToolResult():
            return sum(map(part_bytes, part.content))
        case Thinking():
            return _utf8(part.text) + len(part.signature or "") + len(part.encrypted or "")
        case Media():
            return len(part.data or "") + len(part.url or "") + _utf8(part.words)
        case Opaque():
            return _utf8(serialise(part.data))


def tool_bytes(tool: Tool) -> int:
    """Bytes of a tool definition as JSON."""
    return _utf8(serialise(tool.source if tool.source is not None else [tool.name, tool.description, tool.parameters]))


def _utf8(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
