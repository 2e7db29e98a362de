"""Old tool calls are cleared or cut, and whole units kept or dropped."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Literal

from attrs import evolve, field, frozen
from attrs.validators import in_, or_

from agentctx.budget import Budget, until_full
from agentctx.engine.cut import (
    Layout,
    Piece,
    aiming_below,
    droppable,
    lay_out,
    left_whole,
    newest,
    oldest,
    oldest_first,
    piece_of,
    preferred_last,
    shrink_open_round,
    tokens_of,
    tokens_together,
    units_of,
    without,
)
from agentctx.engine.plan import limits
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
from agentctx.errors import ContextOverflow
from agentctx.message import ROLES, Context, Message, Thinking, ToolCall, ToolResult
from agentctx.protocols import Call, ContextStrategy, When, library_stage
from agentctx.tiers import Tier, TierRule, allocate, as_tier, check_rules
from agentctx.unit import Unit, segments, units
from agentctx.validators import (
    NAMES,
    NOT_BLANK,
    TRUTH,
    MustBe,
    as_names,
    as_tuple,
    function,
    list_of,
    one_of,
    whole_number,
)

Going = Callable[[Context, Layout, int, Call], tuple[Iterable[Piece], str]]
"""Given a context, its layout, and the tokens to come down to: the pieces that go, and the reason for the report."""


class Eviction(ContextStrategy):
    """A stage that says beforehand to how few tokens it can bring the messages of a block down.

    The builder reserves so much before any other block gets more than its own least.

    Example:
        >>> from agentctx.builder import Eviction
        >>> class LastMessage(Eviction):
        ...     def least(self, context, call):
        ...         return call.count(context.messages[-1])
        ...     def apply(self, context, call):
        ...         return context.with_messages(context.messages[-1:])
    """

    __slots__ = ()
    when: ClassVar[When] = When.UNDER_PRESSURE

    def least(self, context: Context, call: Call, /) -> int:
        """Count the fewest tokens that may be left; without a method of its own, the messages that must stay."""
        return tokens_of(staying(context, call), call)

    def _reduced(self, context: Context, call: Call, going: Going) -> Context:
        """The context without what goes, when it is too large; the same object when it is not."""
        limit, aim = limits(self.name, None, call)
        if call.size(context) <= aim:
            return context
        shrunk, layout = shrink_open_round(context, limit, call)
        aim = aiming_below(aim, layout.floor, call)
        pieces, why = going(shrunk, layout, aim, call)
        return without(shrunk, units_of(pieces), call, why)


@library_stage
@frozen
class Strict(Eviction):
    """Keep everything: what does not fit is refused instead of cut.

    The room of such a block is reserved before any other block gets more than its least.

    Example:
        >>> from agentctx.builder import Block
        >>> from agentctx.strategies import Strict
        >>> Block("rules", [{"role": "system", "content": "…"}], evict=Strict()).evict
        Strict()
    """

    def least(self, context: Context, call: Call, /) -> int:
        """All of it, in tokens."""
        return tokens_of(context.messages, call)

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context as it is.

        Raises:
            ContextOverflow: If it is larger than the limit.
        """
        limit, _ = limits("Strict", None, call)
        if call.size(context) > limit:
            raise ContextOverflow(call.size(context), limit)
        return context


@library_stage
@frozen
class Drop(Eviction):
    """Drop all that may go when it does not fit: half of it would be of no use.

    Example:
        >>> from agentctx.builder import Block
        >>> from agentctx.strategies import Drop
        >>> Block("found", [{"role": "user", "content": "…"}], evict=Drop()).evict
        Drop()
    """

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context when it fits, else what must stay of it."""
        return self._reduced(context, call, _all_loose)


def _all_loose(context: Context, layout: Layout, aim: int, call: Call) -> tuple[list[Piece], str]:
    loose = [piece for piece in pieces(context.messages, layout.staying, call) if not piece.stays]
    return loose, f"does not fit in {aim:,} tokens: all that may go"


@library_stage
@frozen
class DropTail(Eviction):
    """Drop whole units from the end until the rest fits: for what is ranked, best first.

    The first unit stays as well.

    Example:
        >>> from agentctx.builder import Block
        >>> from agentctx.strategies import DropTail
        >>> Block("found", [{"role": "user", "content": "…"}], evict=DropTail()).evict
        DropTail()
    """

    def least(self, context: Context, call: Call, /) -> int:
        """The first unit and what must stay, in tokens."""
        return _least_of(_ranked(context, staying_places(context, call), call))

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context without as much of its end as must go."""
        return self._reduced(context, call, _end)


