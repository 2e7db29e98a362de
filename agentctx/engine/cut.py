"""What is protected, and what a cut takes of the rest."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from operator import attrgetter, is_not
from typing import NamedTuple

from attrs import Factory, field, frozen
from attrs.validators import and_, instance_of, min_len, not_

from agentctx.budget import each_that_fits, until_full
from agentctx.engine.shrink import (
    CLEARED,
    SMALLEST,
    Cut,
    argument_cut,
    capped,
    cleared,
    cleared_with_pointer,
    cut_arguments,
    cut_to_tokens,
    edit_results,
    level_of_words,
    shrink_results,
    smallest,
    water_level,
)
from agentctx.marks import is_recap
from agentctx.message import Context, Message, Part, Text, ToolCall, ToolResult, marks_in
from agentctx.protocols import Call
from agentctx.unit import (
    Preferred,
    ProtectRule,
    Unit,
    first_task,
    has_user_words,
    last_words,
    segments,
    system_messages,
    units,
    words,
)
from agentctx.validators import NAMES, MustBe, function, list_of, whole_number

_TOOLS = MustBe("the names of tools, at least one", and_(NAMES, min_len(1)))
_INDEXES = list_of(MustBe("a whole number", and_(instance_of(int), not_(instance_of(bool)))), "whole numbers")


class Protect:
    """Rules for ``Pipeline(protect=[...])``: what they name is neither dropped nor edited, tool results included.

    Without any rule the system prompt, the first task and the latest user message survive.

    A request that the provider takes goes first: reasoning that is bound to a prefix which a cut has changed, or that
    is another model's, goes all the same, as does what is repaired at the entry; all else of the message stays. The
    report says so.

    Example:
        >>> from agentctx import Pipeline, Protect, TrimRounds
        >>> from agentctx.testing import assistant, transcript, user
        >>> turns = user("One?"), assistant("1."), user("Two?"), assistant("2."), user("Three?")
        >>> messages = transcript("openai-chat", *turns)
        >>> view = await Pipeline(TrimRounds(1), protect=[Protect.pins(1)]).prepare(messages)
        >>> [message["content"] for message in view.messages]
        ['One?', '1.', 'Two?', '2.', 'Three?']
    """

    @staticmethod
    def system() -> ProtectRule:
        """All system and developer messages."""
        return system_messages

    @staticmethod
    def first_task() -> ProtectRule:
        """The first message in which the user says something."""
        return first_task

    @staticmethod
    def last_user(count: int = 1) -> ProtectRule:
        """The last ``count`` messages in which the user says something.

        Raises:
            ConfigError: If ``count`` is below 1.
        """
        whole_number(1).check("Protect.last_user.count", count)
        return LastUser(count)

    @staticmethod
    def tools(*names: str) -> ProtectRule:
        """Calls of these tools and their results.

        Args:
            names: The names of the tools, as the model calls them.

        Raises:
            ConfigError: If no tool is named, or something is no name.
        """
        _TOOLS.check("Protect.tools.names", names)
        return OfTools(frozenset(names))

    @staticmethod
    def where(predicate: Callable[[Message], bool]) -> ProtectRule:
        """Every message for which ``predicate`` is true.

        Raises:
            ConfigError: If ``predicate`` cannot be called.
        """
        function("a function of one message").check("Protect.where.predicate", predicate)
        return Where(predicate)

    @staticmethod
    def prefer(rule: ProtectRule) -> ProtectRule:
        """What ``rule`` names goes last: a cut takes it only where the budget cannot be kept without.

        Args:
            rule: A rule of this class, or a function from the messages to indexes.

        Raises:
            ConfigError: If ``rule`` cannot be called.

        Example:
            >>> from agentctx import FitContextWindow, Pipeline, Protect
            >>> from agentctx.testing import assistant, transcript, user
            >>> turns = user("One?"), assistant("1."), assistant("2. " * 500), user("Two?")
            >>> soft = Protect.prefer(Protect.where(lambda message: message.text == "1."))
            >>> view = await Pipeline(FitContextWindow(), budget=100, protect=[soft]).prepare(
            ...     transcript("openai-chat", *turns))
            >>> [message["content"] for message in view.messages]
            ['One?', '1.', 'Two?']
        """
        RULE.check("Protect.prefer.rule", rule)
        return Preferred(rule)

    @staticmethod
    def pins(*indexes: int) -> ProtectRule:
        """The messages at these indexes of what is passed to ``prepare``; negative ones count from the end.

        Raises:
            ConfigError: If one is no whole number.
        """
        _INDEXES.check("Protect.pins.indexes", indexes)
        return Pins(indexes)


@frozen
class LastUser:
    """The last ``count`` messages in which the user says something."""

    count: int

    def __call__(self, messages: Sequence[Message]) -> Iterable[int]:
        """Their indexes."""
        return last_words(messages, self.count)


@frozen
class OfTools:
    """Calls of the named tools, and their results."""

    names: frozenset[str]

    def __call__(self, messages: Sequence[Message]) -> Iterable[int]:
        """The indexes of the messages that hold such a call or such a result."""
        for unit in units(messages):
            ids: set[str] = set()
            for index in unit.places:
                for part in messages[index].parts:
                    if isinstance(part, ToolCall) and part.name in self.names:
                        ids.add(part.id)
                        yield index
                    elif isinstance(part, ToolResult) and (part.call_id in ids or part.name in self.names):
                        yield index


@frozen
class Where:
    """The messages for which a predicate is true."""

    predicate: Callable[[Message], bool]

    def __call__(self, messages: Sequence[Message]) -> Iterable[int]:
        """Their indexes."""
        return [index for index, message in enumerate(messages) if self.predicate(message)]


@frozen
class Pins:
    """The messages at fixed indexes of what was passed in; bound to these messages when a step begins."""

    indexes: tuple[int, ...]

    def __call__(self, messages: Sequence[Message]) -> Iterable[int]:
        """Those of the indexes that exist."""
        return self.of(len(messages))

    def of(self, length: int) -> list[int]:
        """Those of the indexes that exist in a history of this many messages, counted from its start."""
        return [index % length for index in self.indexes if -length <= index < length]

    def bound(self, history_length: int, message_at: Callable[[int], Message | None]) -> ProtectRule:
        """The rule for the messages that stand at these indexes now, wherever a stage may move them.

        Args:
            history_length: How many messages were passed in.
            message_at: The message read from what was passed in at an index; None when it is gone.
        """
        length = history_length
        pinned = [message_at(index % length) for index in self.indexes if -length <= index < length]
        return Pinned(tuple(message for message in pinned if message is not None))


@frozen
class Pinned:
    """These very messages, recognised by their native payload."""

    messages: tuple[Message, ...] = field(eq=False)

    def __call__(self, messages: Sequence[Message]) -> Iterable[int]:
        """Their indexes."""
        wanted = {message.identity for message in self.messages}
        return [index for index, message in enumerate(messages) if message.identity in wanted]


def bind(
    rules: Iterable[ProtectRule], history_length: int, message_at: Callable[[int], Message | None]
) -> tuple[ProtectRule, ...]:
    """The rules with their pins bound to the messages of this step."""
    return tuple(_bound(rule, history_length, message_at) for rule in rules)


def _bound(rule: ProtectRule, history_length: int, message_at: Callable[[int], Message | None]) -> ProtectRule:
    if isinstance(rule, Preferred):
        return Preferred(_bound(rule.rule, history_length, message_at))
    return rule.bound(history_length, message_at) if isinstance(rule, Pins) else rule


OUT_OF_PROPORTION = 0.1
"""A result that takes more than this share of the room is cut before another goes for it."""

RECENT = 0.5
"""So much of the room the newest results have before a round is dropped for them."""

OF_THE_NEWEST = 0.5
"""The newest round with results stays whole where it takes no more than this share of the room; the rest has this share
of the room that the cut aims at, or more."""

OF_THE_USER = 0.2
"""So much of the room the user's own words may take before they are cut, and before a round goes for them."""

