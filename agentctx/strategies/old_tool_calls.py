"""Old tool calls in fewer tokens: results cleared, long arguments cut, by a stage or by the provider."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import ClassVar, Literal

from attrs import field, frozen
from attrs.validators import in_, or_

from agentctx.engine.cut import left_whole
from agentctx.engine.shrink import (
    CLEARED,
    argument_cut,
    cleared,
    cleared_with_pointer,
    cut_arguments,
    edit_results,
    results_of,
)
from agentctx.engine.tool_calls import Did, FileEvent, how_it_ended, read_calls
from agentctx.message import Context, Message, Thinking, ToolCall, ToolResult
from agentctx.protocols import Call, ContextStrategy, When, library_stage
from agentctx.validators import NAMES, NOT_BLANK, MustBe, as_names, whole_number


class _OldestFirst(ContextStrategy):
    """What makes old calls shorter, oldest first until the request fits; without a budget all of them."""

    __slots__ = ()
    when: ClassVar[When] = When.UNDER_PRESSURE

    def _oldest_first(self, context: Context, call: Call, why: str) -> Context:
        spare = None if call.limit is None else call.size(context) - call.limit
        if spare is not None and spare <= 0:
            return context
        spare = None if spare is None else spare + call.internals.reserved
        messages, newest = list(context.messages), left_whole(context, call)
        old = {index: found for index, found in self._old(context, call).items() if index not in newest}
        for index, parts in old.items():
            if spare is not None and spare <= 0:
                break
            before = messages[index]
            messages[index] = self._shorter(before, parts, call)
            if messages[index] is not before:
                call.note(before, why)
                spare = None if spare is None else spare - call.count(before) + call.count(messages[index])
        return context.with_messages(tuple(messages))

    def _old(self, context: Context, call: Call) -> Mapping[int, Collection[int]]:
        """The identities of the old parts that may go, by the index of their message, oldest first."""
        raise NotImplementedError

    def _shorter(self, message: Message, old: Collection[int], call: Call) -> Message:
        """The message with these parts in fewer tokens; itself where they stay."""
        raise NotImplementedError


@library_stage
@frozen
class ClearToolResults(_OldestFirst):
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

    keep_last: int = field(validator=whole_number(0))
    exclude: frozenset[str] = field(default=frozenset(), converter=as_names, validator=NAMES)
    placeholder: str = field(default=CLEARED, validator=NOT_BLANK)

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context with old tool results cleared."""
        return self._oldest_first(context, call, f"older than the last {self.keep_last} tool results")

    def _old(self, context: Context, call: Call) -> dict[int, set[int]]:
        """By identity: one object may stand in many messages."""
        staying = call.frozen(context).union(call.unread(context), call.preferred(context))
        found = list(results_of(context.messages))
        old: dict[int, set[int]] = defaultdict(set)
        for index, result, tool in found[: max(0, len(found) - self.keep_last)]:
            if index not in staying and (result.name or tool) not in self.exclude:
                old[index].add(id(result))
        return old

    def _shorter(self, message: Message, old: Collection[int], call: Call) -> Message:
        def shorter(result: ToolResult) -> ToolResult:
            return self._cleared(message, result, call) if id(result) in old else result

        return edit_results(message, shorter)

    def _cleared(self, message: Message, result: ToolResult, call: Call) -> ToolResult:
        made = cleared(result, self.placeholder)
        if made is result or not (pointer := call.pointer(message, result)):
            return made
        return cleared_with_pointer(result, self.placeholder, pointer, call)


