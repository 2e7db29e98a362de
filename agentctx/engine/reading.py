"""From what the caller passes to values, and back; and from where on what was read is read again: the tail.

A call waits for its result, reasoning for what the model does: how such messages at the end of a conversation read
depends on what comes next. This **tail** is not final, and is read again together with what comes next. It begins in
the **history** (an index in what the caller passes), in the **view** (a place in what is sent) and in what a step has
**read** (a place among the messages of the last tail and the new ones): ``begins_at`` when a step has read,
``tail_of`` when it knows its view, ``whole_until`` and ``first_unanswered_call`` when a view is cut off somewhere.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from attrs import frozen

from agentctx.changes import match
from agentctx.characters import said_by
from agentctx.errors import AgentctxError, InvalidInput
from agentctx.formats.native import DEEPEST, too_deep
from agentctx.formats.registry import Detected, detected, format_named, is_registered
from agentctx.message import Context, Message, Native, Tool, server_ends
from agentctx.models.profile import ModelProfile
from agentctx.models.table import find
from agentctx.protocols import Meter, TokenCounter
from agentctx.tokens.counting import MessageMeter, default_counter, remembering
from agentctx.unit import awaits_next, iter_units, knowing_the_recap, seams, tail_from, units
from agentctx.wire_format import WireFormat


@frozen(eq=False, repr=False)
class Reader:
    """Reads one conversation.

    Args:
        wire: The provider's format.
        meter: Counts its messages.
        profile: The model's profile; None when no model was named, or an unknown one.
        certain: False when the messages so far would read alike in other formats as well.
    """

    wire: WireFormat
    meter: Meter
    profile: ModelProfile | None
    certain: bool = True

    def messages(
        self, natives: Sequence[Any], first: int = 0, standing_before: Sequence[Message] = ()
    ) -> list[Message]:
        """Native messages as values.

        Args:
            natives: The messages.
            first: The index of the first one, for errors.
            standing_before: What stands before them, at least from the tail on.
        """
        read = self.wire.read_message
        try:
            messages = [read(native, index) for index, native in enumerate(natives, first)]
        except (AgentctxError, RecursionError):
            raise
        except Exception as error:
            if is_registered(self.wire):
                raise _unreadable(self.wire, natives, first, error) from error
            raise
        messages = with_calls_named(self.wire, messages, standing_before)
        return messages if first or standing_before else knowing_the_recap(messages)

    def head(self, system: Native, tools: Native) -> tuple[Message | None, tuple[Tool, ...]]:
        """System prompt and tools as values.

        Raises:
            InvalidInput: If the tools are not a list, or something is nested too deep.
        """
        if tools is not None:
            _check_list(tools, "tools", "tool definitions")
        if (where := _deep_place((), system, tools, DEEPEST)) is not None:
            raise InvalidInput(where, f"it is nested deeper than {DEEPEST} levels, or contains itself")
        return self.wire.read_system(system), self.wire.read_tools(tools)

    def context(self, natives: Sequence[Native], system: Native = None, tools: Native = None) -> Context:
        """A whole request as values.

        Raises:
            InvalidInput: As ``messages`` and ``head`` do.
        """
        return Context(tuple(self.messages(natives)), *self.head(system, tools))


def with_calls_named(
    wire: WireFormat, messages: list[Message], standing_before: Sequence[Message] = ()
) -> list[Message]:
    """The messages, read one by one, with each result under the id of the call that it answers."""
    return messages if wire.pair is None else wire.pair(messages, standing_before)


def _unreadable(wire: WireFormat, natives: Sequence[Any], first: int, error: Exception) -> InvalidInput:
    """What says which message a registered format could not read."""
    for index, native in enumerate(natives, first):
        try:
            wire.read_message(native, index)
        except Exception as again:  # noqa: BLE001 - whatever the format of another raises
            what = f"the format {wire.name!r} could not read it: {type(again).__name__}: {again}"
            return InvalidInput(f"messages[{index}]", what)
    return InvalidInput("messages", f"the format {wire.name!r} could not read them: {said_by(error)}")


def write_native(wire: WireFormat, message: Message, where: str) -> Native:
    """A message in the provider's shape.

    Args:
        wire: The format.
        message: The message.
        where: Its place, for the error.

    Raises:
        InvalidInput: If a registered format cannot write it; names the place and the format.
    """
    try:
        return wire.write_message(message)
    except (AgentctxError, RecursionError):
        raise
    except Exception as error:
        if not is_registered(wire):
            raise
        what = f"the format {wire.name!r} could not write it: {said_by(error)}"
        raise InvalidInput(where, what) from error


def place_of(origin: int | None, place: int) -> str:
    """How an error calls a message: by the caller's index, or by its place in the view when a stage made it."""
    return f"view.messages[{place}]" if origin is None else f"messages[{origin}]"


_SUSPECT = 50
"""What is nested so deep is what the stack was too small for."""