OLD_RESULTS = "old results first"
"""What is said of a result that was cleared."""

LONG_ARGUMENT = 200
"""Tokens; a string in the arguments of an old call that is longer may be cut to its head and tail."""


def cut(context: Context, limit: int, aim: int, call: Call) -> Context:
    """The request with at most ``aim`` tokens, as far as what may go allows.

    What is protected stays, and so do the round that the model is in and results that it has not read; when they alone
    are over ``limit`` tokens, or leave the user's words no room below it, the results among them are cut first. Where
    they leave these no room below ``aim``, it comes down less far.

    Args:
        context: The request.
        limit: The most tokens that it may have.
        aim: The tokens to come down to, and less by what is reserved for the recap, as far as the user's words leave
            room for that; more where these need it.
        call: What the stage is told.
    """
    context, layout = shrink_open_round(context, limit, call)
    loose, without_recap = list(layout.loose), _floor(context, layout.protected, call)
    for_words = int(OF_THE_USER * max(0, limit - without_recap))
    held = min(for_words, _said(context, loose, call), max(0, aim - without_recap))
    context, layout = _with_room_beside(context, limit, without_recap, held, call, layout)
    least = min(limit, layout.floor + held)
    loose, aim, room = _aimed(context, limit, max(least, aiming_below(aim, least, call)), held, call, layout, loose)
    while True:
        made = _Cutting(context, call, loose, max(0, room), for_words, f"to come down to {aim:,} tokens").made()
        over = call.size(made) - aim
        if over <= 0 or room <= 0:
            return made
        room -= over  # what was counted part by part may be a few tokens more together


