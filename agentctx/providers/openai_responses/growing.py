"""The requests of one conversation in the Responses API, validated without a look at all of them again."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve

from agentctx.providers.growing import GrowingRequest, Natives, Seen, looked_at
from agentctx.providers.openai_responses.items import CALLS, REFERENCE, kind_of
from agentctx.providers.openai_responses.rules import (
    ITEMS_MAX,
    RULES,
    RULES_OF_ALL_ITEMS,
    Item,
    ResponsesRequest,
    input_present,
    is_signed,
    name_of,
    opened,
    seal_of,
    validate,
)
from agentctx.providers.rules import checked, in_order
from agentctx.wire_format import Violation

_EACH = tuple(rule for rule in RULES if rule not in RULES_OF_ALL_ITEMS)
_RULES = tuple(rule for rule in RULES if rule is not input_present)
_REASONING = frozenset({"signed", "unsigned"})
"""What items of reasoning are to their round: the provider knows what it has signed again."""


class GrowingResponses(GrowingRequest[ResponsesRequest]):
    """Finds what ``validate`` finds in the requests of a conversation.

    A round is all that signed reasoning has led to, up to the next reasoning or to what the model did not make; behind
    no such reasoning, it is calls with their answers, or an item of the model.
    """

    messages_key = "input"
    keys = frozenset({"input", "tools", "instructions"})

    @property
    def _model(self) -> str | None:
        return None if self.profile is None else self.profile.family

    def anew(self, request: Mapping[str, Any], before: Mapping[str, Any] | None) -> tuple[Violation, ...]:
        """What the rules find in the whole request."""
        return validate(request, self.profile, before)

    def opened(self, request: Mapping[str, Any], natives: Natives) -> ResponsesRequest:
        """A request of which only these items are looked at."""
        whole = opened({**request, "input": []}, self._model)
        items = tuple(Item(index, kind_of(native), native) for index, native in natives)
        return evolve(whole, body=request, items=items, total=len(request["input"]))

    def found(self, request: ResponsesRequest, before: ResponsesRequest | None) -> tuple[Violation, ...]:
        """What the rules find."""
        rules = RULES if request.total > ITEMS_MAX else _RULES
        return in_order(checked(rules, evolve(request, before=before)), whole="last")

    def read(self, native: dict[str, Any]) -> Seen:
        """What is known of an item."""
        item = Item(0, kind_of(native), native)
        name = item.call_id if isinstance(item.call_id, str) else None
        alone = evolve(opened({"input": []}, self._model), items=(item,), total=1)
        return looked_at(
            native,
            _part(item),
            quiet=item.kind not in (REFERENCE, "compaction_trigger") and next(checked(_EACH, alone), None) is None,
            calls=((name, CALLS[item.kind].output),) if item.is_call and name is not None else (),
            answers=((name, item.kind),) if item.is_output and name is not None else (),
            marks=frozenset(_marks(item)),
            unique=tuple(_unique(item, name)),
            once=tuple(_once(item)),
        )

    def rounds(self, seen: Sequence[Seen], start: int) -> Iterator[tuple[int, int]]:
        """What signed reasoning has led to; calls with all their answers, and other items of the model."""
        while start < len(seen):
            stop = _end(seen, start) if (led := _begins(seen, start)) else _end_of_calls(seen, start)
            if stop > start and _complete(seen[start:stop], led=led):
                yield start, stop
            start = max(stop, start + 1)

    rounds_before = rounds


def _part(item: Item) -> str:
    if item.kind == "reasoning":
        return "signed" if is_signed(item) else "unsigned"
    if item.is_call:
        return "call"
    if item.is_output:
        return "answer"
    return "model" if item.by_model else "user"


def _marks(item: Item) -> Iterator[Hashable]:
    """By what the rules know an item again; what the model made is told from all else."""
    if item.by_model:
        yield "made", id(item.data)
    if item.id is not None:
        yield "id", item.id
    if item.is_call:
        yield "call", str(item.call_id)
    if item.kind == "reasoning":
        yield "reasoning", name_of(item)
    if (seal := seal_of(item)) is not None:
        yield "seal", seal


def _unique(item: Item, name: str | None) -> Iterator[Hashable]:
    if item.id is not None:
        yield "id", item.id
    if name is not None:
        yield item.is_call, name


def _once(item: Item) -> Iterator[Hashable]:
    """By what the rules tell what reasoning has led to: they know the last that bears it."""
    if item.id is not None:
        yield "id", item.id
    elif item.kind == "reasoning" and is_signed(item):
        yield "reasoning", name_of(item)


def _begins(seen: Sequence[Seen], place: int) -> bool:
    """Whether reasoning begins there of which something is signed."""
    if seen[place].part not in _REASONING or (place and seen[place - 1].part in _REASONING):
        return False
    while place < len(seen) and seen[place].part == "unsigned":
        place += 1
    return place < len(seen) and seen[place].part == "signed"


def _end(seen: Sequence[Seen], start: int) -> int:
    """Where what reasoning has led to ends."""
    stop = start + 1
    while stop < len(seen) and seen[stop].part != "user" and not _begins(seen, stop):
        stop += 1
    return stop


def _end_of_calls(seen: Sequence[Seen], start: int) -> int:
    """Where calls end that begin there, with the answers behind them; what else the model made stands by itself."""
    if seen[start].part in ("model", "unsigned"):
        return start + 1
    stop = start
    for part in ("call", "answer"):
        while stop < len(seen) and seen[stop].part == part:
            stop += 1
    return stop


def _complete(each: Sequence[Seen], *, led: bool) -> bool:
    """Whether nothing is found in it: each call has its answer behind it, and signed reasoning what it led to."""
    waiting: set[Hashable] = set()
    for place, seen in enumerate(each):
        waiting.update(seen.calls)
        if not seen.quiet or not waiting.issuperset(seen.answers):
            return False
        waiting.difference_update(seen.answers)
        if led and seen.part in _REASONING and not _followed(each, place):
            return False
    return not waiting


def _followed(each: Sequence[Seen], place: int) -> bool:
    """Whether the model made what comes behind reasoning."""
    after = next((seen.part for seen in each[place:] if seen.part not in _REASONING), None)
    return after in ("call", "model")
