"""What a request costs given the cache rules of its provider, and when a cut pays."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import accumulate, takewhile
from math import ceil, inf
from typing import Literal

from attrs import define, evolve, field, frozen

from agentctx.errors import ConfigError
from agentctx.json_text import serialise
from agentctx.message import (
    SYSTEM_ROLES,
    Context,
    Message,
    Opaque,
    Part,
    ToolResult,
    is_marker,
    is_marker_tool,
    without_marker,
)
from agentctx.models.profile import CacheRules, ModelProfile, Prices, cache_rules, warmth_after
from agentctx.protocols import Call, Meter, Phase, aiming_lower
from agentctx.reports import Forecast, SilentTruncationSuspected
from agentctx.unit import has_user_words, system_messages
from agentctx.validators import whole_number
from agentctx.wire_format import CacheMarkers, head_markers

__all__ = [
    "CacheSimulator",
    "Condition",
    "Forecast",
    "SilentTruncationSuspected",
    "cache_cold",
    "pays_back",
    "suspect_truncation",
]

Mark = Literal["short", "long"]


@frozen
class CachedBlock:
    """A piece of a prompt that is cached whole or not at all: tools, the system prompt, a content block.

    Args:
        key: Equal for pieces with the same bytes.
        tokens: Its size.
        mark: A cache marker at its end: for the usual or for the long time; None when there is none.
        turn_end: Whether it is the end of a user or a tool message.
    """

    key: Hashable
    tokens: int
    mark: Mark | None = None
    turn_end: bool = False


@frozen
class Prompt:
    """The blocks of a request, with what stands before the end of each: worked out once, for any number of caches.

    Args:
        blocks: The blocks in the provider's order: tools, system, messages.
        keys: For each block, a hash of the prompt up to its end.
        ends: For each block, the tokens of the prompt up to its end.
    """

    blocks: tuple[CachedBlock, ...]
    keys: tuple[int, ...]
    ends: tuple[int, ...]

    @classmethod
    def of(cls, blocks: Iterable[CachedBlock]) -> Prompt:
        """The prompt of these blocks."""
        whole, keys, key = tuple(blocks), [], 0
        for block in whole:
            key = hash((key, block.key))
            keys.append(key)
        return cls(whole, tuple(keys), tuple(accumulate(block.tokens for block in whole)))

    @property
    def tokens(self) -> int:
        """Its size."""
        return self.ends[-1] if self.ends else 0


@define
class CacheSimulator:
    """The cache of one conversation, by the provider's rules.

    Best effort is taken for certain: what the rules allow to be read is read.

    Args:
        rules: The provider's rules.

    Example:
        >>> from agentctx.economics import CacheSimulator
        >>> from agentctx.economics import CachedBlock, Prompt
        >>> from agentctx.models.profile import cache_rules
        >>> from agentctx.models.table import profile
        >>> cache = CacheSimulator(cache_rules(profile("gpt-5.4")))
        >>> prompt = Prompt.of([CachedBlock("system", 2_000), CachedBlock("task", 500)])
        >>> cache.send(prompt, at=0.0).cached, cache.send(prompt, at=10.0).cached
        (0, 2432)
    """

    rules: CacheRules
    _until: dict[int, float] = field(factory=dict, init=False, repr=False)
    _lives: dict[int, float] = field(factory=dict, init=False, repr=False)

    def send(self, prompt: Prompt, at: float, output: int = 0) -> Usage:
        """The bill of one request.

        Args:
            prompt: What is sent.
            at: When it is sent, in seconds; never earlier than the request before.
            output: Tokens of its answer.
        """
        if self.rules.kind == "prefix":
            return self._prefix(prompt, at, output)
        if self.rules.kind == "marks":
            return self._marks(prompt, at, output)
        if self.rules.kind == "turns":
            return self._turns(prompt, at, output)
        return Usage(fresh=prompt.tokens, output=output)

    def hold(self, prompt: Prompt, at: float, seconds: float) -> Usage:
        """Keep a prompt for a fixed time, as Gemini's explicit ``cachedContents`` does; what creating it bills.

        Args:
            prompt: What is kept.
            at: When it is created, in seconds on the same clock as for ``send``.
            seconds: How long it is kept.
        """
        for key in prompt.keys:
            self._until[key] = max(at + seconds, self._until.get(key, 0.0))
        return Usage(fresh=prompt.tokens)

    def _alive(self, key: int, at: float) -> bool:
        return self._until.get(key, -1.0) >= at

    def _write(self, key: int, at: float, mark: Mark | None) -> None:
        """Write an entry, or use one that is there: it lives on, for the longer of its times."""
        long = self.rules.ttl_long
        lives = long if mark == "long" and long is not None else self.rules.ttl
        if self._alive(key, at):
            lives = max(lives, self._lives.get(key, 0.0))
        self._lives[key], self._until[key] = lives, at + lives

    def _use(self, key: int, at: float) -> None:
        """Read an entry: it lives its own time again."""
        self._until[key] = max(self._until[key], at + self._lives.get(key, 0.0))

    def _prefix(self, prompt: Prompt, at: float, output: int) -> Usage:
        until, end = self._until, at + self.rules.ttl
        alive = sum(1 for _ in takewhile(lambda key: until.get(key, -1.0) >= at, prompt.keys))
        for key in prompt.keys:
            until[key] = max(end, until.get(key, 0.0))
        shared = prompt.ends[alive - 1] if alive else 0
        read = self.rules.readable(shared)
        return Usage(fresh=prompt.tokens - read, cached=read, output=output)

    def _marks(self, prompt: Prompt, at: float, output: int) -> Usage:
        ends, keys, rules = prompt.ends, prompt.keys, self.rules
        marked = [place for place, block in enumerate(prompt.blocks) if block.mark][-rules.marks :]
        marked = [place for place in marked if ends[place] >= rules.smallest]
        hits: list[int] = []  # the first entry on the way back from each mark
        for place in marked:
            back = range(place, max(-1, place - rules.look_back), -1)
            hits += [hit for hit in back if self._alive(keys[hit], at)][:1]
        for hit in hits:
            self._use(keys[hit], at)
        read = max((ends[hit] for hit in hits), default=0)
        for place in marked:
            self._write(keys[place], at, prompt.blocks[place].mark)
        return self._written(prompt, read, marked, output)

    def _turns(self, prompt: Prompt, at: float, output: int) -> Usage:
        ends, keys, blocks = prompt.ends, prompt.keys, prompt.blocks
        tried = [place for place, block in enumerate(blocks) if block.mark or block.turn_end][-self.rules.candidates :]
        hit = next((place for place in reversed(tried) if self._alive(keys[place], at)), None)
        if hit is not None:
            self._use(keys[hit], at)
        marked = [place for place in tried if blocks[place].mark][-(self.rules.marks - 1) :]
        implicit = [place for place in tried if blocks[place].turn_end][-1:]
        writing = [place for place in {*marked, *implicit} if ends[place] >= self.rules.smallest]
        for place in writing:
            self._write(keys[place], at, blocks[place].mark)
        read = 0 if hit is None else ends[hit]
        return self._written(prompt, read, writing, output)

    def _written(self, prompt: Prompt, read: int, places: Sequence[int], output: int) -> Usage:
        """The bill of a request that writes up to these places: for the long time up to the deepest that asks for it.

        What lies behind the last of them is plain input.
        """
        if not self.rules.write_fee:
            return Usage(prompt.tokens - read, read, 0, 0, output)
        long = max((prompt.ends[place] for place in places if prompt.blocks[place].mark == "long"), default=0)
        last = max((prompt.ends[place] for place in places), default=0)
        written_long = max(0, long - read)
        written = max(0, last - max(read, long))
        return Usage(prompt.tokens - read - written - written_long, read, written, written_long, output)


@define
class PromptReader:
    """Cuts the requests of one conversation into blocks; a message as it was read is counted once.

    Args:
        meter: Counts messages.
        mark: The markers to set, as the most careful client does: at the end of the system prompt, of what this
            request shares with the one before, of what that shared with its own, and of the request; None for none.
        own: How the format has markers written: then those count that the request has itself, and no others.
    """

    meter: Meter
    mark: Mark | None = "short"
    own: CacheMarkers | None = None
    _known: dict[int, tuple[Message, tuple[CachedBlock, ...]]] = field(factory=dict, init=False, repr=False)
    _before: Sequence[CachedBlock] = field(factory=tuple, init=False, repr=False)
    _shared: int = field(default=0, init=False, repr=False)

    def read(self, context: Context) -> Prompt:
        """A request as blocks, tools and system prompt first."""
        on_head = [] if self.own is None else head_markers(context, self.own)
        system = None if context.system is None else tuple(map(_as_sent, context.system.parts))
        fixed = hash(("fixed", tools_as_sent(context), system))
        # Tools and system prompt are one block here: of their markers the last one stands for all.
        mark: Mark | None = None if not on_head else "long" if on_head[-1].ttl == "1h" else "short"
        blocks = [CachedBlock(fixed, self.meter.fixed(context), mark)]
        leading = list(takewhile(lambda message: message.role in SYSTEM_ROLES, context.messages))
        for message in leading:
            blocks.extend(self._blocks(message))
        head = len(blocks)
        for message in context.messages[len(leading) :]:
            blocks.extend(self._blocks(message))
        if self.own is None and self.mark is not None:
            pairs = takewhile(lambda pair: pair[0].key == pair[1].key, zip(blocks, self._before, strict=False))
            shared = sum(1 for _ in pairs) or head
            for end in {head, min(self._shared or head, shared), shared, len(blocks)}:
                blocks[end - 1] = evolve(blocks[end - 1], mark=self.mark)
            self._before, self._shared = blocks, shared
        return Prompt.of(blocks)

    def _blocks(self, message: Message) -> tuple[CachedBlock, ...]:
        if not message.untouched:
            return self._cut(message)
        known = self._known.get(id(message))
        if known is None:
            known = self._known[id(message)] = message, self._cut(message)
        return known[1]

    def _cut(self, message: Message) -> tuple[CachedBlock, ...]:
        parts = [place for place, part in enumerate(message.parts) if not is_marker(part)]
        heard = message.role in {"user", "tool"}
        if not parts:
            return (CachedBlock(hash(message.role), self.meter.message(message), turn_end=heard),)
        # The first part takes what the message itself costs.
        whole, sizes = self.meter.message(message), [0]
        if len(message.parts) > 1:
            sizes = [self.meter.parts((part,)) for part in message.parts]
        sizes[0] = max(0, whole - sum(sizes[1:]))
        markers = () if self.own is None else self.own.of(message)
        marks: dict[int, Mark] = {marker.place: "long" if marker.ttl == "1h" else "short" for marker in markers}
        keys = {at: hash((message.role, _as_sent(message.parts[at]))) for at in parts}
        return tuple(
            CachedBlock(keys[at], sizes[at], marks.get(at), turn_end=heard and at == parts[-1]) for at in parts
        )


def _as_sent(part: Part) -> Hashable:
    """What is sent of a part, but for cache markers: of blocks that are not understood only the kind has a hash."""
    if isinstance(part, Opaque):
        return None if is_marker(part) else (part.kind, serialise(without_marker(part.data)))
    return (part, *map(_as_sent, part.content)) if isinstance(part, ToolResult) else part


LONG_WRITE = 2.0
"""What writing for the long time costs, in prices of plain input, where the model table has no price for it."""


@frozen
class Usage:
    """The tokens of one call by how they are billed, or of several added up.

    Args:
        fresh: Input neither read from the cache nor written to it.
        cached: Input read from the cache.
        written: Input written to the cache for its usual time.
        written_long: Input written to the cache for its long time.
        output: The answer, with reasoning.
    """

    fresh: int = 0
    cached: int = 0
    written: int = 0
    written_long: int = 0
    output: int = 0

    @property
    def prompt(self) -> int:
        """The whole input."""
        return self.fresh + self.cached + self.written + self.written_long

    @property
    def cached_share(self) -> float:
        """The share of the input that was read from the cache, 0 to 1."""
        return self.cached / self.prompt if self.prompt else 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.fresh + other.fresh,
            self.cached + other.cached,
            self.written + other.written,
            self.written_long + other.written_long,
            self.output + other.output,
        )


@frozen(eq=False, repr=False)
class Rates:
    """What one million tokens cost in a request of a given size, in USD; every price is known.

    Args:
        fresh: Plain input.
        cached: Input read from the cache.
        written: Input written to the cache.
        written_long: Input written to the cache for its long time.
        output: Output.
    """

    fresh: float
    cached: float
    written: float
    written_long: float
    output: float


def rates(model: ModelProfile, prompt: int) -> Rates:
    """The prices of a request with ``prompt`` input tokens: above the model's threshold all of it costs more.

    Where a price is not listed, reading and writing cost what plain input costs; a long write twice that.

    Raises:
        ConfigError: If the model table has no price for the model's input or output.
    """
    usual, long = model.prices, Prices()
    if model.long_from is not None and prompt > model.long_from and model.long_prices is not None:
        long = model.long_prices
    fresh, output = long.input or usual.input, long.output or usual.output
    if fresh is None or output is None or usual.input is None:
        msg = f"no prices known for model {model.name!r}: add them with register_model(ModelProfile(..., prices=...))"
        raise ConfigError(msg)
    grown = fresh / usual.input if usual.input else 1.0

    def price(own: float | None, short: float | None, unlisted: float) -> float:
        return own if own is not None else unlisted if short is None else short * grown

    cached, written = price(long.cached, usual.cached, fresh), price(long.write, usual.write, fresh)
    return Rates(fresh, cached, written, price(long.write_long, usual.write_long, LONG_WRITE * fresh), output)


def cost(usage: Usage, model: ModelProfile) -> float:
    """What one call costs, in USD.

    Args:
        usage: The tokens of one call: not of several added up, since the price depends on the size of each.
        model: The model, with its prices.

    Raises:
        ConfigError: If the model table has no price for the model.
    """
    each = rates(model, usage.prompt)
    millionths = (
        usage.fresh * each.fresh
        + usage.cached * each.cached
        + usage.written * each.written
        + usage.written_long * each.written_long
        + usage.output * each.output
    )
    return millionths / 1e6


def call_cost(model: ModelProfile, prompt: int, cached: int = 0, output: int = 0) -> float:
    """What a call costs of whose prompt ``cached`` tokens are read from the cache, in USD."""
    rest = prompt - cached
    usage = Usage(0, cached, rest, 0, output) if cache_rules(model).write_fee else Usage(rest, cached, 0, 0, output)
    return cost(usage, model)


def input_cost(model: ModelProfile, tokens: int, shared: int) -> float:
    """What the input of a call costs that begins with ``shared`` tokens of the call before, in USD.

    Of these the cache serves what the provider's rules let it.
    """
    return call_cost(model, tokens, cache_rules(model).readable(shared))


def priced(profile: ModelProfile) -> bool:
    """Whether what a call costs can be worked out for a model."""
    return profile.prices.input is not None and profile.prices.output is not None


@frozen(eq=False, repr=False)
class Request:
    """A request, in tokens.

    Args:
        tokens: All of it.
        known: What stands at its start as it stood in the request before.
    """

    tokens: int
    known: int


def bill(
    profile: ModelProfile | None,
    *,
    sent: int,
    given: int,
    prefix: int,
    size: int,
    idle: float | None,
    moved: int | None = None,
) -> Forecast | None:
    """What a call costs with and without what was cut for it; None when the model has no known prices."""
    if profile is None or not priced(profile):
        return None
    known = prefix if given < sent or not prefix else sent  # else the caller went back, or changed what is first
    warmth = warmth_after(profile, idle)
    return compared(profile, Request(given, known), Request(size, prefix), warmth, None, moved)


def compared(
    model: ModelProfile,
    without: Request,
    with_cut: Request,
    warmth: float = 1.0,
    rules: CacheRules | None = None,
    moved: int | None = None,
) -> Forecast:
    """What sending one request instead of another does to the bill of this call and of those that build on it.

    Where these are cut anew at every call, they find no more of it again than its first ``moved`` tokens.
    """
    rules = cache_rules(model) if rules is None else rules
    uncut, cut = (_price(model, rules, int(warmth * each.known), each.tokens) for each in (without, with_cut))
    later_uncut = _price(model, rules, without.tokens, without.tokens)
    later_cut = _price(model, rules, with_cut.tokens if moved is None else moved, with_cut.tokens)
    dearer = moved is not None and later_cut > later_uncut
    calls = inf if dearer else _calls(cut - uncut, later_uncut - later_cut)
    return Forecast(uncut, cut, later_uncut, later_cut, calls)


def _price(model: ModelProfile, rules: CacheRules, held: int, prompt: int) -> float:
    """The input of a request of which the cache holds the first ``held`` tokens, in USD."""
    each: Rates = rates(model, prompt)
    read = rules.readable(held)
    rest = each.written if rules.write_fee and prompt >= rules.smallest else each.fresh
    return (read * each.cached + (prompt - read) * rest) / 1e6


def _calls(once: float, gain: float) -> float:
    if once <= 0:
        return 1
    return 1 + ceil(once / gain - 1e-9) if gain > 0 else inf


def found_again(context: Context, same: int, call: Call) -> int:
    """Tokens that the provider finds in its cache of a request whose first ``same`` messages stood there before.

    Where it looks back from marks, it finds the end of an earlier request; when none is near enough to the first mark
    behind what is the same, what stands up to a mark before. A request without marks of its own is taken for one of a
    client that sets them well.
    """
    rules = None if call.profile is None else cache_rules(call.profile)
    markers = None if call.wire is None else call.wire.cache_markers
    messages, head = context.messages, call.meter.fixed(context)
    marked = [place for place, message in enumerate(messages) if markers is not None and markers.of(message)]
    if rules is not None and rules.kind == "marks" and markers is not None and marked:
        behind = next((place for place in marked if place >= same), None)
        ended = next((place + 1 for place in reversed(range(same)) if messages[place].role != "assistant"), 0)
        between = () if behind is None else messages[ended : behind + 1]
        blocks = sum(max(1, sum(not is_marker(part) for part in message.parts)) for message in between)
        near = behind is not None and blocks < rules.look_back
        same = ended if near and ended else next((place + 1 for place in reversed(marked) if place < same), 0)
        head = head if same or head_markers(context, markers) else 0
    return head + sum(map(call.count, messages[:same]))


@frozen(eq=False, repr=False)
class CutTokens:
    """A compaction, in tokens.

    Args:
        head: What stands before the first change and can still be read from the cache.
        kept: What stands after the first change and survives: it has to be written again.
        dropped: What goes.
        new: What the next call brings, in either case.
    """

    head: int
    kept: int
    dropped: int
    new: int = 0


def forecast(model: ModelProfile, cut: CutTokens, warmth: float = 1.0, rules: CacheRules | None = None) -> Forecast:
    """What a compaction does to the bill, while the cache lives.

    In prices of plain input, with r for reading and w for writing: the loss is ``(w - r) * kept``, once; the gain
    ``r * dropped`` a call. So it pays back after ``(w - r) * kept / (r * dropped)`` calls; at once when the cache is
    cold, for then all is written anyway. Where a long request costs more, the sizes decide the prices.
    """
    before, after = cut.head + cut.kept + cut.dropped, cut.head + cut.kept
    return compared(model, Request(before + cut.new, before), Request(after + cut.new, cut.head), warmth, rules)


def expected_forecast(context: Context, call: Call) -> Forecast | None:
    """What cutting the context down to the call's limit would do to the bill; None when there is nothing to cut.

    Taken for certain: what stands before the first cut is what is never cut, the system prompt, the tools and the
    first task, and the rest that stays has to be written again. A cut that begins later costs less than this.
    """
    size = call.size(context)
    if call.limit is None or size <= call.limit:
        return None
    uncut = call.meter.fixed(context) + sum(map(call.count, _leading(context.messages)))
    head = min(uncut, call.limit)
    cut = CutTokens(head=head, kept=call.limit - head, dropped=size - call.limit)
    return forecast(_model(call), cut, call.warmth)


def _leading(messages: Sequence[Message]) -> Iterator[Message]:
    """The messages before the first that is neither a system message nor the first task."""
    begun = False
    for message in messages:
        if not system_messages((message,)):
            if begun or not has_user_words(message):
                return
            begun = True
        yield message


def made_forecast(before: Context, after: Context, call: Call) -> Forecast | None:
    """What sending ``after`` in the place of ``before`` does to the bill; None when it is no smaller."""
    size, smaller = call.size(before), call.size(after)
    if smaller >= size:
        return None
    same_tools = before.tools is after.tools or tools_as_sent(before) == tools_as_sent(after)
    intact = same_tools and before.system == after.system
    pairs = zip(before.messages, after.messages, strict=False) if intact else ()
    same = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1] or pair[0] == pair[1], pairs))
    known = found_again(after, same, call) if intact else 0
    return compared(_model(call), Request(size, size), Request(smaller, known), call.warmth)


def tools_as_sent(context: Context) -> tuple[str, ...]:
    """What is sent of each tool, but for cache markers: ``Tool`` values are equal also where their definitions differ.

    Example:
        >>> from agentctx import Context, Tool
        >>> from agentctx.economics import tools_as_sent
        >>> one, other = (Tool("web", source={"type": "web_search", "max_uses": times}) for times in (3, 5))
        >>> one == other, tools_as_sent(Context((), tools=(one,))) == tools_as_sent(Context((), tools=(other,)))
        (True, False)
    """
    tools = [tool for tool in context.tools if not is_marker_tool(tool)]
    said = ([tool.name, tool.description, tool.parameters] if tool.source is None else tool.source for tool in tools)
    return tuple(serialise(without_marker(each)) for each in said)


def _model(call: Call) -> ModelProfile:
    if call.profile is None:
        msg = "pays_back: what a cut costs depends on the model: pass model=... to prepare or session"
        raise ConfigError(msg)
    return call.profile


SHARE = 0.6
"""A prompt billed below this share of what was sent is suspect: no counter is wrong by so much for long."""

UNSURE = 0.4
"""The share instead of ``SHARE`` before the first report, when nothing is known of how the provider counts."""

SMALLEST = 1_000
"""Prompts of fewer tokens are not judged: there the wrapper that a chat template adds or saves weighs too much."""

FULL = 0.99
"""A prompt that takes this share of the window fills it."""

BLOCK = 1_100
"""Tokens; caches hold whole blocks, so that up to one block more than what is new is billed as uncached."""

LARGER = 1.3
"""A prompt billed at more than this share of what was sent is the sum of several prompts, not a larger one."""


@frozen
class Suspicion:
    """A prompt was probably cut by the server.

    Args:
        billed: The prompt by the provider's count, in tokens.
        sent: The prompt by ours, in tokens.
        why: What speaks for it, in one sentence.
    """

    billed: int
    sent: int
    why: str


def suspect_truncation(
    billed: int,
    sent: int,
    *,
    fresh: int | None = None,
    uncertain: int = 0,
    calibrated: bool = True,
    window: int | None = None,
    output: int | None = None,
    stopped_by_length: bool = False,
) -> Suspicion | None:
    """Whether a server seems to have cut the prompt silently, as Ollama does at ``num_ctx``.

    Args:
        billed: The whole prompt by the provider's count, cached parts included, in tokens. 0 tells nothing: some
            servers leave the number out when the prompt was cached.
        sent: The same prompt by our count, calibrated where possible, in tokens.
        fresh: Tokens of it that the prompt before did not have, if known: where as much is billed, the provider
            leaves out what it had in its cache, and nothing is wrong.
        uncertain: Tokens of it whose true size is not known: pictures, files, hidden reasoning, what only the
            provider can read. They are taken for free.
        calibrated: Whether ``sent`` is corrected by what the provider billed before. If not, less is suspected.
        window: The model's window, if known, in tokens: a prompt billed above it was cut too (z.ai takes it whole
            and cuts later).
        output: Tokens of the answer, if known.
        stopped_by_length: Whether the answer ended for want of room: with no output at a full window the server made
            the prompt fit exactly (Xiaomi MiMo).

    Returns:
        The suspicion, or None when the numbers agree.

    Example:
        >>> from agentctx.economics import suspect_truncation
        >>> suspect_truncation(billed=4_096, sent=31_000).why
        '...'
        >>> suspect_truncation(billed=30_500, sent=31_000) is None
        True
    """
    if billed < 1:
        return None
    sure, share = sent - uncertain, SHARE if calibrated else UNSURE
    if sure >= SMALLEST and billed < share * sure and not leaves_out_cached(billed, sent, fresh):
        return Suspicion(
            billed, sent, f"billed {billed:,} tokens of about {sent:,} sent: the front was probably cut off"
        )
    if window is not None and window < billed <= LARGER * sent:
        return Suspicion(billed, sent, f"billed {billed:,} tokens, more than the window of {window:,}")
    if window is not None and stopped_by_length and output == 0 and FULL * window <= billed <= window:
        return Suspicion(billed, sent, f"the prompt of {billed:,} tokens fills the window of {window:,} exactly")
    return None


def leaves_out_cached(billed: int, sent: int, fresh: int | None) -> bool:
    """Whether only what was new was billed, so that the rest came from a cache and is left out of the count."""
    return fresh is not None and billed < SHARE * sent and SHARE * fresh <= billed <= fresh / SHARE + BLOCK


Test = Callable[[Context, Call], bool]
Approval = Callable[[Context, Context, Call], bool]
"""Given the context, what stages made of it, and the call: whether that is worth having."""


@frozen(eq=False, repr=False)
class Condition:
    """Something that is true or false of a context; join with ``&``, ``|`` and ``~``.

    Args:
        test: Given the context and the call, whether it holds.
        name: What it is called in reports.
        approval: Asked once the stages have run: what it does not approve is as if they had not. None approves all.
        every_step: Whether it has to be asked at every step of a session, whenever the stages would run alone: what
            it depends on changes although the context does not grow.

    Example:
        >>> from agentctx import ClearToolResults, when
        >>> from agentctx.economics import Condition
        >>> many = Condition(lambda context, call: len(context.messages) > 100, "many messages")
        >>> stage = when(many, ClearToolResults(keep_last=5))
    """

    test: Test
    name: str
    approval: Approval | None = None
    every_step: bool = False

    def __call__(self, context: Context, call: Call) -> bool:
        """Whether it holds."""
        return self.test(context, call)

    def approves(self, before: Context, after: Context, call: Call) -> bool:
        """Whether what stages made of a context is worth having.

        Args:
            before: The context that the stages were given.
            after: The context that they gave back.
            call: The call, as the stages were given it.
        """
        return self.approval is None or self.approval(before, after, call)

    def __bool__(self) -> bool:
        """Not true or false by itself: of two that are joined with ``and`` or ``or``, Python would drop one."""
        msg = f"{self.name}: join conditions with &, | and ~ instead of and, or and not"
        raise ConfigError(msg)

    def __and__(self, other: object) -> Condition:
        if not isinstance(other, Condition):
            return NotImplemented
        name = " & ".join(f"({each.name})" if " | " in each.name else each.name for each in (self, other))

        def approval(before: Context, after: Context, call: Call) -> bool:
            return self.approves(before, after, call) and other.approves(before, after, call)

        often = self.every_step or other.every_step
        return Condition(lambda context, call: self(context, call) and other(context, call), name, approval, often)

    def __or__(self, other: object) -> Condition:
        if not isinstance(other, Condition):
            return NotImplemented
        name = f"{self.name} | {other.name}"

        def approval(before: Context, after: Context, call: Call) -> bool:
            return any(each(before, call) and each.approves(before, after, call) for each in (self, other))

        often = self.every_step or other.every_step
        return Condition(lambda context, call: self(context, call) or other(context, call), name, approval, often)

    def __invert__(self) -> Condition:
        name = f"~({self.name})"
        return Condition(lambda context, call: not self(context, call), name, every_step=self.every_step)


LUKEWARM = 0.5
"""Below this believed share of the last request the cache counts as cold."""


def cache_cold() -> Condition:
    """True when the provider's cache is believed to have lapsed: what is sent is written anew anyway.

    Asked at every step of a session. Reads ``call.warmth``: the session knows when the last request was sent, a
    stateless call knows of no cache.

    Example:
        >>> from agentctx import ClearToolResults, when
        >>> from agentctx.economics import cache_cold
        >>> stage = when(cache_cold(), ClearToolResults(keep_last=5))
    """
    return Condition(lambda _context, call: call.warmth < LUKEWARM, "cache_cold()", every_step=True)


def pays_back(within: int) -> Condition:
    """True when cutting the context down to the budget's target has paid for itself after ``within`` calls.

    What the stages then really made of it is judged once more: a cut that turns out too small, or too dear for what
    it frees, is not made, so that what is freed little by little is cut in few large steps. Always true while the
    request does not fit, for then something has to go; never while there is nothing to cut. A session asks
    at every step, whenever the stages would run alone. Needs a budget, and a model whose prices are known.

    Args:
        within: How many calls the conversation is expected to go on with the cut history, at least.

    Raises:
        ConfigError: If ``within`` is no whole number of at least 1; at run time, if no model was named or its prices
            are not known.

    Example:
        >>> from agentctx import ClearToolResults, when
        >>> from agentctx.economics import pays_back
        >>> stage = when(pays_back(within=20), ClearToolResults(keep_last=5))
    """
    whole_number(1).check("pays_back.within", within)

    def test(context: Context, call: Call) -> bool:
        at_first_sight = call.internals.phase is not Phase.ONCE  # at a quiet step no message is looked at
        floor = call.meter.fixed(context) if at_first_sight else None
        expected = expected_forecast(context, aiming_lower(call, context, floor))
        return expected is not None and (expected.pays_back(within) or _too_large(context, call))

    def approval(before: Context, after: Context, call: Call) -> bool:
        made = made_forecast(before, after, call)
        return made is not None and (made.pays_back(within) or _too_large(before, call))

    return Condition(test, f"pays_back(within={within})", approval, every_step=True)


def _too_large(context: Context, call: Call) -> bool:
    return call.budget is not None and call.size(context) > call.budget.limit