def _with_room_beside(
    context: Context, limit: int, without_recap: int, held: int, call: Call, layout: Layout
) -> tuple[Context, Layout]:
    """The request with results of what stays cut as far as the user's words and the recap need it, laid out anew.

    Args:
        context: The request.
        limit: The most tokens that it may have.
        without_recap: Tokens that no cut can take away, without the recap that stands.
        held: Tokens for the user's words.
        call: What the stage is told.
        layout: What may go.
    """
    loose = layout.loose
    if held > limit - layout.floor:
        context, layout = cut_what_stays(context, limit - held, call, layout, len(layout.unread))
    if loose:
        for_recap = _for_recap(call, limit - without_recap)
        context, layout = make_room(context, layout.floor + held + for_recap - limit, call, layout)
    return context, layout


def _aimed(
    context: Context, limit: int, aim: int, held: int, call: Call, layout: Layout, loose: list[Unit]
) -> tuple[list[Unit], int, int]:
    """The units of which any may go, the tokens at which the cut aims, and how many of these are for such units.

    What goes last stays whole where there is room for it, and then the newest round with results, for which the cut
    comes down less far.
    """
    loose, room = _without_preferred(context, loose, aim - layout.floor, call)
    beside = aim - room
    for_newest = max(aim, limit - _for_recap(call, limit - layout.floor)) - beside
    newest = _newest_results(context, layout, loose, for_newest, call)
    if newest is None:
        return loose, aim, room
    loose, taken = [unit for unit in loose if unit is not newest], tokens_of(newest.of(context.messages), call)
    room = _beside_newest(taken, for_newest, room, min(held, room, _said(context, loose, call)))
    return loose, beside + taken + room, room


def _beside_newest(taken: int, room: int, aimed: int, words: int) -> int:
    """The room beside a newest round that stays whole.

    Args:
        taken: Tokens that the round takes.
        room: Tokens for it and the rest, at most.
        aimed: Tokens for them at which the cut aims.
        words: So many tokens of it the user's words may take.
    """
    return max(aimed - taken, min(room - taken, max(int(OF_THE_NEWEST * aimed), words)))


def left_whole(context: Context, call: Call) -> frozenset[int]:
    """Where the newest round with results stands, while it takes no more than half of the room; empty without a budget.

    Args:
        context: The request.
        call: What a stage is told that cuts results or arguments before ``cut`` is asked.
    """
    if call.limit is None:
        return frozenset()
    limit = call.limit if call.budget is None else call.budget.limit
    layout = lay_out(context, call, unread=len(context.messages))
    room = max(0, limit - layout.floor)
    newest = _newest_results(context, layout, layout.loose, room - _for_recap(call, room), call)
    return frozenset() if newest is None else frozenset(newest.places)


def _said(context: Context, loose: Iterable[Unit], call: Call) -> int:
    """The tokens of the user's own words in units."""
    messages = (context.messages[index] for unit in loose for index in unit.places)
    return sum(call.count(_words_of(message)) for message in messages if has_user_words(message))