def _end(context: Context, layout: Layout, aim: int, call: Call) -> tuple[list[Piece], str]:
    """The last pieces that may go, as many as must."""
    loose = [piece for piece in _ranked(context, layout.staying, call) if not piece.stays]
    kept = until_full(loose, lambda piece: piece.tokens, aim - layout.size + tokens_together(loose))
    return loose[len(kept) :], f"to come down to {aim:,} tokens: last first"


def _ranked(context: Context, places: frozenset[int], call: Call) -> list[Piece]:
    """The units, the first of which stays."""
    found = pieces(context.messages, places, call)
    return [evolve(piece, stays=True) if piece is found[0] else piece for piece in found]


_TIER_OF = function("a function of messages, for example ByTools(...)")
_ROLES = list_of(one_of(ROLES), "roles")


def _roles(roles: Iterable[str]) -> frozenset[str]:
    """The roles but for the empty one, of which there are no messages."""
    names = as_names(roles)
    return names - {""} if isinstance(names, frozenset) else names


@library_stage
@frozen
class TruncateOldest(Eviction):
    """Drop whole units from the beginning until the rest fits.

    Args:
        keep_pairs: Whether a user's message goes together with the round that answers it, and never alone.
        min_messages: With fewer messages than this the rest is of no use: all of it goes but what must stay.
        protect_roles: Roles whose messages stay, each with its whole unit.

    Raises:
        ConfigError: If ``min_messages`` is negative, the roles are one string, or one is none.

    Example:
        >>> from agentctx import Pipeline
        >>> from agentctx.strategies import TruncateOldest
        >>> from agentctx.testing import assistant, transcript, user
        >>> turns = user("One?"), assistant("1. " * 500), user("Two?"), assistant("2."), user("Three?")
        >>> view = await Pipeline(TruncateOldest(), budget=200).prepare(transcript("openai-chat", *turns))
        >>> [message["content"] for message in view.messages]
        ['One?', 'Two?', '2.', 'Three?']
    """

    keep_pairs: bool = field(default=False, validator=TRUTH)
    min_messages: int = field(default=0, validator=whole_number(0))
    protect_roles: frozenset[str] = field(default=frozenset(), converter=_roles, validator=_ROLES)

    def least(self, context: Context, call: Call, /) -> int:
        """What is protected and what must stay, in tokens."""
        return _least_of(self._pieces(context, staying_places(context, call), call))

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context without as much of its beginning as must go."""
        return self._reduced(context, call, self._beginning)

    def _beginning(self, context: Context, layout: Layout, aim: int, call: Call) -> tuple[list[Piece], str]:
        """The first pieces that may go, as many as must; all of them where too few messages would be left."""
        loose = [piece for piece in self._pieces(context, layout.staying, call) if not piece.stays]
        gone = oldest(loose, aim - layout.size + tokens_together(loose))
        if len(context.messages) - sum(map(len, gone)) >= self.min_messages:
            return gone, oldest_first(aim)
        why = f"fewer than {self.min_messages} messages would be left"
        call.remark(why)
        return loose, f"{why}: all that may go"

    def _pieces(self, context: Context, places: frozenset[int], call: Call) -> list[Piece]:
        messages = context.messages
        protected = (index for index, message in enumerate(messages) if message.role in self.protect_roles)
        return pieces(messages, places.union(protected), call, pairs=self.keep_pairs)


@library_stage
@frozen
class TrimRounds(ContextStrategy):
    """Keep the last ``max_rounds`` rounds, with the questions that began them, and everything protected.

    A round is an assistant turn with all its tool results. Of what ``Protect.prefer`` names, rounds are kept before
    others that are newer, but for the last one, and the user's words stay.

    Args:
        max_rounds: How many rounds to keep; at least 1.

    Raises:
        ConfigError: If ``max_rounds`` is below 1.

    Example:
        >>> from agentctx import Pipeline, TrimRounds
        >>> from agentctx.testing import assistant, transcript, user
        >>> turns = user("One?"), assistant("1."), user("Two?"), assistant("2."), user("Three?")
        >>> messages = transcript("openai-chat", *turns)
        >>> [message["content"] for message in (await Pipeline(TrimRounds(max_rounds=1)).prepare(messages)).messages]
        ['One?', 'Two?', '2.', 'Three?']
    """

    max_rounds: int = field(validator=whole_number(1))
    when: ClassVar[When] = When.UNDER_PRESSURE

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context with the older rounds dropped."""
        bundles = segments(context.messages, units(context.messages))
        rounds = [index for index, bundle in enumerate(bundles) if bundle[-1].is_round]
        if len(rounds) <= self.max_rounds:
            return context
        named, stop = call.preferred(context), bundles[rounds[-1]][0].start
        older = sorted(rounds[:-1], key=lambda place: (named.isdisjoint(bundles[place][-1].places), -place))
        kept = {rounds[-1], *older[: self.max_rounds - 1]}
        loose = [unit for place, bundle in enumerate(bundles) if place not in kept for unit in bundle]
        old = [unit for unit in loose if unit.start < stop and (unit.is_round or named.isdisjoint(unit.places))]
        why = f"older than the last {self.max_rounds} rounds"
        return without(context, droppable(old, call.protected(context).union(call.unread(context))), call, why)


