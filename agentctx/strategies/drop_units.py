"""Stages that keep or drop whole units, of a request in a ``Pipeline`` or of a ``Block`` alike.

In a request all that is protected stays, and the round that the model is in; of a block the user's newest words, when
they are in it. A unit that holds what stays, stays whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar

from attrs import evolve, field, frozen

from agentctx.core.budget import until_full
from agentctx.core.message import ROLES, Context, Message
from agentctx.core.units import Unit, units
from agentctx.engine.drop import (
    Layout,
    Piece,
    aiming_below,
    effort_to_cut,
    lay_out,
    oldest,
    piece_of,
    shrink_open_round,
    tokens_of,
    tokens_together,
    units_of,
    without,
)
from agentctx.engine.options import as_names, check_whole, limits
from agentctx.errors import ConfigError, ContextOverflow
from agentctx.protocols import Call, Scope, Stage


class _Reducer(Stage):
    __slots__ = ()

    def effort(self, context: Context, call: Call, /) -> Iterable[int]:
        """As of a cut to the limit."""
        return effort_to_cut(context, limits(self.name, None, call)[0], call)


@frozen
class Strict(Stage):
    """Keep everything: what does not fit is refused instead of cut.

    The room of such a block is reserved before any other block gets more than its least.

    Example:
        >>> from agentctx.builder import Block
        >>> from agentctx.strategies import Strict
        >>> Block("rules", [{"role": "system", "content": "…"}], evict=Strict()).evict
        Strict()
    """

    scope: ClassVar[Scope] = Scope.PRESSURE
    label: ClassVar[str] = "rejected"

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


@frozen
class Drop(_Reducer):
    """Drop all that may go when it does not fit: half of it would be of no use.

    Example:
        >>> from agentctx.builder import Block
        >>> from agentctx.strategies import Drop
        >>> Block("found", [{"role": "user", "content": "…"}], evict=Drop()).evict
        Drop()
    """

    scope: ClassVar[Scope] = Scope.PRESSURE
    label: ClassVar[str] = "dropped"
    whole: ClassVar[bool] = True

    def least(self, context: Context, call: Call, /) -> int:
        """What must stay, in tokens."""
        return tokens_of(staying(context, call), call)

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context when it fits, else what must stay of it."""
        return _reduced(context, call, "Drop", "all that may go", _all_loose)


def _all_loose(context: Context, layout: Layout, _aim: int, call: Call) -> list[Piece]:
    return [piece for piece in pieces(context.messages, layout.staying, call) if not piece.stays]


@frozen
class DropTail(_Reducer):
    """Drop whole units from the end until the rest fits: for what is ranked, best first.

    The first unit stays as well.

    Example:
        >>> from agentctx.builder import Block
        >>> from agentctx.strategies import DropTail
        >>> Block("found", [{"role": "user", "content": "…"}], evict=DropTail()).evict
        DropTail()
    """

    scope: ClassVar[Scope] = Scope.PRESSURE
    label: ClassVar[str] = "truncated"
    gradual: ClassVar[bool] = True

    def least(self, context: Context, call: Call, /) -> int:
        """The first unit and what must stay, in tokens."""
        return least_of(_ranked(context, staying_places(context, call), call))

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context without as much of its end as must go."""
        return _reduced(context, call, "DropTail", "last first", _end)


def _end(context: Context, layout: Layout, aim: int, call: Call) -> list[Piece]:
    """The last pieces that may go, as many as must."""
    loose = [piece for piece in _ranked(context, layout.staying, call) if not piece.stays]
    kept = until_full(loose, lambda piece: piece.tokens, aim - layout.size + tokens_together(loose))
    return loose[len(kept) :]


def _ranked(context: Context, places: frozenset[int], call: Call) -> list[Piece]:
    """The units, the first of which stays."""
    found = pieces(context.messages, places, call)
    return [evolve(piece, stays=True) if piece is found[0] else piece for piece in found]


def _roles(roles: Iterable[str]) -> frozenset[str]:
    if isinstance(roles, str):
        msg = f"TruncateOldest: protect_roles is a collection of roles, for example ({roles!r},)"
        raise ConfigError(msg)
    names = as_names("TruncateOldest: protect_roles is a collection of roles", roles) - {""}
    if unknown := names.difference(ROLES):
        msg = f"TruncateOldest: protect_roles: {min(unknown)!r} is no role; there are {', '.join(ROLES)}"
        raise ConfigError(msg)
    return names


@frozen
class TruncateOldest(_Reducer):
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

    keep_pairs: bool = False
    min_messages: int = field(default=0)
    protect_roles: frozenset[str] = field(default=frozenset(), converter=_roles)
    scope: ClassVar[Scope] = Scope.PRESSURE
    label: ClassVar[str] = "truncated"
    gradual: ClassVar[bool] = True

    @min_messages.validator
    def _check(self, _attribute: object, value: int) -> None:
        check_whole("TruncateOldest: min_messages", value, 0)

    def least(self, context: Context, call: Call, /) -> int:
        """What is protected and what must stay, in tokens."""
        return least_of(self._pieces(context, staying_places(context, call), call))

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context without as much of its beginning as must go."""
        return _reduced(context, call, "TruncateOldest", "oldest first", self._beginning)

    def _beginning(self, context: Context, layout: Layout, aim: int, call: Call) -> list[Piece]:
        """The first pieces that may go, as many as must; all of them where too few messages would be left."""
        loose = [piece for piece in self._pieces(context, layout.staying, call) if not piece.stays]
        gone = oldest(loose, aim - layout.size + tokens_together(loose))
        if len(context.messages) - sum(map(len, gone)) >= self.min_messages:
            return gone
        call.remark(f"fewer than {self.min_messages} messages would be left")
        return loose

    def _pieces(self, context: Context, places: frozenset[int], call: Call) -> list[Piece]:
        messages = context.messages
        protected = (index for index, message in enumerate(messages) if message.role in self.protect_roles)
        return pieces(messages, places.union(protected), call, pairs=self.keep_pairs)


Going = Callable[[Context, Layout, int, Call], Iterable[Piece]]
"""Given a context, how it is laid out, and the tokens to come down to, what goes."""


def _reduced(context: Context, call: Call, stage: str, order: str, going: Going) -> Context:
    """The context without what goes, when it is too large; the same object when it is not."""
    limit, aim = limits(stage, None, call)
    if call.size(context) <= aim:
        return context
    shrunk, layout = shrink_open_round(context, limit, call)
    aim = aiming_below(aim, layout.floor, call)
    return without(shrunk, units_of(going(shrunk, layout, aim, call)), call, f"over {aim:,} tokens: {order}")


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


def least_of(found: Iterable[Piece]) -> int:
    """Tokens of the pieces that stay."""
    return tokens_together(piece for piece in found if piece.stays)


def staying_places(context: Context, call: Call) -> frozenset[int]:
    """Indexes of the messages that no reducer drops."""
    return lay_out(context, call, unread=len(context.messages)).staying


def staying(context: Context, call: Call) -> list[Message]:
    """The messages that no reducer drops."""
    return [context.messages[index] for index in sorted(staying_places(context, call))]