@library_stage
@frozen
class ShrinkArguments(_OldestFirst):
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

    keep_last: int = field(default=5, validator=whole_number(0))
    max_tokens: int = field(default=100, validator=whole_number(1), kw_only=True)
    tools: frozenset[str] = field(default=frozenset(), converter=as_names, validator=NAMES, kw_only=True)

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context with the long arguments of old edits and writes cut."""
        return self._oldest_first(context, call, f"arguments of edits and writes before the last {self.keep_last}")

    def _old(self, context: Context, call: Call) -> dict[int, set[int]]:
        messages, protected = context.messages, call.protected(context)
        ended = {
            id(each.call)
            for each in read_calls(messages)
            if each.result is not None and not _failed(each.result) and self._writes(each.did, each.call)
        }
        late = {result.call_id for index in call.unread(context) for result in messages[index].results}
        found = [
            (index, id(part))
            for index, message in enumerate(messages)
            for part in message.calls
            if id(part) in ended and part.id not in late
        ]
        old: dict[int, set[int]] = defaultdict(set)
        for index, identity in found[: max(0, len(found) - self.keep_last)]:
            if index not in protected:
                old[index].add(identity)
        return old

    def _writes(self, did: Iterable[object], call: ToolCall) -> bool:
        changes = (each.did for each in did if isinstance(each, FileEvent) and each.did.changes)
        return call.name in self.tools or any(each is not Did.FAILED for each in changes)

    def _shorter(self, message: Message, old: Collection[int], call: Call) -> Message:
        made = cut_arguments(message, argument_cut(message, self.max_tokens, call), lambda part: id(part) in old)
        return made if call.count(made) < call.count(message) else message


def _failed(result: ToolResult) -> bool:
    """Whether a result says that its command failed; in some formats only its words do."""
    return how_it_ended(result.text, is_error=result.is_error).startswith("exit")


_TURNS = MustBe("a whole number of at least 1, 'all' or None", or_(whole_number(1), in_(("all", None))))


@library_stage
@frozen
class ClearByProvider(ContextStrategy):
    """Ask the provider to clear old tool uses, and old reasoning, before the model reads them: Anthropic's edits.

    The request is sent whole, and ``view.options`` asks for the clearing: pass the options with the request, as in
    ``client.beta.messages.create(..., **view.options)`` (a wrapped client passes them). The messages stay as they were,
    so the provider accepts reasoning that is bound to them. The request is counted whole, too: agentctx does not
    predict how much the provider clears. Pass the ``applied_edits`` of the answer to ``session.record``: then the
    session understands a usage that is smaller than the request. Each clearing ends the cached prefix earlier.

    Results that the model has not read yet stay, and so do all uses of a tool of which one is protected. Other formats
    have no such option: there the stage does nothing. ``ReuseLines``, ``CollapseRepeats`` and ``DropSuperseded`` let
    one result refer to another, which the provider may clear: do not combine them with this stage.

    Args:
        trigger: The size of a request, in the provider's tokens, above which it clears uses of tools.
        keep: How many uses of tools, counted from the end, stay.
        at_least: Clear only if so many of the provider's tokens go at once.
        exclude: Names of tools whose uses stay.
        inputs: Whether the arguments of old calls go as well.
        thinking: How many turns of the assistant, counted from the end, keep their reasoning, or ``"all"``; None: as
            the provider does unasked. It is asked for where there is reasoning in the history, and refused in a request
            for which thinking is switched off.

    Raises:
        ConfigError: If an amount is no whole number, or too small.

    Example:
        >>> from agentctx import Pipeline
        >>> from agentctx.strategies import ClearByProvider
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> messages = transcript(
        ...     "anthropic", user("Read both."), assistant(call("a", "read")), result("a", "a line of a log " * 50),
        ...     assistant(call("b", "read")), result("b", "second"))
        >>> view = await Pipeline(ClearByProvider(trigger=200, keep=1)).prepare(messages, format="anthropic")
        >>> view.messages == messages
        True
        >>> view.options["context_management"]["edits"][0]["keep"], view.options["betas"]
        ({'type': 'tool_uses', 'value': 1}, ['context-management-2025-06-27'])
    """

    trigger: int = field(validator=whole_number(1))
    keep: int = field(validator=whole_number(0))
    at_least: int | None = field(default=None, validator=whole_number(1).or_none, kw_only=True)
    exclude: frozenset[str] = field(default=frozenset(), converter=as_names, validator=NAMES, kw_only=True)
    inputs: bool = field(default=False, kw_only=True)
    thinking: int | Literal["all"] | None = field(default=None, validator=_TURNS, kw_only=True)

    def apply(self, context: Context, call: Call, /) -> Context:
        """Ask for the clearing and return the context as it is; providers of other formats clear nothing."""
        from agentctx.formats.anthropic import Anthropic, clearing_options  # noqa: PLC0415 - for this stage alone

        if not isinstance(call.wire, Anthropic):
            return context
        messages, frozen = context.messages, call.frozen(context)
        unread = sum(len(messages[index].results) for index in call.unread(context))
        results = results_of(messages) if frozen else ()
        protected = {result.name or tool for index, result, tool in results if index in frozen}
        protected |= {each.name for index in frozen for each in messages[index].calls}
        reasons = {
            index for index, each in enumerate(messages) if any(isinstance(part, Thinking) for part in each.parts)
        }
        thinking = self.thinking if reasons else None
        call.internals.notes.asked = clearing_options(
            self.trigger,
            max(self.keep, unread),
            at_least=self.at_least,
            exclude=self.exclude.union(filter(None, protected)),
            inputs=self.inputs,
            thinking="all" if thinking is not None and not frozen.isdisjoint(reasons) else thinking,
        )
        return context