TierOf = Callable[[Sequence[Message]], int]
"""Given the messages of a round, or a single message beside the rounds, the tier that it belongs to."""


def in_history(_messages: Sequence[Message], /) -> int:
    """Everything is ``HISTORY``."""
    return Tier.HISTORY


def _by_name(tiers: Mapping[str, int]) -> Mapping[str, Tier]:
    return {name: as_tier(tier) for name, tier in tiers.items()}


@frozen
class ByTools:
    """Rounds by the tools that they call; all else is ``HISTORY``.

    Args:
        tiers: The tier of each tool, by its name. A round with calls of several tools belongs to the strongest tier
            among them; a tool without an entry counts as ``HISTORY``.

    Example:
        >>> from agentctx import Tiered
        >>> from agentctx.builder import Tier
        >>> from agentctx.strategies import ByTools
        >>> stage = Tiered(tier_of=ByTools({"read_plan": Tier.CORE, "search": Tier.RAG}))
    """

    tiers: Mapping[str, Tier] = field(converter=_by_name, hash=False)

    def __call__(self, messages: Sequence[Message], /) -> int:
        """The tier of these messages."""
        called = [self.tiers.get(call.name, Tier.HISTORY) for message in messages for call in message.calls]
        return min(called, default=Tier.HISTORY)


