"""Bring a request to its size: outputs are cut to their ends or put into a store, and the history to the budget.

``RewriteResults`` is what all stages share that rewrite results one by one (``TruncateToolOutputs``, ``CompactJson``,
``TabulateJson``); ``Offload`` puts results into a store; ``FitContextWindow`` cuts in the order of ``engine/cut.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from operator import is_not
from typing import ClassVar, get_args

from attrs import evolve, field, frozen

from agentctx.budget import Budget
from agentctx.engine.cut import cut
from agentctx.engine.plan import Summarizing, as_budget
from agentctx.engine.recap import leave_out, room_for_handles, with_handles
from agentctx.engine.run_stages import Holder
from agentctx.engine.shrink import (
    OFFLOADED,
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
from agentctx.engine.summary import Asking
from agentctx.errors import NoBudget
from agentctx.formats.native import is_json
from agentctx.json_text import SHORTER, compact, may_be_json, tabulate
from agentctx.marks import joined, marked, written_out
from agentctx.message import Context, Mark, Media, Message, Part, Text, ToolCall, ToolResult
from agentctx.protocols import (
    Call,
    ContextStrategy,
    Summarizer,
    TextCutter,
    TokenCounter,
    When,
    cutter_of,
    library_stage,
    run_plain,
)
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
        return marked(text, tabulate(text.text), [Mark(SHORTER)])


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


_LOG = re.compile(r"^\W*(\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|(DEBUG|INFO|WARN(ING)?|ERROR|TRACE|FATAL)\b)", re.MULTILINE)
_CODE = re.compile(
    r"^\s*(def |class |import |from \S+ import |function |const |#include|package |func |pub )", re.MULTILINE
)
_LOOKED_AT = 20_000


@library_stage
@frozen
class Offload(Holder):
    """Put tool results over a size, or of an age, into the store; a preview with a handle stays in their place.

    The preview says what it is (JSON, log, code, text, image), how large, by which handle the recall tool (``Recall``)
    gives it back, and shows its head and tail. A result is looked at once, when it arrives; with ``older_than`` old
    ones go too, oldest first, when the context has grown too large and only until it has come down to its target.

    Without a store, without the recall tool in the request, and where the store fails it changes nothing: what nobody
    could get back is not taken away here. Put ``TruncateToolOutputs`` or ``FitContextWindow`` behind it for that case.

    Args:
        over: Tokens; a result with more text goes to the store when it arrives. None: none does.
        older_than: So many results, counted from the end, stay; older ones may go under pressure. None: none does.
        preview: The most tokens of the head and tail that stay; fewer than ``over``.
        exclude: Names of tools whose results stay.

    Raises:
        ConfigError: If an option makes no sense, or nothing is to be offloaded.

    Example:
        >>> from agentctx import Pipeline
        >>> from agentctx.recall import Recall
        >>> from agentctx.strategies import Offload
        >>> from agentctx.stores import MemoryStore
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> store = MemoryStore()
        >>> turns = user("Read it."), assistant(call("a", "read")), result("a", "the port is 8080 " * 500)
        >>> tools = [Recall(store).definition("openai-chat")]
        >>> pipeline = Pipeline(Offload(over=1_000, preview=20), store=store)
        >>> view = await pipeline.prepare(transcript("openai-chat", *turns), tools=tools)
        >>> print(view.messages[2]["content"].splitlines()[0])
        [offloaded: text of 1 lines, 8,500 characters; recall ...]
    """

    over: int | None = field(default=2_000, validator=whole_number(1).or_none)
    older_than: int | None = field(default=None, validator=whole_number(0).or_none, kw_only=True)
    preview: int = field(default=200, validator=whole_number(1), kw_only=True)
    exclude: frozenset[str] = field(default=frozenset(), converter=as_names, validator=NAMES, kw_only=True)

    def __attrs_post_init__(self) -> None:
        """Check the options against each other."""
        if self.over is None and self.older_than is None:
            raise must_be("Offload.over", "a number of tokens where older_than is None", None)
        if self.over is not None and self.preview >= self.over:
            raise must_be("Offload.preview", f"less than over, which is {self.over}", self.preview)

    @property
    def stages(self) -> tuple[ContextStrategy, ...]:
        """One stage for the large results that arrive, one for the old ones."""
        large = None if self.over is None else _Offloading(self.over, None, self.preview, self.exclude)
        old = None if self.older_than is None else _Offloading(None, self.older_than, self.preview, self.exclude)
        return tuple(stage for stage in (large, old) if stage is not None)


@library_stage
@frozen
class _Offloading(ContextStrategy):
    """Offload the results over a size, or of an age; see ``Offload``."""

    over: int | None
    older_than: int | None
    preview: int
    exclude: frozenset[str]
    name: ClassVar[str] = Offload.__name__

    @property
    def when(self) -> When:
        """On arrival by size, under pressure by age."""
        return When.UNDER_PRESSURE if self.over is None else When.ON_ARRIVAL

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Return the context with previews in the place of what is in the store now."""
        if call.internals.shelf is None:
            return context
        frozen, messages = call.frozen(context), list(context.messages)
        if self.over is not None:
            large = [
                (index, result)
                for index, result, tool in results_of(context.messages)
                if index not in frozen and (result.name or tool) not in self.exclude and self._is_large(result, call)
            ]
            await self._keep({index: context.messages[index] for index, _ in large}, call)
            why = f"tool output larger than {self.over:,} tokens"
            for index, result in large:
                await self._go(messages, index, context.messages[index], result, call, why)
        if self.older_than is not None:
            await self._by_age(context, messages, call)
        return context.with_messages(tuple(messages))

    async def _by_age(self, context: Context, messages: list[Message], call: Call) -> None:
        found = list(results_of(context.messages))
        staying = call.frozen(context).union(call.unread(context))
        spare = None if call.limit is None else call.size(context.with_messages(tuple(messages))) - call.limit
        why = f"older than the last {self.older_than} tool results"
        old = [
            (index, result)
            for index, result, tool in found[: max(0, len(found) - (self.older_than or 0))]
            if index not in staying and (result.name or tool) not in self.exclude
        ]
        await self._keep(self._surely(context, old, spare, call), call)
        for index, result in old:
            if spare is not None and spare <= 0:
                return
            if call.meter.parts(result.content) <= self.preview:
                continue
            before = call.count(messages[index])
            await self._go(messages, index, context.messages[index], result, call, why)
            spare = None if spare is None else spare - before + call.count(messages[index])

    def _surely(
        self, context: Context, old: Iterable[tuple[int, ToolResult]], spare: int | None, call: Call
    ) -> dict[int, Message]:
        """The messages of which a result goes, whatever the previews of those before it take."""
        going, gone = dict[int, Message](), 0
        for index, result in old:
            if spare is not None and gone >= spare:
                break
            size = call.meter.parts(result.content)
            if size > self.preview:
                going[index] = context.messages[index]
                gone += size
        return going

    async def _keep(self, messages: Mapping[int, Message], call: Call) -> None:
        """Put messages of which something will go into the store, side by side."""
        if call.internals.shelf is not None and call.internals.shelf.tool is not None:
            await call.internals.shelf.keep_messages(list(messages.values()))

    async def _go(
        self, messages: list[Message], index: int, old: Message, result: ToolResult, call: Call, why: str
    ) -> None:
        """Put a preview in the place of a result, if the store keeps that."""
        handle = None if call.internals.shelf is None else await call.internals.shelf.keep_message(old, result)
        name = None if call.internals.shelf is None else call.internals.shelf.tool
        place = next((at for at, part in enumerate(messages[index].parts) if part is result), None)
        if handle is None or place is None:
            return
        shown = self._previewed(result, f"; {name} {handle}", call)
        parts: list[Part] = list(messages[index].parts)
        parts[place] = shown
        made = messages[index].with_parts(tuple(parts))
        if call.count(made) < call.count(messages[index]):
            messages[index] = made
            call.note(old, why)

    def _is_large(self, result: ToolResult, call: Call) -> bool:
        text = result.text
        return self.over is not None and len(text) > self.over and call.meter.counter.count(text) > self.over

    def _previewed(self, result: ToolResult, pointer: str, call: Call) -> ToolResult:
        text = result.text
        lines = f"{text.count(chr(10)) + 1:,} lines, {len(text):,} characters" if text else "no text"
        head = f"{OFFLOADED}{kind_of(result)} of {lines}{pointer}]"
        shown = cut_to_tokens(joined(result), self.preview, call.meter.counter, Cut())
        preview = marked(shown, f"{head}\n{shown.text}".rstrip(), [Mark(head, len(text))])
        return with_text(result, preview) if self.over is not None else result.with_content((preview,))


