"""Stages that rewrite each result: shorten it to head and tail, or hand its text to a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from operator import is_not
from typing import ClassVar, get_args

from attrs import evolve, field, frozen

from agentctx.engine.shrink import (
    Cut,
    Keep,
    answered_calls,
    cut_to_chars,
    cut_to_tokens,
    edit_results,
    edited,
    results_of,
    with_text,
)
from agentctx.json_text import compact, may_be_json, tabulate
from agentctx.marks import joined, written_out
from agentctx.message import Context, Message, Part, Text, ToolCall, ToolResult
from agentctx.protocols import Call, ContextStrategy, TextCutter, TokenCounter, When, cutter_of, library_stage
from agentctx.validators import NAMES, as_names, function, must_be, one_of, template, whole_number

Pointer = Callable[[], str]
"""Says how to get the whole result back, for a text that leaves something out."""

AnsweredCall = Callable[[], ToolCall | None]
"""Says which call a result answers, if that is to be seen."""


@library_stage
@frozen
class RewriteResults(ContextStrategy):
    """What such a stage says of itself: derive from it, and say what a text shall be instead (``rewritten``).

    A text is put in another's place only where the counter says that the result has fewer tokens then.
    """

    exclude: frozenset[str] = field(default=frozenset(), converter=as_names, validator=NAMES, kw_only=True)
    when: ClassVar[When] = When.ON_ARRIVAL
    why: ClassVar[str] = "the same in fewer tokens"
    of_objects: ClassVar[bool] = True
    """Whether it says more of an object than how that is spelled as JSON, which some formats do not send."""

    def concerns_text(self, _text: str, /) -> bool:
        """Whether a glance cannot rule out that it has to do with a text."""
        return True

    def rewritten(self, text: Text, call: Call, pointer: Pointer, asked: AnsweredCall, /) -> Text:
        """What a text shall be instead; itself where it stays."""
        raise NotImplementedError

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context with the texts rewritten."""
        frozen, stay = call.frozen(context), self.excluded(context)
        places = [
            at
            for at, each in enumerate(context.messages)
            if at not in frozen and each.results and any(map(self.concerns_text, _texts(each)))
        ]

        @cache
        def calls() -> Mapping[int, ToolCall | None]:
            return {id(result): asked for _, result, asked in answered_calls(context.messages)}

        def rewrite(_index: int, message: Message) -> Message:
            return edit_results(message, lambda part: part if id(part) in stay else result_of(message, part))

        def result_of(message: Message, part: ToolResult) -> ToolResult:
            return self.shorter(message, part, call, lambda: calls().get(id(part)))

        return edited(context, places, rewrite, call, self.why)

    def excluded(self, context: Context) -> frozenset[int]:
        """The identities of the results that stay, by the names of their tools."""
        if not self.exclude:
            return frozenset()
        found = results_of(context.messages)
        return frozenset(id(result) for _, result, tool in found if (result.name or tool) in self.exclude)

    def shorter(self, message: Message, result: ToolResult, call: Call, asked: AnsweredCall) -> ToolResult:
        """A result with its texts rewritten; itself where that is not shorter."""
        parts = [self._part(part, call, lambda: call.pointer(message, result), asked) for part in result.content]
        if not any(map(is_not, parts, result.content)):
            return result
        made = result.with_content(tuple(parts))
        return made if call.meter.parts((made,)) < call.meter.parts((result,)) else result

    def _part(self, part: Part, call: Call, pointer: Pointer, asked: AnsweredCall) -> Part:
        if not isinstance(part, Text) or not self.concerns_text(part.text):
            return part
        if not self.of_objects and call.wire is not None and call.wire.is_object(part):
            return part
        made = self.rewritten(part, call, pointer, asked)
        count = call.meter.counter.count
        return part if made == part or not made.text.strip() or count(made.text) >= count(part.text) else made


def _texts(message: Message) -> Iterable[str]:
    return (part.text for result in message.results for part in result.content if isinstance(part, Text))