def _without_preferred(context: Context, loose: list[Unit], room: int, call: Call) -> tuple[list[Unit], int]:
    """The units without those that go last, as far as there is room for these, and what room that leaves."""
    named = call.preferred(context)
    if not named:
        return loose, room
    last = [unit for unit in loose if not named.isdisjoint(unit.places)]
    held = until_full(reversed(last), lambda unit: tokens_of(unit.of(context.messages), call), room)
    kept = {unit.start for unit in held}
    taken = sum(tokens_of(unit.of(context.messages), call) for unit in held)
    return [unit for unit in loose if unit.start not in kept], room - taken


def _newest_results(context: Context, layout: Layout, loose: Sequence[Unit], room: int, call: Call) -> Unit | None:
    """The newest unit with results, where it may go and takes no more than its part of the room; else None.

    The model has just asked for these; those that it has not even read stay anyway.
    """
    messages, free = context.messages, {unit.start for unit in loose}
    if call.internals.stays is not None:
        return None
    found = next((unit for unit in reversed(layout.units) if any(each.results for each in unit.of(messages))), None)
    if found is None or found.start not in free or layout.unread:
        return None
    most = room if call.budget is None else room - max(0, call.budget.limit - call.budget.trigger_tokens)
    return found if tokens_of(found.of(messages), call) <= OF_THE_NEWEST * most else None


class _Forms(NamedTuple):
    """A message that may be shorter, from what must stay of it while its segment stays to all of it.

    Args:
        place: Where it stands.
        bare: With its results cleared, its long arguments cut, or its words cut to the user's share of the room.
        tight: With results that are out of proportion cut.
        whole: As it is.
        kinds: What there is in it.
        more: How many tokens more ``tight`` has than ``bare``.
    """

    place: int
    bare: Message
    tight: Message
    whole: Message
    kinds: Container[type[Part]]
    more: int

    @property
    def has_results(self) -> bool:
        """Whether there are results in it."""
        return ToolResult in self.kinds

    @property
    def is_words(self) -> bool:
        """Whether it is the user's words alone."""
        return self.whole.role == "user" and not self.has_results


_MORE = attrgetter("more")


class _Segment(NamedTuple):
    """What the user says and the round that answers, which may go; with what it takes, in tokens.

    Args:
        bare: All its messages by their place, as bare as they get.
        longer: Those that may be more than that.
        size: Tokens of ``bare``.
        more: How many more with results and arguments, as far as these are in proportion, and the user's words bare.
    """

    bare: Mapping[int, Message]
    longer: Sequence[_Forms]
    size: int
    more: int