@contextmanager
def naming_what_is_too_deep(messages: object, system: object = None, tools: object = None) -> Iterator[None]:
    """Where something is nested too deep for what is done inside, say which message, or what else it is.

    Raises:
        InvalidInput: In place of a ``RecursionError``, when anything in the request explains it.
    """
    try:
        yield
    except RecursionError as error:
        if (where := _deep_place(messages, system, tools, _SUSPECT)) is None:
            raise
        raise InvalidInput(where, "it is nested too deep, or contains itself") from error


def _deep_place(messages: object, system: object, tools: object, most: int) -> str | None:
    """The first place of a request that is nested deeper than ``most`` levels."""
    if too_deep(system, most):
        return "system"
    for name, several in (("tools", tools), ("messages", messages)):
        for place, each in enumerate(several if isinstance(several, Sequence) else ()):
            if too_deep(each, most):
                return f"{name}[{place}]"
    return None


def reader(
    messages: Sequence[Any],
    *,
    system: Native = None,
    tools: Native = None,
    format: str | None = None,  # noqa: A002 - the contract's name
    model: str | None = None,
    counter: TokenCounter | None = None,
) -> Reader:
    """Find out how to read a conversation.

    Raises:
        AmbiguousFormat: If several formats fit and none was named.
        InvalidInput: If no format fits, or the named one is unknown.
        ConfigError: If the model is no name.
    """
    profile = known_profile(model)
    found = found_format(messages, system, tools, format, model)
    counted = default_counter(model) if counter is None else remembering(counter)
    return Reader(found.wire, MessageMeter(counted, profile, found.wire.overheads), profile, found.certain)


def found_format(
    messages: Sequence[Any],
    system: Native = None,
    tools: Native = None,
    format: str | None = None,  # noqa: A002 - the contract's name
    model: str | None = None,
) -> Detected:
    """The format of a conversation: the one that is named, or the one that fits.

    Raises:
        AmbiguousFormat: If several formats fit and none was named.
        InvalidInput: If no format fits, or the named one is unknown.
    """
    if format is None:
        return detected(_request(messages, system, tools), model)
    return Detected(format_named(format, model))


def _request(messages: Sequence[Native], system: Native, tools: Native) -> dict[str, Native]:
    request: dict[str, Any] = {"messages": messages}
    if system is not None:
        request["system"] = system
    if tools is not None:
        _check_list(tools, "tools", "tool definitions")
        request["tools"] = tools
    return request


def known_profile(model: str | None) -> ModelProfile | None:
    """The profile of a model; None when no model is named or the table does not know it."""
    return None if model is None else find(model)


def as_list(messages: Sequence[Native], where: str = "messages") -> Sequence[Native]:
    """The messages, checked to be a list that is not empty.

    Raises:
        InvalidInput: If they are not.
    """
    _check_list(messages, where, "messages")
    if not messages:
        raise InvalidInput(where, "the list is empty: a request needs at least one message")
    return messages


def _check_list(given: Native, where: str, members: str) -> None:
    if type(given) is not list and (isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Sequence)):
        raise InvalidInput(where, f"must be a list of {members}, got {type(given).__name__}")


@frozen(eq=False, repr=False)
class Viewed:
    """What a step sends, and what it has read for that.

    Args:
        messages: The view.
        origins: For each message of the view, its index in the history; None when a stage made it.
        start: A place of the view before which everything is final.
        read: The messages that the step has read.
        read_origins: The index in the history of each of them.
        replaced: What stood in the view before from ``start`` on, as far as it was final.
    """

    messages: Sequence[Message]
    origins: Sequence[int | None]
    start: int
    read: Sequence[Message]
    read_origins: Sequence[int]
    replaced: Sequence[Message]


class TailAt(NamedTuple):
    """Where the tail begins; at the end of both when there is none.

    Args:
        in_view: The place in the view.
        in_read: The place among what the step has read.
    """

    in_view: int
    in_read: int


def begins_at(read: Sequence[Message], origins: Sequence[int | None], *repaired: Sequence[Message]) -> int | None:
    """The index in the history where the tail begins; None when there is none.

    Args:
        read: What a step has read: the new messages, with those of the last tail in front of them.
        origins: The index in the history of each.
        repaired: The same as repair left them: but for their pairs, where a call still waits for its result; and with
            these, where no orphan hides any more that a call of the provider's server is open.
    """
    made = {id(each): each for each in repaired if each is not read}
    places = {tail_from(read), *(_tail_in(read, each) for each in made.values())}
    found = [origins[place] for place in places if place < len(read)]
    return min((origin for origin in found if origin is not None), default=None)


def _tail_in(read: Sequence[Message], clean: Sequence[Message]) -> int:
    """Where in ``read`` the tail of ``clean``, which was made of it, begins.

    A message that was taken apart is read as a whole, with all of the unit that it begins in.
    """
    place = tail_from(clean)
    if place == len(clean):
        return len(read)
    origins, starts = match(read, clean).origins, seams(units(clean))
    while True:
        origin = next(origin for origin in (*reversed(origins[: place + 1]), 0) if origin is not None)
        begins = origins.index(origin) if origin in origins else 0
        if begins >= place:
            return origin
        place = starts[bisect_right(starts, begins) - 1]