@library_stage
@frozen
class CompactJson(RewriteResults):
    """Leave out the blanks between the tokens of tool results that are JSON, when they arrive.

    Lossless: only blanks go, so numbers, the order of keys, repeated keys and escapes are as they were, byte for byte.
    A result is JSON when all of it is one object or array, or each of its lines is. It changes only where the
    tokenizer says that it gets smaller.

    Args:
        exclude: Names of tools whose results stay, such as one by which the model reads a file that it then edits.

    Raises:
        ConfigError: If ``exclude`` has anything but names.

    Example:
        >>> from agentctx import Pipeline
        >>> from agentctx.strategies import CompactJson
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> turns = user("Look."), assistant(call("a", "get")), result("a", '{"price": 1.10, "seats": [1, 2, 3, 4]}')
        >>> (await Pipeline(CompactJson()).prepare(transcript("openai-chat", *turns))).messages[2]["content"]
        '{"price":1.10,"seats":[1,2,3,4]}'
    """

    why: ClassVar[str] = "blanks left out of JSON"
    of_objects: ClassVar[bool] = False

    def concerns_text(self, text: str, /) -> bool:
        """Whether it begins as JSON does."""
        return may_be_json(text)

    def rewritten(self, text: Text, _call: Call, _pointer: Pointer, _asked: AnsweredCall, /) -> Text:
        """The text without blanks, if it is JSON."""
        return evolve(text, text=compact(text.text))


@library_stage
@frozen
class TabulateJson(RewriteResults):
    """Say the keys of objects of one shape once in tool results that are JSON, then a row of values each.

    Arrays of such objects become tables, and objects of such objects, when they arrive; a line above says so. Values
    stay as they were written, and ``untabulate`` (``agentctx.json_text``) gives the document back,
    but for its blanks. A result changes only where the tokenizer says that it gets smaller, the line included.

    Args:
        exclude: Names of tools whose results stay, such as one by which the model reads a file that it then edits.

    Raises:
        ConfigError: If ``exclude`` has anything but names.

    Example:
        >>> import json
        >>> from agentctx import Pipeline
        >>> from agentctx.strategies import TabulateJson
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> seats = [{"seat": f"{row}A", "free": row < 3, "price": 99.5} for row in range(1, 9)]
        >>> turns = user("Look."), assistant(call("a", "get")), result("a", json.dumps(seats))
        >>> view = await Pipeline(TabulateJson()).prepare(transcript("openai-chat", *turns))
        >>> print(view.messages[2]["content"])
        [JSON]
        [{seat,free,price=99.5}
        1A,true
        2A,true
        ...
        8A,false]
    """

    why: ClassVar[str] = "JSON in tables, without quotes"

    def concerns_text(self, text: str, /) -> bool:
        """Whether it begins as JSON does, and has a string."""
        return may_be_json(text) and '"' in text

    def rewritten(self, text: Text, _call: Call, _pointer: Pointer, _asked: AnsweredCall, /) -> Text:
        """The text with tables, if it is JSON with objects of one shape, and without quotes that need not be."""
        return evolve(text, text=tabulate(text.text))


TOLD = 0.4
"""So much of what may stay of a result is for what is told of the rest."""

_TOLD = "[in them: {}]\n"

Tell = Callable[[str, str, int, TokenCounter], str]
"""What is told of a text of which only something stays, in at most so many tokens."""