@frozen
class _Cutting:
    """One cut.

    Args:
        context: The request.
        call: What the stage is told.
        loose: The units of which any may go, oldest first.
        room: Tokens for what stays of these.
        for_words: So many of them the user's words may take before a round goes for them, or one of them is cut.
        why: What is said of each message that is touched.
        cap: Tokens; a result with more is out of proportion.
    """

    context: Context
    call: Call
    loose: Sequence[Unit]
    room: int
    for_words: int
    why: str
    cap: int = field(
        init=False, default=Factory(lambda self: max(SMALLEST, int(OUT_OF_PROPORTION * self.room)), takes_self=True)
    )

    def made(self) -> Context:
        """The request that is left: the newest segments, and of those before them the user's words."""
        spoken, found = self._spoken(), segments(self.context.messages, list(filter(self._may_stay, self.loose)))
        kept = self._newest(found, spoken)
        now = {place: message for segment in kept for place, message in segment.bare.items()}
        older = {place: message for place, message in spoken.items() if place not in now}
        left, more = self.room - sum(segment.size for segment in kept), sum(segment.more for segment in kept)
        older = self._shortened(older, left - min(more, int(RECENT * self.room)))
        self._restore(kept, left - sum(map(self.call.count, older.values())), now)
        return self._assembled(self._filled(older | now, found[: len(found) - len(kept)]))

    def _may_stay(self, unit: Unit) -> bool:
        """Whether there is room for it at all, even if it is words of the user's that cannot be cut any more."""
        return unit.is_round or self._segment((unit,)).size <= self.room

    def _filled(self, now: dict[int, Message], before: Sequence[Sequence[Unit]]) -> dict[int, Message]:
        """What stays, with as many segments before those that are kept as fit when bare."""
        count = self.call.count
        left = self.room - sum(map(count, now.values()))
        for group in reversed(before):
            bare = self._segment(group).bare
            more = {place: each for place, each in bare.items() if place not in now or each.results}
            left -= sum(count(each) - (count(now[place]) if place in now else 0) for place, each in more.items())
            if left < 0:
                break
            now |= more
        return now

    def _spoken(self) -> dict[int, Message]:
        """The user's own words by the index of their message; of one with results beside them, the words alone."""
        messages = self.context.messages
        places = (index for unit in self.loose for index in unit.places)
        return {index: _words_of(messages[index]) for index in places if has_user_words(messages[index])}

    def _newest(self, found: Sequence[Sequence[Unit]], spoken: Mapping[int, Message]) -> list[_Segment]:
        """The segments that stay, latest first: as many as there is room for with results of the newest.

        A fifth of the room of a request is for the user's words before them, if there are so many.
        """
        words_before, size, more = sum(map(self.call.count, spoken.values())), 0, 0
        kept = []
        for group in reversed(found):
            segment = self._segment(group)
            size, more = size + segment.size, more + segment.more
            words_before -= sum([self.call.count(spoken[place]) for place in segment.bare if place in spoken])
            of_the_user = min(words_before, self.for_words)
            if size + min(more, int(RECENT * self.room)) + of_the_user > self.room:
                break
            kept.append(segment)
        return kept

    def _segment(self, units: Iterable[Unit]) -> _Segment:
        messages, count = self.context.messages, self.call.meter.message
        bare: dict[int, Message] = {}
        longer: list[_Forms] = []
        size = more = 0
        for unit in units:
            for place in unit.places:
                message = messages[place]
                forms = self._forms(place, message)
                if forms is not None:
                    message = forms.bare
                    longer.append(forms)
                    more += 0 if forms.is_words else forms.more
                bare[place] = message
                size += count(message)
        return _Segment(bare, longer, size, more)

    def _shortened(self, spoken: dict[int, Message], room: int) -> dict[int, Message]:
        """The words in ``room`` tokens: the longest cut, and then the oldest dropped."""
        sizes = [self._text_tokens(message) for message in spoken.values()]
        spare = sum(map(self.call.count, spoken.values())) - room
        if spare <= 0:
            return spoken
        longest = max(spoken.values(), key=self._text_tokens)
        mark = self.call.meter.counter.count(Cut().pointing(self.call.pointer(longest)).mark(len(longest.text)))
        costs = [0 if marks_in(message.parts) else mark for message in spoken.values()]
        cap = level_of_words(sizes, costs, spare)
        shorter = {index: self._with_shorter_text(message, cap) for index, message in spoken.items()}
        newest = each_that_fits(reversed(shorter), lambda index: self.call.count(shorter[index]), room)
        return {index: shorter[index] for index in sorted(newest)}

    def _text_tokens(self, message: Message) -> int:
        return self.call.meter.parts(tuple(part for part in message.parts if isinstance(part, Text)))

    def _with_shorter_text(self, message: Message, cap: int) -> Message:
        """The message with at most ``cap`` tokens of text, or a few for each part more."""
        if self._text_tokens(message) <= cap:
            return message
        count = self.call.meter.counter.count
        texts = [count(part.text) for part in message.parts if isinstance(part, Text)]
        level = water_level(texts, self._text_tokens(message) - cap)
        pointer = self.call.pointer(message)
        how, level = Cut().pointing(pointer), max(smallest(pointer, self.call), level)

        def shorter(part: Part) -> Part:
            if not isinstance(part, Text):
                return part
            text = cut_to_tokens(part, level, self.call.meter.counter, how)
            won = self.call.meter.counter.count(part.text) - self.call.meter.counter.count(text.text)
            cost = 0 if part.marks else self.call.meter.counter.count(how.mark(len(part.text)))
            if won <= cost or not text.text.strip():
                return part  # more would be written than is won: then it goes as a whole
            return text

        parts = tuple(map(shorter, message.parts))
        return message.with_parts(parts) if any(map(is_not, parts, message.parts)) else message

    def _restore(self, kept: Sequence[_Segment], left: int, now: dict[int, Message]) -> None:
        """Put back what was made bare in the segments that stay, the newest first, in ``left`` tokens more."""
        forms = [each for segment in kept for each in reversed(segment.longer)]
        longer = [each for each in forms if each.more]
        results = [each for each in longer if each.has_results]
        spoken = [each for each in longer if each.is_words]
        others = [each for each in longer if ToolCall in each.kinds]
        held_back = min(sum(map(_MORE, results)), int(RECENT * self.room))
        left -= self._put_back(spoken, left - held_back, now)
        left -= self._put_back(others, left - held_back, now)
        left -= self._put_back(results, left, now)
        if all(now[each.place] is each.tight for each in results):
            left -= self._put_back([each for each in spoken + others if now[each.place] is each.bare], left, now)
            self._loosen(forms, left, now)

    def _forms(self, place: int, message: Message) -> _Forms | None:
        """What a message may become: its results cleared or capped, its long arguments cut, the user's words cut.

        None where it stays as it is in any case.
        """
        kinds, count, bare, tight = list(map(type, message.parts)), self.call.meter.message, message, message
        if ToolResult in kinds:
            unnamed = self.call.internals.shelf is None
            bare = edit_results(message, cleared if unnamed else partial(self._cleared, message))
            tight = self._capped(message, self.cap)
        elif ToolCall in kinds:
            if any(map(_may_be_long, message.calls)):
                bare = cut_arguments(message, argument_cut(message, LONG_ARGUMENT, self.call), _may_be_long)
        elif has_user_words(message):
            bare = self._with_shorter_text(message, max(SMALLEST, self.for_words))
        if bare is tight is message:
            return None
        return _Forms(place, bare, tight, message, kinds, 0 if tight is bare else count(tight) - count(bare))

    def _cleared(self, message: Message, result: ToolResult) -> ToolResult:
        made = cleared(result)
        if made is result or not (pointer := self.call.pointer(message, result)):
            return made
        return cleared_with_pointer(result, CLEARED, pointer, self.call)

    def _capped(self, message: Message, cap: int) -> Message:
        if self.call.meter.weight(message) <= cap:  # then no text in it has more characters
            return message

        def shorter(result: ToolResult) -> ToolResult:
            return capped(message, result, cap, self.call)

        return edit_results(message, shorter)

    def _put_back(self, forms: Iterable[_Forms], room: int, now: dict[int, Message]) -> int:
        """Put back what was cleared, in order, up to the first that does not fit; the tokens that it takes."""
        fitting = until_full(forms, _MORE, room)
        now.update((each.place, each.tight) for each in fitting)
        return sum(map(_MORE, fitting))

    def _loosen(self, forms: Sequence[_Forms], room: int, now: dict[int, Message]) -> None:
        """Put back whole what is out of proportion, the smallest first; of the first that does not fit, what does."""
        count = self.call.count
        tall = [each for each in forms if (each.has_results or each.is_words) and now[each.place] is not each.whole]
        for each in sorted(tall, key=lambda each: count(each.whole)):
            more = count(each.whole) - count(now[each.place])
            if more > room:
                made = self._less_cut(each, room)
                now[each.place] = made if count(made) <= count(now[each.place]) + room else now[each.place]
                return
            now[each.place] = each.whole
            room -= more

    def _less_cut(self, forms: _Forms, room: int) -> Message:
        """The message with as much of what was cut from it as ``room`` tokens take."""
        if forms.is_words:
            return self._with_shorter_text(forms.whole, self._text_tokens(forms.bare) + room)
        return self._capped(forms.whole, self.cap + room)

    def _assembled(self, now: Mapping[int, Message]) -> Context:
        """The request with what stays of the units that may go, and why of each."""
        messages, note = self.context.messages, self.call.note
        left: list[Message | None] = [*messages]
        for unit in self.loose:
            for place in unit.places:
                message, made = messages[place], now.get(place)
                if made is not message:
                    note(message, self._reason(message, made))
                    left[place] = made
        return self.context.with_messages(tuple([message for message in left if message is not None]))

    def _reason(self, message: Message, made: Message | None) -> str:
        if made is None:
            return f"{self.why}: oldest first"
        if not message.results:
            return f"{self.why}: the longest words cut" if has_user_words(message) else f"{self.why}: arguments cut"
        gone = made.results != message.results and all(map(_is_cleared, made.results))
        return f"{self.why}: {OLD_RESULTS}" if gone else f"{self.why}: the largest results cut"