def tail_of(viewed: Viewed, begins: int) -> TailAt:
    """Where the tail that begins at an index of the history begins in the view and in what was read.

    There is none where a message that was final before stands within it, moved behind newer ones: it is not read again,
    so that it would be lost. A session finds what an answer to the tail belongs to then.
    """
    nothing = TailAt(len(viewed.messages), len(viewed.read))
    index = _without_dropped_calls(viewed, begins)
    if index is None:
        return nothing
    final, again = _final_places(viewed), viewed.read_origins[0]
    place, index = _in_view(viewed, index, final)
    if any(origin is not None and origin < again for origin in viewed.origins[place:]):
        return nothing
    return TailAt(place, bisect_left(viewed.read_origins, index))


def _without_dropped_calls(viewed: Viewed, begins: int) -> int | None:
    """From which index on all calls of the tail are in the view: what was left out once is not read again.

    None when there is no such tail.
    """
    read, origins = viewed.read, viewed.read_origins
    place, there = origins.index(begins), set(viewed.origins[viewed.start :])
    gone = [at for at in range(place, len(read)) if read[at].calls and origins[at] not in there]
    if not gone:
        return begins
    last = next((at for at in range(len(read), 0, -1) if not awaits_next(read[at - 1])), 0)
    thoughts = (origins[at] for at in range(max(last, gone[-1] + 1), len(read)))  # what follows them may still come
    return next((origins[seam] for seam in seams(iter_units(read, place)) if seam > gone[-1]), next(thoughts, None))


def _final_places(viewed: Viewed) -> set[int]:
    """The places of the view, from its ``start`` on, of what was final before."""
    stood, start, again = set(map(id, viewed.replaced)), viewed.start, viewed.read_origins[0]
    behind = enumerate(zip(viewed.messages[start:], viewed.origins[start:], strict=True), start)
    return {
        place for place, (message, origin) in behind if id(message) in stood or (origin is not None and origin < again)
    }


def _in_view(viewed: Viewed, index: int, final: Collection[int]) -> tuple[int, int]:
    """Where the tail of the view begins, and from which index of the history on it was read.

    It holds all that was read from ``index`` on, and nothing older: where repair has moved an older message behind a
    newer one, both are read again, and so is a call whose result is in that part. A made message before it is final:
    it may be the result of an older call.

    Args:
        viewed: What the step sends.
        index: The index in the history at which the tail begins.
        final: The places of what was final before.
    """
    origins, start = viewed.origins, viewed.start
    later = (
        place for place in range(start, len(origins)) if (origin := origins[place]) is not None and origin >= index
    )
    place = next(later, len(origins))
    asked = first_unanswered_call(viewed.messages, origins, start, place, final)
    read = [origins[at] for at in range(asked, len(origins)) if at not in final]
    oldest = min((origin for origin in read if origin is not None), default=index)
    if asked < place and origins[asked] is None:  # no message before it is known: all is read again
        oldest = viewed.read_origins[0]
    return _in_view(viewed, oldest, final) if oldest < index else (asked, index)


def whole_until(view: Sequence[Message], origins: Sequence[int | None], length: int) -> int:
    """The index in the history at which the tail of a view begins.

    Args:
        view: The messages.
        origins: For each, its index in the history; None when a stage made it.
        length: What the index is when nothing depends on what comes next.
    """
    known = [(message, origin) for message, origin in zip(view, origins, strict=True) if origin is not None]
    place = tail_from([message for message, _ in known])
    return length if place == len(known) else known[place][1]


def first_unanswered_call(
    view: Sequence[Message], origins: Sequence[int | None], start: int, stop: int, final: Collection[int] = ()
) -> int:
    """Where the first call of ``view[start:stop]`` was read that has no result there; ``stop`` when all have one.

    Also one that the provider's server runs. A call that a stage wrote anew, or that repair took out of a message, was
    read with the last message before it that is known: that place; ``start`` when there is none.

    Args:
        view: The messages of the view.
        origins: For each message of the view, its index in the history.
        start: The place of the first message to look at.
        stop: The place after the last one.
        final: The places of messages that are not read again: what they ask without an answer stays so.
    """
    asked: dict[str, int] = {}
    for place in range(start, stop):
        if place in final:
            continue
        asked |= {call.id: place for call in view[place].calls if not call.optional}
        for result in view[place].results:
            asked.pop(result.call_id, None)
        for call, opens in server_ends(view[place].parts):
            if opens:
                asked[call] = place
            else:
                asked.pop(call, None)
    place = min(asked.values(), default=stop)
    while start < place < stop and origins[place] is None and place - 1 not in final:
        place -= 1
    return place