@library_stage
@frozen
class Tiered(ContextStrategy):
    """Allocate the window to tiers, and drop whole rounds of those that have more than their grant, oldest first.

    Protected messages and the round that the model is in stay; the tiers share what these leave. So do results that
    the model has not read, though the user speaks behind them; these count in their tier. A question goes with the
    first round of its own tier after it. What is left over because only whole rounds go is given back.
    Without rules the tiers are served in order: ``HISTORY`` gives way to whatever ``tier_of`` puts before it.

    A session looks at the tiers, and at their caps, when the request has passed its trigger, and not at every step:
    a cap that held at each would move the prefix with every new round of its tier. Without a session the prefix moves
    at every call that is too large: measured, 1.5 to 1.8 times the cost of sending everything, where the provider's
    cache is used; the report's forecast says so.

    Args:
        rules: Floors, shares and caps of single tiers.
        tier_of: Which tier a round belongs to, for example ``ByTools({"search_docs": Tier.RAG})``.
        max_tokens: The most tokens of the request; without it the pipeline's budget holds.

    Raises:
        ConfigError: If a tier has two rules, or an option makes no sense.

    Example:
        >>> from agentctx import Pipeline, Tiered
        >>> from agentctx.builder import Tier
        >>> from agentctx.strategies import ByTools
        >>> stage = Tiered(tier_of=ByTools({"read_plan": Tier.CORE}))
        >>> pipeline = Pipeline(stage, budget=8_000)
    """

    rules: tuple[TierRule, ...] = field(default=(), converter=as_tuple, validator=check_rules)
    tier_of: TierOf = field(default=in_history, validator=_TIER_OF, kw_only=True)
    max_tokens: int | None = field(default=None, validator=whole_number(1).or_none, kw_only=True)
    when: ClassVar[When] = When.UNDER_PRESSURE

    @property
    def budget(self) -> Budget | None:
        """The budget that this stage carries itself, if any."""
        return None if self.max_tokens is None else Budget(self.max_tokens)

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context without the rounds that their tiers have no room for."""
        limit, aim = limits("Tiered", self.max_tokens, call)
        if call.size(context) <= aim and all(rule.cap is None for rule in self.rules):
            return context
        context, layout = shrink_open_round(context, limit, call)
        aim = aiming_below(aim, layout.floor, call)
        tiers = self._pieces(context, layout.loose, call)
        held = self._held(context.messages, layout.unread, call)
        gone = self._over(tiers, held, max(0, aim - layout.floor))
        return without(context, units_of(gone), call, f"over the room of its tier, in {aim:,} tokens: oldest first")

    def _pieces(self, context: Context, loose: Iterable[Unit], call: Call) -> dict[Tier, list[Piece]]:
        """What may be dropped, by tier, oldest first, what the caller prefers last; questions with their next round."""
        messages = context.messages
        tiers: dict[Tier, list[Piece]] = defaultdict(list)
        waiting: dict[Tier, list[Unit]] = defaultdict(list)
        for unit in loose:
            tier = as_tier(self.tier_of(unit.of(messages)))
            waiting[tier].append(unit)
            if unit.is_round:
                tiers[tier].append(piece_of(waiting.pop(tier), messages, call))
        for tier, unanswered in waiting.items():
            tiers[tier].append(piece_of(unanswered, messages, call))
        return {tier: preferred_last(found, context, call) for tier, found in sorted(tiers.items())}

    def _held(self, messages: Sequence[Message], unread: Iterable[Unit], call: Call) -> dict[Tier, int]:
        """Tokens of the rounds of each tier that stay because the model has not read them."""
        held: dict[Tier, int] = defaultdict(int)
        for unit in unread:
            held[as_tier(self.tier_of(unit.of(messages)))] += piece_of((unit,), messages, call).tokens
        return held

    def _over(self, tiers: Mapping[Tier, Sequence[Piece]], held: Mapping[Tier, int], room: int) -> list[Piece]:
        """The pieces that there is no room for, beside those of their tiers that are held."""
        rules = {rule.tier: rule for rule in self.rules}
        claims = [_beside(rules.get(tier) or TierRule(tier), held.get(tier, 0)) for tier in tiers]
        sizes = list(map(tokens_together, tiers.values()))
        granted = zip(tiers.values(), allocate(sizes, claims, room), strict=True)
        cuts = [oldest(pieces, grant) for pieces, grant in granted]
        spare = room - sum(size - tokens_together(cut) for size, cut in zip(sizes, cuts, strict=True))
        for claim, size, cut in zip(claims, sizes, cuts, strict=True):
            used = size - tokens_together(cut)
            back = newest(cut, spare if claim.cap is None else min(spare, claim.cap - used))
            spare -= tokens_together(back)
            del cut[len(cut) - len(back) :]
        return [piece for cut in cuts for piece in cut]


def _beside(rule: TierRule, held: int) -> TierRule:
    """The rule for the rest of a tier of which so many tokens are held."""
    cap = None if rule.cap is None else max(0, rule.cap - held)
    return evolve(rule, floor=max(0, rule.floor - held), cap=cap)


def pieces(messages: Sequence[Message], places: frozenset[int], call: Call, *, pairs: bool = False) -> list[Piece]:
    """Take messages to pieces, in order and without gaps."""
    groups = units(messages)
    found = []
    for group in _with_questions(messages, groups) if pairs else ((unit,) for unit in groups):
        stays = not all(places.isdisjoint(unit.places) for unit in group)
        found.append(piece_of(group, messages, call, stays=stays))
    return found


def _with_questions(messages: Sequence[Message], groups: Sequence[Unit]) -> Iterator[tuple[Unit, ...]]:
    """Units, a user's message joined with the round directly after it."""
    waiting: tuple[Unit, ...] = ()
    for unit in groups:
        if unit.is_round:
            yield (*waiting, unit)
            waiting = ()
            continue
        if waiting:
            yield waiting
        waiting = (unit,)
        if messages[unit.start].role != "user":
            yield waiting
            waiting = ()
    if waiting:
        yield waiting


def _least_of(found: Iterable[Piece]) -> int:
    """Tokens of the pieces that stay."""
    return tokens_together(piece for piece in found if piece.stays)


def staying_places(context: Context, call: Call) -> frozenset[int]:
    """Indexes of the messages that no reducer drops."""
    return lay_out(context, call, unread=len(context.messages)).staying


def staying(context: Context, call: Call) -> list[Message]:
    """The messages that no reducer drops."""
    return [context.messages[index] for index in sorted(staying_places(context, call))]


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
