"""Each text of a tool result in fewer tokens, when it arrives: what such stages share, and those for JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from operator import is_not
from typing import ClassVar

from attrs import field, frozen

from agentctx.engine.options import as_names, library_stage
from agentctx.engine.shrink import answered_calls, edit_results, edited, results_of
from agentctx.json_text import compact, may_be_json, tabulate
from agentctx.message import Context, Message, Part, Text, ToolCall, ToolResult
from agentctx.protocols import Call, Scope, Stage

Pointer = Callable[[], str]
"""Says how to get the whole result back, for a text that leaves something out."""

AnsweredCall = Callable[[], ToolCall | None]
"""Says which call a result answers, if that is to be seen."""


def _names(exclude: Iterable[str]) -> frozenset[str]:
    return as_names("exclude must be a list of tool names", exclude)


@library_stage
@frozen
class RewriteResults(Stage):
    """What such a stage says of itself: derive from it, and say what a text shall be instead (``rewritten``).

    A text is put in another's place only where the counter says that the result has fewer tokens then.
    """

    exclude: frozenset[str] = field(default=frozenset(), converter=_names, kw_only=True)
    scope: ClassVar[Scope] = Scope.ARRIVALS
    why: ClassVar[str] = "the same in fewer tokens"
    of_objects: ClassVar[bool] = True
    """Whether it says more of an object than how that is spelled as JSON, which some formats do not send."""

    def concerns_text(self, _text: str, /) -> bool:
        """Whether a glance cannot rule out that it has to do with a text."""
        return True

    def rewritten(self, text: str, call: Call, pointer: Pointer, asked: AnsweredCall, /) -> str:
        """What a text shall be instead; itself where it stays."""
        raise NotImplementedError

    def leaves_alone(self, messages: Sequence[Message], _call: Call, /) -> bool:
        """Whether no result concerns it, at a glance."""
        for message in messages:
            for part in message.parts:
                if isinstance(part, ToolResult):
                    for said in part.content:
                        if isinstance(said, Text) and self.concerns_text(said.text):
                            return False
        return True

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
        text = self.rewritten(part.text, call, pointer, asked)
        if text == part.text or not text.strip() or call.counter.count(text) >= call.counter.count(part.text):
            return part
        return Text(text, source=part.source)


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

    def rewritten(self, text: str, _call: Call, _pointer: Pointer, _asked: AnsweredCall, /) -> str:
        """The text without blanks, if it is JSON."""
        return compact(text)


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

    def rewritten(self, text: str, _call: Call, _pointer: Pointer, _asked: AnsweredCall, /) -> str:
        """The text with tables, if it is JSON with objects of one shape, and without quotes that need not be."""
        return tabulate(text)