def _floor(context: Context, protected: Iterable[int], call: Call) -> int:
    """Tokens that no cut can take away, without the recap that stands."""
    messages = (context.messages[index] for index in protected)
    return call.meter.fixed(context) + sum(call.count(message) for message in messages if not is_recap(message))


def _words_of(message: Message) -> Message:
    """The user's words in a message, without the results beside them."""
    return message.with_parts(words(message)) if message.results else message


def _may_be_long(call: ToolCall) -> bool:
    """Whether a string in the arguments of a call may be longer than the arguments of an old call may be."""
    return len(call.arguments) > LONG_ARGUMENT


def _is_cleared(result: ToolResult) -> bool:
    """Whether it says only that it was cleared; one that was shorter than that stays, and counts as cleared."""
    return len(result.text) <= len(CLEARED) or result.text.startswith(CLEARED[:-1])


def droppable(groups: Sequence[Unit], protected: frozenset[int]) -> list[Unit]:
    """The units in which nothing is protected."""
    return [unit for unit in groups if protected.isdisjoint(unit.places)]


def without(context: Context, groups: Iterable[Unit], call: Call, why: str) -> Context:
    """The context without these units; the same object when there are none."""
    gone: set[int] = set()
    for unit in groups:
        gone.update(unit.places)
    if not gone:
        return context
    for index in gone:
        call.note(context.messages[index], why)
    kept = tuple(message for index, message in enumerate(context.messages) if index not in gone)
    return context.with_messages(kept)