@library_stage
@frozen
class TruncateToolOutputs(ContextStrategy):
    """Cut the text of each tool result to at most ``max_tokens`` tokens or ``max_chars`` characters.

    Exact, in whole grapheme clusters, and idempotent: what was cut once is not cut again. Images and blocks that
    are not text stay. Give one limit, or both to keep both. Where the pipeline has a store and the request the recall
    tool (``Recall``), the marker names the handle by which the model gets the whole output back.

    Args:
        max_tokens: The most tokens of one result, marker included.
        max_chars: The most characters of one result, marker included.
        keep: Which end stays: ``"head"``, ``"tail"`` or ``"both"``.
        marker: What stands where text was left out; ``{omitted}`` becomes the number of characters.
        tell: Says in a line behind the marker what was left out, in two fifths of ``max_tokens`` at most: a function
            of the text, what stays of it, the most tokens and the counter, such as ``agentctx.strategies.told_of``.

    Raises:
        ConfigError: If there is no limit, or one below 1, or ``keep`` is unknown.

    Example:
        >>> from agentctx import Pipeline, TruncateToolOutputs
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> turns = user("Read it."), assistant(call("a", "read")), result("a", "0123456789" * 99)
        >>> messages = transcript("openai-chat", *turns)
        >>> view = await Pipeline(TruncateToolOutputs(max_chars=60, keep="head")).prepare(messages)
        >>> print(view.messages[2]["content"])
        0123456789...
        [… ... characters omitted …]
    """

    max_tokens: int | None = field(default=None, validator=whole_number(1).or_none)
    max_chars: int | None = field(default=None, validator=whole_number(1).or_none, kw_only=True)
    keep: Keep = field(default="both", validator=one_of(get_args(Keep)), kw_only=True)
    marker: str = field(default=Cut().marker, validator=template("omitted"), kw_only=True)
    tell: Tell | None = field(default=None, validator=function("a function, such as told_of").or_none, kw_only=True)
    when: ClassVar[When] = When.ON_ARRIVAL

    def __attrs_post_init__(self) -> None:
        """Check that there is a limit, and one in tokens where a line is told."""
        if self.max_tokens is None and (self.max_chars is None or self.tell is not None):
            wanted = "a number of tokens where max_chars is None, or tell is not"
            raise must_be("TruncateToolOutputs.max_tokens", wanted, self.max_tokens)

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context with long tool outputs cut."""
        frozen, cutter = call.frozen(context), cutter_of(call.meter.counter)
        found = enumerate(context.messages)
        places = [at for at, each in found if at not in frozen and self._is_long(each, cutter)]
        if not places:
            return context

        plain = Cut(self.keep, self.marker)

        def cut(_index: int, message: Message) -> Message:
            return edit_results(message, lambda result: self._cut(message, result, call, plain))

        return edited(context, places, cut, call, f"tool output longer than {self._limits()}")

    def _is_long(self, message: Message, cutter: TextCutter) -> bool:
        """Whether a message has a result that is longer than it may be."""
        chars, tokens = self.max_chars, self.max_tokens
        for result in message.results:
            text = result.text
            if (chars is not None and len(text) > chars) or (tokens is not None and cutter.exceeds(text, tokens)):
                return True
        return False

    def _cut(self, message: Message, result: ToolResult, call: Call, plain: Cut) -> ToolResult:
        text = joined(result)
        shorter = self._shorter(text, call, plain)
        if shorter == text:
            return result
        how = plain.pointing(call.pointer(message, result))
        if self.tell is not None and self.max_tokens is not None:
            how = _telling(self.tell, text, self.max_tokens, how, call.meter.counter)
        return with_text(result, shorter if how is plain else self._shorter(text, call, how))

    def _shorter(self, text: Text, call: Call, cut: Cut) -> Text:
        shorter = text
        if self.max_chars is not None:
            shorter = cut_to_chars(shorter, self.max_chars, cut)
        if self.max_tokens is not None:
            shorter = cut_to_tokens(shorter, self.max_tokens, call.meter.counter, cut)
        return shorter

    def _limits(self) -> str:
        limits = ((self.max_tokens, "tokens"), (self.max_chars, "characters"))
        return " and ".join(f"{limit:,} {unit}" for limit, unit in limits if limit is not None)


def _telling(tell: Tell, text: Text, tokens: int, how: Cut, counter: TokenCounter) -> Cut:
    """The cut with a line behind its marker that says what is left out, where there is something to tell."""
    room = int(TOLD * tokens)
    staying = cut_to_tokens(text, tokens - room, counter, how)
    told = tell(written_out(text), written_out(staying), room - counter.count(_TOLD), counter)
    return evolve(how, told=_TOLD.format(told)) if told else how