def kind_of(result: ToolResult) -> str:
    """What a result is, in a word: json, log, code or text; image, or another kind of file, where it has no text."""
    text = result.text
    if not text.strip():
        return next((part.kind for part in result.content if isinstance(part, Media)), "text")
    if text.lstrip()[:1] in ("{", "[") and is_json(text):
        return "json"
    start = text[:_LOOKED_AT]
    lines = start.count("\n") + 1
    if _count(_LOG.finditer(start)) * 4 > lines:
        return "log"
    return "code" if _count(_CODE.finditer(start)) * 40 > lines else "text"


def _count(found: Iterable[object]) -> int:
    return sum(1 for _ in found)


def _budget(value: Budget | int | None) -> Budget | None:
    return None if value is None else as_budget(value, "FitContextWindow")


@library_stage
@frozen
class FitContextWindow(Summarizing):
    """Cut the request until it fits, and no more than it takes.

    In this order: tool results that are out of proportion, down to head and tail; old results, oldest first, and the
    long arguments of old calls; whole rounds of the model, oldest first; and the user's own words last. Protected
    messages and the round that the model is in stay. When these alone are too large, the results of
    that round are cut so that it takes half of the room that the rest leaves. Once that round is over, it is still left
    whole while it takes no more than half of the room and no later one has results.

    Where the pipeline has a summarizer, one message behind the first task stands for what was dropped: at most a tenth
    of what the cut comes down to, and at the next cut another in its place. Where the summarizer fails, the cut is what
    it would be without one. Without a session, or with views that are
    not written back, the summarizer is asked at every call that has to be cut.

    Where it has a store and the request the recall tool (``Recall``), cut texts name the handle of what they were, and
    that message names a list of what was dropped, a handle each. With neither, nothing stands for what was dropped:
    the report says it, and ``Ledger()`` behind this stage tells the model.

    Args:
        budget: The budget to fit; an integer is a window, as of ``Budget``. Without it the pipeline's budget holds.

    Raises:
        ConfigError: If the budget is none.

    Example:
        >>> from agentctx import FitContextWindow, Pipeline
        >>> from agentctx.testing import assistant, transcript, user
        >>> turns = user("One?"), assistant("1. " * 500), user("Two?"), assistant("2."), user("Three?")
        >>> messages = transcript("openai-chat", *turns)
        >>> view = await Pipeline(FitContextWindow(), budget=200).prepare(messages)
        >>> [message["content"] for message in view.messages]
        ['One?', 'Two?', '2.', 'Three?']
    """

    budget: Budget | None = field(default=None, converter=_budget)
    when: ClassVar[When] = When.UNDER_PRESSURE

    def reserves(self, call: Call, /) -> int:
        """The room for the handle of a list of what was dropped, where the model can ask for it."""
        return room_for_handles(call)

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Return the context, cut so that it has at most the tokens to come down to."""
        limit, aim = self._limits(call)
        if call.size(context) <= aim:
            return context
        summed = None if call.summarizer is None else await _with_summary(context, limit, aim, call, call.summarizer)
        if summed is None:
            summed = await run_plain(partial(_cut, limit, aim), context, call)
        return await with_handles(summed, call)

    def _limits(self, call: Call) -> tuple[int, int]:
        """The hard limit and the size to come down to, in tokens."""
        own = self.budget
        if own is not None:
            return own.limit, own.limit if call.limit is None else min(own.limit, call.limit)
        if call.budget is None or call.limit is None:
            raise NoBudget(type(self).__name__, "budget")
        return call.budget.limit, call.limit


SHARE = 0.1
"""At most so much of what a cut comes down to is the summary."""


async def _with_summary(context: Context, limit: int, aim: int, call: Call, summarizer: Summarizer) -> Context | None:
    """The request cut to ``aim``, with one message that says in few words what went; None when there is none to say it.

    An earlier summary goes into the new one. Where there is no new one it stays, and the report says why.
    """
    known, most = call.internals.notes.copy(), int(SHARE * aim)
    left = await leave_out(partial(_cut, limit, aim - most), context, call)
    if left.is_known and sum(map(call.count, left.gone)) <= most:
        call.internals.notes.restore(known)
        return None
    room = min(most, limit - call.size(left.context))
    made, problem = await left.in_words(Asking(summarizer), room, FitContextWindow.__name__)
    if made is not None:
        return left.with_summary(made)
    call.internals.notes.restore(known)
    call.remark(f"no summary: {problem or 'the summarizer gave none'}")
    return None


def _cut(limit: int, aim: int, context: Context, call: Call) -> Context:
    """The context cut to ``aim`` tokens; it must not have more than ``limit``."""
    return cut(context, limit, aim, call)