@frozen(eq=False, repr=False)
class Piece:
    """Units that go or stay together."""

    units: tuple[Unit, ...]
    tokens: int
    stays: bool = False

    def __len__(self) -> int:
        """How many messages it holds."""
        return sum(map(len, self.units))


def piece_of(group: Iterable[Unit], messages: Sequence[Message], call: Call, *, stays: bool = False) -> Piece:
    """A piece made of these units."""
    whole = tuple(group)
    return Piece(whole, sum(tokens_of(unit.of(messages), call) for unit in whole), stays)


def tokens_of(messages: Iterable[Message], call: Call) -> int:
    """Tokens of messages."""
    return sum(map(call.count, messages))


def tokens_together(pieces: Iterable[Piece]) -> int:
    """Tokens of pieces."""
    return sum(piece.tokens for piece in pieces)


def units_of(pieces: Iterable[Piece]) -> Iterator[Unit]:
    """The units of pieces."""
    return chain.from_iterable(piece.units for piece in pieces)


def preferred_last(pieces: Sequence[Piece], context: Context, call: Call) -> list[Piece]:
    """The pieces, those in which the caller prefers something behind all others; see ``Protect.prefer``."""
    named = call.preferred(context)
    return sorted(pieces, key=lambda piece: any(not named.isdisjoint(unit.places) for unit in piece.units))


def newest(pieces: Sequence[Piece], room: int) -> list[Piece]:
    """The newest pieces, latest first, as many as there is room for."""
    return until_full(reversed(pieces), lambda piece: piece.tokens, room)


def oldest(pieces: Sequence[Piece], room: int) -> list[Piece]:
    """The oldest pieces, as many as must go so that the others have at most ``room`` tokens."""
    return list(pieces[: len(pieces) - len(newest(pieces, room))])


@frozen(eq=False, repr=False)
class Layout:
    """A request laid out for cutting.

    Args:
        units: All its units.
        loose: Those that may be dropped, oldest first.
        staying: Indexes of the messages that stay whatever happens: the protected, and the open round.
        size: Tokens of the whole request.
        floor: Tokens of what stays, with system prompt and tools.
        protected: Indexes of the messages that must not be dropped.
        unread: Units that stay only for their results, which the model has not read yet.
    """

    units: tuple[Unit, ...]
    loose: tuple[Unit, ...]
    staying: frozenset[int]
    size: int
    floor: int
    protected: frozenset[int]
    unread: tuple[Unit, ...] = ()


