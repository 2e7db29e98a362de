"""What became of each message at each call, written down as what changed from call to call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from attrs import define, field, frozen

from agentctx.core.compare import Change, Outcome
from agentctx.core.message import Message
from agentctx.core.report import View
from agentctx.engine.shrink import OFFLOADED

_SAME = frozenset({Outcome.MARKED, Outcome.KEPT})


@frozen
class State:
    """What became of one message.

    Args:
        outcome: An ``Outcome``, as a word; ``"offloaded"`` also where a preview is left.
        item: What is sent in its place, by its place among the items; None when nothing is.
        stage: The last stage that changed it; empty when none did.
        reason: Why.
        handle: Where the original is kept in the store, when there is one.
    """

    outcome: str
    item: int | None
    stage: str = ""
    reason: str = ""
    handle: str | None = None


@frozen
class RowChange:
    """From this call on, a message of the history is in another state.

    Args:
        index: The message, by its index in the history.
        call: The number of the call, from 1.
        state: What became of it.
    """

    index: int
    call: int
    state: State


@frozen
class Added:
    """A message that stands in the request and not in the history.

    Args:
        after: So many messages of the history stand before it.
        state: What it is, and who put it in.
    """

    after: int
    state: State


@frozen
class Layout:
    """From this call on, the rows stand so.

    Args:
        call: The number of the call, from 1.
        added: The messages that are not in the history, in their order.
        order: The rows where messages have moved: the index of a message of the history, or ``-1 - place`` in
            ``added``. Messages of the history that are not in it follow. None where they stand in their old order.
    """

    call: int
    added: tuple[Added, ...]
    order: tuple[int, ...] | None = None


@define
class Items:
    """Every message that is ever shown, once; equal ones are one."""

    messages: list[Message] = field(factory=list)
    _places: dict[Message, int] = field(factory=dict, init=False, repr=False)
    _known: dict[int, int] = field(factory=dict, init=False, repr=False)

    def place(self, message: Message) -> int:
        """The place of a message among the items."""
        known = self._known.get(id(message))
        if known is not None and self.messages[known] is message:
            return known
        place = self._places.setdefault(message, len(self.messages))
        if place == len(self.messages):
            self.messages.append(message)
            self._known[id(message)] = place
        return place


@define
class RowLog:
    """Follows the rows from call to call.

    Args:
        given: The history, as it was read.
        items: Where all messages are kept.
    """

    given: Sequence[Message]
    items: Items
    changes: list[RowChange] = field(factory=list, init=False)
    layouts: list[Layout] = field(factory=list, init=False)
    places: list[int] = field(factory=list, init=False)
    _now: dict[int, State] = field(factory=dict, init=False)
    _before: tuple[Message, ...] = field(default=(), init=False)
    _length: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        """Every message of the history is shown."""
        self.places = [self.items.place(message) for message in self.given]

    def see(self, call: int, length: int, view: View) -> int:
        """Write down what became of the first ``length`` messages; how many rows are in the unchanged prefix."""
        messages, report = view.context.messages, view.report
        held = len(self._before) if report.first_changed is None else report.first_changed
        held = held if self._before and report.prefix_tokens else 0
        new = view.origins[held:]
        acted = any(change.outcome not in _SAME for change in report.changes)
        if acted or not held or held < len(self._before) or None in new or len(new) != length - self._length:
            self._look(call, length, view)
        self._before, self._length = messages, length
        return _rows_before(self.layouts[-1] if self.layouts else None, view.origins[:held])

    def miss(self, call: int, length: int) -> None:
        """A call for which nothing could be sent: its messages are shown as they were given."""
        self._note(call, {index: State(Outcome.KEPT.value, self.places[index]) for index in range(length)})
        self._lay(Layout(call, ()))
        self._before, self._length = (), length

    def _look(self, call: int, length: int, view: View) -> None:
        done = {change.index: change for change in view.report.in_force if change.outcome is not Outcome.ADDED}
        made = {change.index: change for change in view.report.in_force if change.outcome is Outcome.ADDED}
        found = {index: self._gone(done.get(index)) for index in range(length)}
        messages = view.context.messages
        for place, origin in enumerate(view.origins):
            if origin is not None:
                found[origin] = self._sent(origin, messages[place], done.get(origin))
        self._note(call, found)
        self._lay(self._layout(call, view, made))

    def _gone(self, change: Change | None) -> State:
        if change is None:
            return State(Outcome.DROPPED.value, None)
        outcome = change.outcome if change.is_gone else Outcome.DROPPED
        return State(outcome.value, None, change.stage, change.reason, change.handle)

    def _sent(self, index: int, message: Message, change: Change | None) -> State:
        item = self.items.place(message)
        if change is None or change.outcome in _SAME:
            same = item == self.places[index] or change is not None
            return State(Outcome.KEPT.value if same else Outcome.EDITED.value, item)
        outcome = Outcome.OFFLOADED.value if _is_preview(message, self.given[index]) else change.outcome.value
        return State(outcome, item, change.stage, change.reason, change.handle)

    def _note(self, call: int, found: Mapping[int, State]) -> None:
        for index, state in found.items():
            known = self._now.get(index)
            if known is None:
                known = State(Outcome.KEPT.value, self.places[index])
            if state != known:
                self.changes.append(RowChange(index, call, state))
            self._now[index] = state

    def _layout(self, call: int, view: View, made: Mapping[int, Change]) -> Layout:
        origins = view.origins
        added, before = [], 0
        for place, origin in enumerate(origins):
            if origin is not None:
                before = max(before, origin + 1)
                continue
            change = made.get(place)
            why = ("", "") if change is None else (change.stage, change.reason)
            state = State(Outcome.ADDED.value, self.items.place(view.context.messages[place]), *why)
            added.append(Added(before, state))
        known = [origin for origin in origins if origin is not None]
        rising = all(one < other for one, other in pairwise(known))
        return Layout(call, tuple(added), None if rising else _order(origins))

    def _lay(self, layout: Layout) -> None:
        last = self.layouts[-1] if self.layouts else Layout(0, ())
        if (layout.added, layout.order) != (last.added, last.order):
            self.layouts.append(layout)


def _is_preview(message: Message, given: Message) -> bool:
    """Whether a message has the start of a content that lies in the store now."""
    return any(result.text.startswith(OFFLOADED) for result in message.results) and not any(
        result.text.startswith(OFFLOADED) for result in given.results
    )


def _order(origins: Sequence[int | None]) -> tuple[int, ...]:
    """The rows as they are sent, with what was left out where it had stood."""
    sent = {origin for origin in origins if origin is not None}
    gone = iter([index for index in range(max(sent, default=-1) + 1) if index not in sent])
    lost, added, order = next(gone, None), 0, []
    for origin in origins:
        if origin is None:
            order.append(-1 - added)
            added += 1
            continue
        while lost is not None and lost < origin:
            order.append(lost)
            lost = next(gone, None)
        order.append(origin)
    return (*order, *([] if lost is None else [lost, *gone]))


def _rows_before(layout: Layout | None, origins: Sequence[int | None]) -> int:
    """How many rows stand up to the end of these messages of a request, those between that are left out included."""
    if not origins:
        return 0
    added = sum(origin is None for origin in origins)
    if layout is not None and layout.order is not None:
        last = -added if origins[-1] is None else origins[-1]
        return layout.order.index(last) + 1 if last in layout.order else len(layout.order)
    known = [origin for origin in origins if origin is not None]
    ends = known[-1] + 1 if known else 0
    if origins[-1] is None and layout is not None:
        ends = max(ends, layout.added[added - 1].after)
    return ends + added
