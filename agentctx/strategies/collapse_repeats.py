"""Say once what tools said several times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import ClassVar

from attrs import field, frozen

from agentctx.core.message import Context, Message, Part, Text, ToolResult
from agentctx.engine.options import check_places
from agentctx.engine.shrink import edit_results, edited, results_of, with_content
from agentctx.errors import ConfigError
from agentctx.protocols import Call, Scope, Stage

Said = tuple[str, bool, tuple[Part, ...]]
"""The tool, whether it failed, and what it said."""


@frozen
class CollapseRepeats(Stage):
    """Of results of one tool that say exactly the same, keep the last and put a line in place of the others.

    Every call keeps its result, so that all pairs stay whole; only what is longer than the line goes. Results that
    merely begin alike are not the same. A repeated error is told to be one.

    Args:
        marker: What stands instead; ``{tool}`` becomes the tool's name, ``{what}`` "output" or "error".

    Raises:
        ConfigError: If the marker is blank, or names something else in braces.

    Example:
        >>> from agentctx import CollapseRepeats, Pipeline
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> messages = transcript(
        ...     "openai-chat", user("Watch it."), assistant(call("a", "log")), result("a", "the same line " * 30),
        ...     assistant(call("b", "log")), result("b", "the same line " * 30))
        >>> (await Pipeline(CollapseRepeats()).prepare(messages)).messages[2]["content"]
        '[the same output of log stands further down]'
    """

    marker: str = field(default="[the same {what} of {tool} stands further down]", kw_only=True)
    scope: ClassVar[Scope] = Scope.PRESSURE

    @marker.validator
    def _check(self, _attribute: object, marker: object) -> None:
        if not isinstance(marker, str) or not marker.strip():
            msg = (
                f"CollapseRepeats: marker must be text that is not blank (providers refuse blank text), got {marker!r}"
            )
            raise ConfigError(msg)
        check_places("CollapseRepeats: marker", marker, ("tool", "what"))

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context with repeated results replaced by the marker."""
        repeated = _repeated(context.messages)
        places = sorted({index for index, _ in repeated} - call.frozen(context))

        def collapsed(index: int, message: Message) -> Message:
            return self._collapsed(message, index, repeated, call)

        return edited(context, places, collapsed, call, "the same result stands further down")

    def true_at(self, messages: Sequence[Message], /) -> Collection[int]:
        """The indexes of the messages with a result that stands further down once more."""
        return {index for index, _ in _repeated(messages)}

    def _collapsed(self, message: Message, index: int, repeated: dict[tuple[int, int], str], call: Call) -> Message:
        numbers = iter(range(len(message.results)))

        def collapse(result: ToolResult) -> ToolResult:
            tool = repeated.get((index, next(numbers)))
            if tool is None:
                return result
            text = self.marker.replace("{tool}", tool).replace("{what}", "error" if result.is_error else "output")
            shorter = with_content(result, (Text(text),))
            return shorter if call.meter.parts((shorter,)) < call.meter.parts((result,)) else result

        return edit_results(message, collapse)


def _repeated(messages: Sequence[Message]) -> dict[tuple[int, int], str]:
    """The tool of each result that a later one repeats, by the message's index and the result's number in it."""
    found: dict[tuple[int, int], str] = {}
    last: dict[Said, tuple[int, int]] = {}
    seen: Counter[int] = Counter()
    for index, result, called in results_of(messages):
        place, tool = (index, seen[index]), called or result.name or "the tool"
        seen[index] += 1
        said = (tool, result.is_error, result.content)
        if said in last:
            found[last[said]] = tool
        last[said] = place
    return found
