"""Which messages stand or fall together: units, whole pairs of calls and results, and what still waits.

A unit is an assistant turn (a run of assistant messages, with its reasoning) and **all** the results of its calls,
or one message by itself. Results are found by order first and id second: a result belongs to the nearest open
turn before it, since real transcripts repeat call ids. A message with nothing but results of one turn belongs to that
turn wherever it stands, and what stands between does not; where words stand beside a result, all that is between goes
with it. Signed reasoning in a message of its own binds what the model does after it, results in between included,
until it thinks again or says something.
"""

from __future__ import annotations

import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, SupportsIndex, get_args

from attrs import Factory, define, evolve, field, frozen

from agentctx.errors import ConfigError
from agentctx.marks import Recap, is_recap
from agentctx.message import Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult, is_marker, server_ends


def _neighbours(unit: Unit) -> Sequence[int]:
    return range(unit.start, unit.stop)


@frozen
class Unit:
    """Messages that may only be kept or dropped together: neighbours, but for results that arrived late.

    Args:
        start: Index of the first message.
        stop: Index after the last message.
        is_round: Whether it is an assistant turn (with its results); else a single other message.
        places: The index of each of its messages, rising. Of those between ``start`` and ``stop`` that are not among
            them each belongs to another unit.

    Example:
        >>> from agentctx import Unit
        >>> len(Unit(1, 3, is_round=True))
        2
    """

    start: int
    stop: int
    is_round: bool
    places: Sequence[int] = field(default=Factory(_neighbours, takes_self=True), kw_only=True, repr=False)

    def of(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Its messages."""
        if isinstance(self.places, range):
            return messages[self.start : self.stop]
        return [messages[place] for place in self.places]

    def __len__(self) -> int:
        """How many messages it holds."""
        return len(self.places)


def units(messages: Sequence[Message], start: int = 0) -> tuple[Unit, ...]:
    """Group ``messages[start:]`` into units, by where they begin; each message is in one of them.

    No unit may go on from before ``start``.

    Example:
        >>> from agentctx import Message, Text, ToolCall, ToolResult, units
        >>> asked = Message("assistant", (ToolCall("a", "read", "{}"),))
        >>> answered = Message("tool", (ToolResult("a", (Text("…"),)),))
        >>> [len(unit) for unit in units([Message("user", (Text("Read it."),)), asked, answered])]
        [1, 2]
    """
    return tuple(iter_units(messages, start))


def iter_units(messages: Sequence[Message], start: int = 0) -> Iterator[Unit]:
    """The units of ``messages[start:]`` one by one."""
    index, end = start, len(messages)
    said, late = messages, _LateResults(messages, start)
    places: Sequence[int] = range(end)
    while index < end:
        is_round = said[index].role == "assistant"
        stop = _round_end(said, index, late) if is_round else index + 1
        if stop is None:  # from here on, look at each late result as though it stood with its turn
            places = _with_their_turns(messages, index)
            said = [messages[place] for place in places]
            index, end, late = 0, len(said), _LateResults(said, 0, gathered=True)
            continue
        yield Unit(index, stop, is_round) if said is messages else _unit(places[index:stop], is_round=is_round)
        index = stop


def _unit(places: Sequence[int], *, is_round: bool) -> Unit:
    if not isinstance(places, range):
        places = sorted(places)
    start, stop = places[0], places[-1] + 1
    if stop - start == len(places):
        return Unit(start, stop, is_round)
    return Unit(start, stop, is_round, places=tuple(places))


def seams(groups: Iterable[Unit]) -> list[int]:
    """Where units begin and none goes on that began before."""
    found, reach = [], 0
    for unit in groups:
        if unit.start >= reach:
            found.append(unit.start)
        reach = max(reach, unit.stop)
    return found


def _with_their_turns(messages: Sequence[Message], start: int) -> Sequence[int]:
    """The indexes from ``start`` on, those of late messages with nothing but results of one turn after that turn."""
    late = _late_answers(messages, start)
    answering: dict[int, list[int]] = defaultdict(list)
    for index, place in late.items():
        answering[place].append(index)
    order: list[int] = []
    waiting: list[int] = []
    for index in range(start, len(messages)):
        if index in late:
            continue
        if messages[index].role != "assistant":
            order += waiting
            waiting = []
        order.append(index)
        waiting += answering.get(index, ())
    return [*order, *waiting]


def _late_answers(messages: Sequence[Message], start: int) -> dict[int, int]:
    """For each message that came late with nothing but results, and these of one message, the index of that message."""
    open_calls: dict[str, list[int]] = defaultdict(list)
    late: dict[int, int] = {}
    turn, in_turn = start, False
    for index in range(start, len(messages)):
        message = messages[index]
        if message.role == "assistant":
            turn, in_turn = turn if in_turn else index, True
            for call in message.calls:
                open_calls[call.id].append(index)
            continue
        asking = {open_calls[each.call_id].pop() if open_calls[each.call_id] else -1 for each in message.results}
        alone = message.role == "tool" and len(asking) == 1 and only_results(message)
        if alone and -1 not in asking and min(asking) < turn:
            late[index] = asking.pop()
        else:
            in_turn = False
            turn = turn if asking and min(asking) >= turn else index
    return late


def _round_end(messages: Sequence[Message], start: int, late: _LateResults) -> int | None:
    """The end of the round that opens at ``start``: the assistant run, its results, and what goes on after them.

    None where a call is not answered at once, and late results do not stand with their turns yet.
    """
    index, end = start, len(messages)
    server_open: set[str] = set()
    bound = False
    while True:
        waiting: dict[str, int] = {}
        run = index
        while index < end and (message := messages[index]).role == "assistant":
            _note_calls(message, waiting, server_open)
            bound = bound or _only_thinks(message)
            index += 1
        while waiting and index < end and answers(messages[index], waiting):
            index += 1
        if waiting and index < end and not late.gathered:
            return None
        if waiting or server_open:
            between, index = index, late.end_of(run, index)
            for place in range(between, index):
                _note_server(messages[place], server_open)
        if index == end or messages[index].role != "assistant":
            return index
        if not server_open and not (bound and _only_acts(messages[index])):
            return index


def _note_calls(message: Message, waiting: dict[str, int], server_open: set[str]) -> None:
    """Note the calls of a message, and those of the provider's server that it opens or answers."""
    for part in message.parts:
        if isinstance(part, ToolCall):
            waiting[part.id] = waiting.get(part.id, 0) + 1
        elif isinstance(part, Opaque):
            for call, opens in server_ends((part,)):
                (server_open.add if opens else server_open.discard)(call)


def _only_thinks(message: Message) -> bool:
    """Whether this is nothing but reasoning, signed: then it belongs to what the model does next."""
    parts = message.parts
    if not parts or not isinstance(parts[0], Thinking):
        return False
    return all(isinstance(part, Thinking) and part.signed for part in parts)


def _only_acts(message: Message) -> bool:
    """Whether the model acts here without a thought or a word."""
    return not any(isinstance(part, (Text, Thinking)) for part in message.parts)


@define(eq=False, repr=False)
class _LateResults:
    """Which results do not stand directly after their turn; worked out when it is first asked.

    Args:
        messages: The transcript.
        start: Where to begin.
        gathered: Whether each message with nothing but results of one turn stands with that turn.
    """

    messages: Sequence[Message]
    start: int
    gathered: bool = False
    _last: dict[int, int] | None = field(default=None, init=False)

    def end_of(self, start: int, stop: int) -> int:
        """Where ``messages[start:stop]`` and all results of the calls in it end, with those of what is between."""
        if self._last is None:
            self._last = _last_results(self.messages, self.start)
        index = start
        while index < stop:
            stop = max(stop, self._last.get(index, index) + 1)
            index += 1
        return stop


def _last_results(messages: Sequence[Message], start: int) -> dict[int, int]:
    """For each message with calls that are answered, the index of the last message that belongs to one of them.

    That is one that answers it, or one that says that its code made what is in it.
    """
    last: dict[int, int] = {}
    open_calls: dict[str, list[int]] = defaultdict(list)
    open_server_calls: dict[str, int] = {}
    for index in range(start, len(messages)):
        acts = messages[index].role == "assistant"
        for part in messages[index].parts:
            if isinstance(part, Opaque):
                _note_server_call(part, index, open_server_calls, last)
            elif acts and isinstance(part, ToolCall):
                open_calls[part.id].append(index)
            elif not acts and isinstance(part, ToolResult) and open_calls[part.call_id]:
                last[open_calls[part.call_id].pop()] = index
            if (caller := getattr(part, "caller", None)) in open_server_calls:
                last[open_server_calls[caller]] = index
    return last


def _note_server_call(part: Opaque, index: int, calls: dict[str, int], last: dict[int, int]) -> None:
    for call, opens in server_ends((part,)):
        if opens:
            calls[call] = index
        elif call in calls:
            last[calls.pop(call)] = index


def _note_server(message: Message, server_open: set[str]) -> None:
    for call, opens in server_ends(message.parts):
        (server_open.add if opens else server_open.discard)(call)


def answers(message: Message, waiting: dict[str, int]) -> bool:
    """Whether the message carries the result of a waiting call; what it answers is removed from ``waiting``.

    Args:
        message: A message.
        waiting: How many calls of each id have no result.
    """
    if not waiting or message.role == "assistant":
        return False
    found = False
    for part in message.parts:
        if isinstance(part, ToolResult) and part.call_id in waiting:
            waiting[part.call_id] -= 1
            if not waiting[part.call_id]:
                del waiting[part.call_id]
            found = True
    return found


def segments(messages: Sequence[Message], groups: Iterable[Unit] | None = None) -> tuple[tuple[Unit, ...], ...]:
    """Units bundled so that questions go with their answers: the messages before a round, and then the round.

    Messages after the last round are a segment of their own.

    Args:
        messages: The messages of a request.
        groups: Their units, where they are known already; found out when not given.

    Example:
        >>> from agentctx import Message, Text
        >>> from agentctx.unit import segments
        >>> said = [Message(role, (Text("…"),)) for role in ("user", "assistant", "user", "assistant", "user")]
        >>> [len(segment) for segment in segments(said)]
        [2, 2, 1]
    """
    bundles: list[tuple[Unit, ...]] = []
    current: list[Unit] = []
    for unit in units(messages) if groups is None else groups:
        current.append(unit)
        if unit.is_round:
            bundles.append(tuple(current))
            current = []
    if current:
        bundles.append(tuple(current))
    return tuple(bundles)


@frozen
class RoundRules:
    """Rules of a format for tool rounds: for calls, for their ids, and for the places of their results.

    Args:
        merges_turns: Whether the results of a run of assistant messages may follow the run as a whole; else each
            assistant message must be answered before the next.
        results_anywhere: Whether a result may stand anywhere after its call.
        unique_ids: Whether a call id may occur only once in a request.
        most_calls: The most calls that one message may hold; None where there is no limit.
        server_results: Whether a call that the provider's server runs is refused without its result, once the turn is
            over.
        reasoning_back: Whether a request can tell the model to think, and then the open round has to begin with the
            reasoning of the model.

    Example:
        >>> from agentctx.formats import RoundRules
        >>> RoundRules(unique_ids=True).results_anywhere
        False
    """

    merges_turns: bool = False
    results_anywhere: bool = False
    unique_ids: bool = False
    most_calls: int | None = None
    server_results: bool = False
    reasoning_back: bool = False


MERGED = RoundRules(merges_turns=True)
"""The rules where no format is known: results may follow a run of assistant messages."""


def broken_pair(messages: Sequence[Message], rules: RoundRules = MERGED, *, known: int = 0) -> str | None:
    """The first broken pair, named by message index and call id, or None when all pairs are whole.

    Args:
        messages: The transcript.
        rules: The rules of the format.
        known: So many messages at the start stand as they did in a transcript whose pairs are all whole. They are not
            looked at again, but for the round that ``known`` is in; where results may stand anywhere, all are.
    """
    waiting: dict[str, int] = {}
    optional: set[str] = set()
    in_run = False
    start = _run_start(messages, known) if known and not rules.results_anywhere else 0
    places = range(start, len(messages))
    for index in places:
        message = messages[index]
        if message.role == "assistant":
            if waiting and not rules.results_anywhere and not (in_run and rules.merges_turns):
                return _unanswered(waiting)
            in_run = True
            twice = _open_calls(message, index, waiting, optional)
            if twice is not None:
                return twice
            continue
        in_run = False
        problem = _take_results(message, index, waiting, anywhere=rules.results_anywhere)
        if problem is not None:
            return problem
    if not waiting:
        return None
    lost = {call_id: index for call_id, index in waiting.items() if call_id not in optional}
    return _unanswered(lost) if lost else None


def _run_start(messages: Sequence[Message], known: int) -> int:
    """The last place before ``known`` at which a run of assistant messages begins: no call waits there."""
    places = range(known - 1, 0, -1)
    begins = (place for place in places if messages[place].role == "assistant" != messages[place - 1].role)
    return next(begins, 0)


def _open_calls(message: Message, index: int, waiting: dict[str, int], optional: set[str]) -> str | None:
    for part in message.parts:
        if isinstance(part, ToolCall):
            if part.optional:
                optional.add(part.id)
            elif optional:
                optional.discard(part.id)
            if part.id in waiting:
                return f"messages[{index}]: the call id {part.id!r} occurs twice in one turn"
            waiting[part.id] = index
    return None


def _take_results(message: Message, index: int, waiting: dict[str, int], *, anywhere: bool) -> str | None:
    nothing_else = True
    for part in message.parts:
        if not isinstance(part, ToolResult):
            nothing_else = nothing_else and is_marker(part)  # which says nothing
        elif waiting.pop(part.call_id, None) is None:
            return f"messages[{index}]: the tool result for {part.call_id!r} does not follow its call"
    if waiting and not anywhere and not (nothing_else and message.parts):
        return _unanswered(waiting)
    return None


def _unanswered(waiting: dict[str, int]) -> str:
    call_id, index = next(iter(waiting.items()))
    return f"messages[{index}]: the tool call {call_id!r} has no tool result after it"


def waits(messages: Sequence[Message]) -> bool:
    """Whether a call has no result; one that stands in a wrong place is one."""
    waiting = Counter(call.id for message in messages for call in message.calls)
    waiting.subtract(result.call_id for message in messages for result in message.results)
    return any(count > 0 for count in waiting.values())


def open_at_end(messages: Sequence[Message]) -> frozenset[str]:
    """The ids of server-side calls that may still be answered.

    The last assistant turn opened them; or one before it, and every turn since then called tools whose results are all
    that followed it.
    """
    index = len(messages)
    opened: set[str] = set()
    closed: set[str] = set()
    goes_on = True
    while goes_on:
        while index > 0 and messages[index - 1].role != "assistant" and only_results(messages[index - 1]):
            index -= 1
        goes_on = False
        while index > 0 and messages[index - 1].role == "assistant":
            index -= 1
            goes_on = bool(messages[index].calls) or goes_on
            _note_server_calls(messages[index], opened, closed)
    return frozenset(opened)


def _note_server_calls(message: Message, opened: set[str], closed: set[str]) -> None:
    """Note what the message opens that is not in ``closed``, and what it closes; from its end to its beginning."""
    for call, opens in reversed(tuple(server_ends(message.parts))):
        if not opens:
            closed.add(call)
        else:
            (closed.discard if call in closed else opened.add)(call)


def server_calls(messages: Iterable[Message]) -> tuple[frozenset[str], frozenset[str]]:
    """The ids of all server-side calls, and of those that nothing answers."""
    opened: set[str] = set()
    waiting: set[str] = set()
    for message in messages:
        for call, opens in server_ends(message.parts):
            (waiting.add if opens else waiting.discard)(call)
            if opens:
                opened.add(call)
    return frozenset(opened), frozenset(waiting)


def tail_from(messages: Sequence[Message]) -> int:
    """Where the tail begins, which depends on what comes next; how many messages there are when nothing does.

    A round whose calls wait for results, reasoning that nothing follows yet, a setting at the end.
    """
    place, groups = len(messages), units(messages)
    for unit in reversed(groups):
        said = unit.of(messages)
        if not unit.is_round and said[-1].results and only_results(said[-1]):
            continue  # it has no call: what is before it is the tail
        if not awaits_next(said[-1]) and not (unit.is_round and (waits(said) or open_at_end(said))):
            break
        place = unit.start
    return place if place == len(messages) else max(seam for seam in seams(groups) if seam <= place)


def awaits_next(message: Message) -> bool:
    """Whether what follows decides whether a message may stand here: it says nothing by itself."""
    if message.role == "assistant":
        return bool(message.parts) and all(isinstance(part, Thinking) for part in message.parts)
    return message.role == "developer" and bool(message.parts) and isinstance(message.parts[0], Opaque)


def only_results(message: Message) -> bool:
    """Whether there is nothing but results of tools in a message."""
    return all(isinstance(part, ToolResult) or is_marker(part) for part in message.parts)


ProtectRule = Callable[[Sequence[Message]], Iterable[int]]
"""Given the messages, the indexes of those that must survive byte for byte."""


@frozen
class Preferred:
    """A soft rule: what it names may go, but last of all, after the user's own words. It protects nothing.

    Args:
        rule: Gives the indexes of what goes last.
    """

    rule: ProtectRule

    def __call__(self, _messages: Sequence[Message], /) -> Iterable[int]:
        """No index: nothing of it must survive."""
        return ()


NOT_SHOWN = "[earlier messages are not shown]"
"""What the user says where the model, or a call, would come first or behind the model's own words."""

FOREIGN_REASONING = "reasoning stays with the model that made it"
"""What is said of reasoning that another model may not be shown."""

GO_ON = "[go on]"
"""What the user says where the model would speak twice in a row, would begin, or would have the last word."""

STAND_INS = frozenset({NOT_SHOWN, GO_ON})
"""What no user has said: it stands where a provider wants words of the user's and there are none."""


def words(message: Message) -> tuple[Part, ...]:
    """What a message says beside tool results."""
    return tuple(part for part in message.parts if not isinstance(part, ToolResult) and not is_marker(part))


def is_user_turn(message: Message) -> bool:
    """Whether this is a message of the user with anything but tool results in it, even a blank text."""
    return message.role == "user" and any(
        not isinstance(part, ToolResult) and not is_marker(part) for part in message.parts
    )


def has_user_words(message: Message) -> bool:
    """Whether this is a message in which the user says something: a text that is not blank, or anything but text.

    Words that stand in for those of a user say nothing, nor does a recap of what was said.
    """
    if message.role != "user" or message.is_system or is_recap(message):
        return False
    return any(map(_has_user_words, message.parts))


def _has_user_words(part: Part) -> bool:
    if isinstance(part, Text):
        return bool(part.text.strip()) and part.text not in STAND_INS
    return not isinstance(part, ToolResult) and not is_marker(part)


def system_messages(messages: Sequence[Message]) -> list[int]:
    """The indexes of all system and developer messages, also of those that go out under another role."""
    return [index for index, message in enumerate(messages) if message.is_system]


def first_task(messages: Sequence[Message]) -> list[int]:
    """The index of the first message in which the user says something; empty when there is none."""
    return next(([index] for index, message in enumerate(messages) if has_user_words(message)), [])


def knowing_the_recap(messages: list[Message]) -> list[Message]:
    """Messages as they were read, the library's own recap among them as such: directly behind the first task.

    What reads so anywhere else is the user's, as what the user says first or last is; only the first may be ours.
    """
    place = next((task + 1 for task in first_task(messages)), len(messages))
    if place + 1 >= len(messages) or messages[place].as_recap or Recap.read(messages[place]) is None:
        return messages
    return [*messages[:place], evolve(messages[place], as_recap=True), *messages[place + 1 :]]


def last_words(messages: Sequence[Message], count: int = 1) -> list[int]:
    """The indexes of the last ``count`` messages in which the user says something, latest first."""
    found: list[int] = []
    for index in range(len(messages) - 1, -1, -1):
        if len(found) == count:
            break
        if has_user_words(messages[index]):
            found.append(index)
    return found


def _first_turn(messages: Iterable[tuple[int, Message]]) -> list[int]:
    """The first message of the user that is not only tool results, even a blank one.

    At either end of the conversation that is what the provider takes for what the user said first or last.
    """
    return next(([index] for index, message in messages if is_user_turn(message) and not is_recap(message)), [])


def unread(messages: Sequence[Message]) -> list[int]:
    """The indexes of the messages with tool results that the model has not read yet: those after its last message."""
    found: list[int] = []
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "assistant":
            break
        if messages[index].results:
            found.append(index)
    return found


def pending(messages: Sequence[Message]) -> list[int]:
    """The indexes of requests for approval that nobody answered, and of results that are not the last word."""
    open_at: dict[str, int] = {}
    for index, message in enumerate(messages):
        for part in message.parts:
            if isinstance(part, ToolCall):
                if open_at:
                    open_at.pop(part.id, None)
                if part.optional:
                    open_at[part.id] = index
            elif isinstance(part, ToolResult):
                if open_at:
                    open_at.pop(part.call_id, None)
                if part.interim:
                    open_at[part.call_id] = index
    return list(open_at.values())


def places_of(rule: ProtectRule, messages: Sequence[Message]) -> list[int]:
    """The indexes that a caller's rule gives.

    Raises:
        ConfigError: If it gives something else.
    """
    found: object = rule(messages)
    places = list(found) if isinstance(found, Iterable) and not isinstance(found, str) else None
    if places is None or not all(isinstance(place, SupportsIndex) for place in places):
        msg = f"protect: the rule {rule!r} gave {found!r}; expected indexes of messages"
        raise ConfigError(msg)
    return [operator.index(place) for place in places]


def always(messages: Sequence[Message], start: int = 0) -> frozenset[int]:
    """What survives without being asked for: system messages, the first task, the latest user message, what waits.

    Of a message that holds tool results beside the user's words, as Anthropic, Gemini and Bedrock have them, the words
    survive: every part that is no tool result, byte for byte, in its order, in a message of the same role. The results
    in it are results as all others: they may be cut or cleared, unless a rule of the caller's names the message.

    Args:
        messages: The transcript.
        start: Leave out the messages before it, but for the first task. Nothing of what they say matters to the others.
    """
    later = messages[start:]
    backwards = ((index, later[index]) for index in range(len(later) - 1, -1, -1))
    found = (*system_messages(later), *last_words(later), *_first_turn(backwards), *pending(later))
    first = (*first_task(messages), *_first_turn(enumerate(messages)))
    return frozenset((*first, *(start + index for index in found)))


ThinkingPolicy = Literal["postpone", "drop"]
"""What to do where an edit would part reasoning of the open tool round from the prefix that it is bound to.

``"postpone"``: a session edits when the round has ended, and drops the reasoning only when the request would not fit
until then; without a session, like ``"drop"``. ``"drop"``: edit at once, and drop the reasoning behind the edit.
Reasoning of closed turns is dropped in any case: it may be, on every model.
"""

POLICIES: tuple[str, ...] = get_args(ThinkingPolicy)


def signed(message: Message) -> bool:
    """Whether there is signed reasoning in a message."""
    return any(isinstance(part, Thinking) and part.signed for part in message.parts)


def signed_thinking(message: Message) -> frozenset[Thinking]:
    """The signed reasoning of a message: what is never edited."""
    return frozenset(part for part in message.parts if isinstance(part, Thinking) and part.signed)


def open_round(messages: Sequence[Message]) -> int:
    """Where the open tool round begins: after the last message of the user that is not only tool results."""
    return next((index + 1 for index in range(len(messages) - 1, -1, -1) if is_user_turn(messages[index])), 0)


def leading_thought(messages: Sequence[Message]) -> frozenset[int]:
    """The message whose reasoning the open tool round begins with, when the round's next step could not lead it.

    With manual thinking the first assistant message of the open round must begin with reasoning, later ones need
    none: a model that does not interleave thinks once, at the start.
    """
    steps = [index for index in range(open_round(messages), len(messages)) if messages[index].role == "assistant"]
    if not steps or not _leads(messages[steps[0]]) or all(_leads(messages[index]) for index in steps):
        return frozenset()
    return frozenset(steps[:1])


def _leads(message: Message) -> bool:
    return bool(message.parts) and isinstance(message.parts[0], Thinking)
