"""Put what is large, or old, into the store, and leave a preview that says what it is and how to get it back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import ClassVar

from attrs import field, frozen

from agentctx.engine.run_stages import Holder
from agentctx.engine.shrink import OFFLOADED, Cut, cut_to_tokens, results_of, with_text
from agentctx.formats.native import is_json
from agentctx.marks import joined, marked
from agentctx.message import Context, Mark, Media, Message, Part, ToolResult
from agentctx.protocols import Call, ContextStrategy, When, library_stage
from agentctx.validators import NAMES, as_names, must_be, whole_number

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