def lay_out(context: Context, call: Call, *, unread: int = 0) -> Layout:
    """Lay out a request: everything protected stays, and the round that the model is in; of a block what is protected.

    Args:
        context: The request.
        call: What the stage is told.
        unread: How many units stay as well for results that the model has not read yet, the latest first, whoever spoke
            behind them.
    """
    messages = context.messages
    groups, protected = units(messages), call.protected(context)
    is_block = call.internals.stays is not None
    last = groups[-1] if groups and groups[-1].is_round and not is_block else None
    loose = {unit.start: unit for unit in droppable(groups, protected) if unit is not last}
    unheard = _unread(groups, call.unread(context)) if unread and not is_block else ()
    waiting = tuple(islice((unit for unit in unheard if unit.start in loose), unread))
    for unit in waiting:
        del loose[unit.start]
    staying = frozenset(range(len(messages))).difference(*[unit.places for unit in loose.values()])
    floor = call.meter.fixed(context) + tokens_of([messages[index] for index in staying], call)
    return Layout(groups, tuple(loose.values()), staying, call.size(context), floor, protected, waiting)


def _unread(groups: Sequence[Unit], waiting: Sequence[int]) -> Iterator[Unit]:
    """The units with results that the model has not read, which stand in ``waiting``, latest first."""
    left = set(waiting)
    for unit in reversed(groups):
        if not left:
            return
        if not left.isdisjoint(unit.places):
            left.difference_update(unit.places)
            yield unit


FEW = 8
"""From so many rounds on that nobody has read, half are let go at a time where not all fit: few tries suffice."""


def shrink_open_round(context: Context, limit: int, call: Call) -> tuple[Context, Layout]:
    """Cut the results of what must stay, when that alone is over ``limit`` tokens, to half of the room they have.

    Results that the model has not read yet stay as well, though the user speaks behind them; where they do not fit even
    cut, the latest of them.

    Args:
        context: The request.
        limit: The most tokens.
        call: What the stage is told.

    Returns:
        The request, the same object when nothing was cut; and how it is laid out.
    """
    layout = lay_out(context, call, unread=len(context.messages))
    held = len(layout.unread)
    while True:
        smaller, layout = cut_what_stays(context, limit, call, layout, held)
        if layout.floor <= limit or not held:
            return smaller, layout
        held = held - 1 if held <= FEW else held // 2
        layout = lay_out(context, call, unread=held)


def cut_what_stays(context: Context, limit: int, call: Call, layout: Layout, held: int) -> tuple[Context, Layout]:
    """The request with the results cut of what stays, when that is over the limit, laid out anew."""
    if layout.floor <= limit or call.internals.stays is not None:
        return context, layout
    places = layout.staying - call.frozen(context)
    taken = sum(call.meter.parts(context.messages[index].results) for index in places)
    wanted = max(0, limit - (layout.floor - taken)) // 2
    shrunk = shrink_results(context, places, taken - wanted, call, "what must stay is larger than the window")
    return shrunk, layout if shrunk is context else lay_out(shrunk, call, unread=held)


def make_room(context: Context, spare: int, call: Call, layout: Layout) -> tuple[Context, Layout]:
    """The request with ``spare`` tokens less of results of what stays, as far as these have so many, laid out anew."""
    if spare <= 0 or call.internals.stays is not None:
        return context, layout
    places = layout.staying - call.frozen(context)
    shrunk = shrink_results(context, places, spare, call, "what must stay leaves the recap no room")
    return shrunk, layout if shrunk is context else lay_out(shrunk, call, unread=len(layout.unread))


PARTS_WITH_A_RECAP = 2
"""Of what may go, so much as one of this many equal parts makes room for the recap, at most."""


def _for_recap(call: Call, room: int) -> int:
    """The tokens of ``room`` that a cut leaves free for the recap."""
    return min(call.internals.reserved, max(0, room) // PARTS_WITH_A_RECAP)


def aiming_below(aim: int, floor: int, call: Call) -> int:
    """The tokens that a cut comes down to: less by what is reserved for the recap, as far as there is that to take.

    Args:
        aim: The tokens that the request may have.
        floor: Tokens of what stays whatever happens.
        call: What the stage is told.
    """
    return max(min(aim, floor), aim - _for_recap(call, aim - floor))


def oldest_first(aim: int) -> str:
    """Why the oldest rounds went."""
    return f"to come down to {aim:,} tokens: oldest first"


RULE = function("a rule, which is called with the messages: see Protect")
