"""Cut the long arguments of old edits and writes: what was written can be read again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import repeat
from typing import ClassVar

from attrs import field, frozen

from agentctx.core.message import Context, Message, ToolCall, ToolResult
from agentctx.core.pace import paced
from agentctx.engine.cut import left_whole
from agentctx.engine.options import as_names, check_whole
from agentctx.engine.shrink import argument_cut, cut_arguments
from agentctx.engine.tool_calls import Did, FileEvent, how_it_ended, read_calls
from agentctx.protocols import Call, Scope, Stage, whole_text


def _names(tools: Iterable[str]) -> frozenset[str]:
    return as_names("ShrinkArguments: tools must be a list of tool names", tools)


@frozen
class ShrinkArguments(Stage):
    """Cut the long arguments of old calls that edited or wrote files to head and tail, oldest first until it fits.

    What was written stands in the file, and can be read again; a call that failed, or was not answered, stays, and so
    do signed ones. Arguments stay valid JSON of the same shape. Without a budget all calls but the last ``keep_last``
    are cut; with one no more than must be, and none of the newest round while that takes no more than half of the room.
    Where the pipeline has a store and the request the recall tool
    (``Recall``), the marker names the handle of the whole message.

    Args:
        keep_last: How many edits and writes, counted from the end, stay as they are.
        max_tokens: Tokens; of a longer string head and tail stay.
        tools: Names of tools of one's own whose calls are cut, too, whatever they do.

    Raises:
        ConfigError: If an option makes no sense.

    Example:
        >>> import json
        >>> from agentctx import Pipeline
        >>> from agentctx.strategies import ShrinkArguments
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> text = {"path": "app.py", "content": "a line of the program " * 200}
        >>> messages = transcript(
        ...     "openai-chat", user("Write it."), assistant(call("a", "write", text)), result("a", "written"),
        ...     assistant("Done."), user("Go on."))
        >>> view = await Pipeline(ShrinkArguments(keep_last=0, max_tokens=30)).prepare(messages)
        >>> arguments = json.loads(view.messages[1]["tool_calls"][0]["function"]["arguments"])
        >>> arguments["path"], len(arguments["content"]) < 200
        ('app.py', True)
    """

    keep_last: int = 5
    max_tokens: int = field(default=100, kw_only=True)
    tools: frozenset[str] = field(default=frozenset(), converter=_names, kw_only=True)
    scope: ClassVar[Scope] = Scope.PRESSURE

    def __attrs_post_init__(self) -> None:
        """Check the options."""
        check_whole("ShrinkArguments: keep_last", self.keep_last, 0)
        check_whole("ShrinkArguments: max_tokens", self.max_tokens, 1)

    def effort(self, context: Context, call: Call, /) -> Iterable[int]:
        """It reads calls and what they were answered, and no more text without a budget."""
        return repeat(0, len(context.messages)) if call.limit is None else whole_text(context, call)

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context with the long arguments of old edits and writes cut."""
        spare = None if call.limit is None else call.size(context) - call.limit
        if spare is not None and spare <= 0:
            return context
        spare = None if spare is None else spare + call.reserved
        old = self._old(context.messages, call.unread(context))
        staying = call.protected(context) | left_whole(context, call)
        messages = list(context.messages)
        for index in paced(sorted(old.keys() - staying)):
            if spare is not None and spare <= 0:
                break
            before = messages[index]
            made = self._cut(before, old[index], call)
            if (less := call.count(before) - call.count(made)) > 0:
                messages[index] = made
                call.note(before, f"arguments of edits and writes before the last {self.keep_last}")
                spare = None if spare is None else spare - less
        return context.with_messages(tuple(messages))

    def _old(self, messages: Sequence[Message], unread: Collection[int]) -> dict[int, set[int]]:
        """The calls to cut, by the index of their message and identity."""
        ended = {
            id(each.call)
            for each in read_calls(messages)
            if each.result is not None and not _failed(each.result) and self._writes(each.did, each.call)
        }
        late = {result.call_id for index in unread for result in messages[index].results}
        found = [
            (index, id(part))
            for index, message in paced(enumerate(messages))
            for part in message.calls
            if id(part) in ended and part.id not in late
        ]
        old: dict[int, set[int]] = {}
        for index, identity in found[: max(0, len(found) - self.keep_last)]:
            old.setdefault(index, set()).add(identity)
        return old

    def _writes(self, did: Iterable[object], call: ToolCall) -> bool:
        changes = (each.did for each in did if isinstance(each, FileEvent) and each.did.changes)
        return call.name in self.tools or any(each is not Did.FAILED for each in changes)

    def _cut(self, message: Message, old: Collection[int], call: Call) -> Message:
        return cut_arguments(message, argument_cut(message, self.max_tokens, call), lambda part: id(part) in old)


def _failed(result: ToolResult) -> bool:
    """Whether a result says that its command failed; in some formats only its words do."""
    return how_it_ended(result.text, is_error=result.is_error).startswith("exit")
