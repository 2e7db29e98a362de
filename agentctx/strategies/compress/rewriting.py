"""Stages that put each text of a tool result into fewer tokens, when it arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from attrs import evolve, field, frozen

from agentctx.core.message import Context, Message, Part, Text, ToolResult
from agentctx.core.pace import breathe
from agentctx.engine.options import as_names
from agentctx.engine.shrink import edit_results, edited, results_of, with_content
from agentctx.protocols import Call, Scope, Stage

Pointer = Callable[[], str]
"""Says how to get the whole result back, for a text that leaves something out."""


def _names(exclude: Iterable[str]) -> frozenset[str]:
    return as_names("exclude must be a list of tool names", exclude)


@frozen
class RewriteResults(Stage):
    """What such a stage says of itself: derive from it, and say what a text shall be instead (``rewritten``).

    A text is put in another's place only where the counter says that the result has fewer tokens then.
    """

    exclude: frozenset[str] = field(default=frozenset(), converter=_names, kw_only=True)
    scope: ClassVar[Scope] = Scope.ARRIVALS
    why: ClassVar[str] = "the same in fewer tokens"

    def concerns_text(self, _text: str, /) -> bool:
        """Whether a glance cannot rule out that it has to do with a text."""
        return True

    def rewritten(self, text: str, call: Call, pointer: Pointer, /) -> str:
        """What a text shall be instead; itself where it stays."""
        raise NotImplementedError

    def effort(self, context: Context, _call: Call, /) -> Iterable[int]:
        """It reads the results that concern it."""
        return (sum(map(len, filter(self.concerns_text, _texts(message)))) for message in context.messages)

    def leaves_alone(self, messages: Sequence[Message], _call: Call, /) -> bool:
        """Whether no result concerns it, at a glance."""
        return not any(map(self.concerns_text, (text for message in messages for text in _texts(message))))

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context with the texts rewritten."""
        frozen, stay = call.frozen(context), self.excluded(context)
        places = [at for at, each in enumerate(context.messages) if at not in frozen and each.results]

        def rewrite(_index: int, message: Message) -> Message:
            return edit_results(message, lambda part: part if id(part) in stay else self._result(message, part, call))

        return edited(context, places, rewrite, call, self.why)

    def excluded(self, context: Context) -> frozenset[int]:
        """The identities of the results that stay, by the names of their tools."""
        if not self.exclude:
            return frozenset()
        found = results_of(context.messages)
        return frozenset(id(result) for _, result, tool in found if (result.name or tool) in self.exclude)

    def _result(self, message: Message, result: ToolResult, call: Call) -> ToolResult:
        parts = tuple(self._part(part, call, lambda: call.pointer(message, result)) for part in result.content)
        if all(new is old for new, old in zip(parts, result.content, strict=True)):
            return result
        shorter = with_content(result, parts)
        return shorter if call.meter.parts((shorter,)) < call.meter.parts((result,)) else result

    def _part(self, part: Part, call: Call, pointer: Pointer) -> Part:
        if not isinstance(part, Text) or not self.concerns_text(part.text):
            return part
        breathe()
        text = self.rewritten(part.text, call, pointer)
        if text == part.text or not text.strip() or call.counter.count(text) >= call.counter.count(part.text):
            return part
        return evolve(part, text=text)


def _texts(message: Message) -> Iterable[str]:
    return (part.text for result in message.results for part in result.content if isinstance(part, Text))
