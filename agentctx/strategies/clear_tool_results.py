"""Clear old tool results: observation masking."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import ClassVar

from attrs import field, frozen

from agentctx.core.message import Context, Message, ToolResult
from agentctx.core.pace import paced
from agentctx.engine.cut import left_whole
from agentctx.engine.options import as_names, check_whole
from agentctx.engine.shrink import CLEARED, cleared, cleared_with_pointer, edit_results, results_of
from agentctx.errors import ConfigError
from agentctx.protocols import Call, Scope, Stage, whole_text


def _names(exclude: Iterable[str]) -> frozenset[str]:
    return as_names("ClearToolResults: exclude must be a list of tool names", exclude)


@frozen
class ClearToolResults(Stage):
    """Replace old tool results by a placeholder, oldest first, until the budget's target is met.

    Without a budget all results but the last ``keep_last`` are replaced; with one no more than must be. The calls stay,
    so the model still sees what it did ("observation masking", Lindenbauer et al. 2025, "The Complexity Trap": as good
    as summaries for coding agents, at half the cost).

    What ``Protect.prefer`` names it leaves to the stages behind it, or to the fit guarantee: that goes last of all.

    Where the pipeline has a store and the request the recall tool (``Recall``), the placeholder names the handle by
    which the model gets the result back.

    The results of the open round stay in any case: the model has not read them yet. With a budget, so do all those of
    the newest round, while it takes no more than half of the room.

    Args:
        keep_last: How many results, counted from the end, stay as they are; 0 clears all but these.
        exclude: Names of tools whose results are never cleared.
        placeholder: What stands for a cleared result. A result that is no longer, in characters, stays.

    Raises:
        ConfigError: If ``keep_last`` is negative or the placeholder is blank (providers refuse blank text).

    Example:
        >>> from agentctx import ClearToolResults, Pipeline
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> messages = transcript(
        ...     "openai-chat", user("Read both."), assistant(call("a", "read")), result("a", "a line of a log " * 50),
        ...     assistant(call("b", "read")), result("b", "second"))
        >>> view = await Pipeline(ClearToolResults(keep_last=1)).prepare(messages)
        >>> view.messages[2]["content"], view.messages[4]["content"]
        ('[old tool result cleared]', 'second')
    """

    keep_last: int
    exclude: frozenset[str] = field(default=frozenset(), converter=_names)
    placeholder: str = CLEARED
    scope: ClassVar[Scope] = Scope.PRESSURE

    def __attrs_post_init__(self) -> None:
        """Check the options."""
        check_whole("ClearToolResults: keep_last", self.keep_last, 0)
        if not isinstance(self.placeholder, str) or not self.placeholder.strip():
            msg = f"ClearToolResults: placeholder must be text that is not blank, got {self.placeholder!r}"
            raise ConfigError(msg)

    def effort(self, context: Context, call: Call, /) -> Iterable[int]:
        """It reads text only to see how much must go."""
        return repeat(0, len(context.messages)) if call.limit is None else whole_text(context, call)

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context with old tool results cleared."""
        staying = call.frozen(context).union(call.unread(context), call.preferred(context))
        clear = self._old(context.messages, staying)
        spare = None if call.limit is None else call.size(context) - call.limit
        if spare is not None and spare > 0:
            spare += call.reserved
            newest = left_whole(context, call)
            clear = {index: results for index, results in clear.items() if index not in newest}
        messages = list(context.messages)
        for index in paced(clear):
            if spare is not None and spare <= 0:
                break
            old = messages[index]
            messages[index] = edit_results(old, partial(self._cleared, clear[index], old, call))
            if messages[index] is not old:
                call.note(old, f"older than the last {self.keep_last} tool results")
                spare = None if spare is None else spare - call.count(old) + call.count(messages[index])
        return context.with_messages(tuple(messages))

    def _old(self, messages: Sequence[Message], staying: frozenset[int]) -> dict[int, set[int]]:
        """The results to clear, by the index of their message and identity: one object may stand in many messages."""
        found = list(results_of(messages))
        old = found[: max(0, len(found) - self.keep_last)]
        clear: dict[int, set[int]] = defaultdict(set)
        for index, result, tool in old:
            if index not in staying and (result.name or tool) not in self.exclude:
                clear[index].add(id(result))
        return clear

    def _cleared(self, old: Collection[int], message: Message, call: Call, result: ToolResult) -> ToolResult:
        if id(result) not in old:
            return result
        made = cleared(result, self.placeholder)
        if made is result or not (pointer := call.pointer(message, result)):
            return made
        return cleared_with_pointer(result, self.placeholder, pointer, call)
