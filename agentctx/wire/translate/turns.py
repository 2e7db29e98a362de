"""What was said, in the messages that a format puts it into."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import is_

from attrs import evolve, field, frozen

from agentctx.core.message import SYSTEM_ROLES
from agentctx.core.parts import Media, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.core.protection import NOT_SHOWN
from agentctx.wire.translate.media import left_out
from agentctx.wire.translate.parts import in_one_text
from agentctx.wire.translate.target import Target

HEARD = "[tool results received]"
"""What the model says where the user may not speak directly after the results of tools."""


@frozen
class Turn:
    """Something that one side says.

    Args:
        role: ``"system"``, ``"developer"``, ``"user"`` (also what tools answer) or ``"assistant"``.
        parts: What is said.
        origins: The indexes of the messages that it was made from.
        why: What could not be put into it.
    """

    role: str
    parts: tuple[Part, ...]
    origins: tuple[int, ...] = field(default=(), eq=False)
    why: tuple[str, ...] = field(default=(), eq=False)


def grouped(turns: Iterable[Turn], target: Target) -> list[Turn]:
    """The turns in the grouping, the order and the roles of the target. Grouping twice changes nothing."""
    sided = [turn for each in turns if (turn := _sided(each, target)).parts]
    found: list[Turn] = []
    for side, run in groupby(sided, key=lambda turn: turn.role):
        said = list(run)
        found += _of_model(said, target) if side == "assistant" else _of_others(side, said, target)
    if target.user_first and (first := next(iter(found), None)) is not None and first.role == "assistant":
        found.insert(0, Turn("user", (Text(NOT_SHOWN),)))
    return list(found if target.user_after_results else _with_answers(found))


def _sided(turn: Turn, target: Target) -> Turn:
    if turn.role in SYSTEM_ROLES:
        return evolve(turn, role=target.system_between)
    return evolve(turn, role="user") if turn.role == "tool" else turn


def _joined(role: str, turns: Sequence[Turn], parts: Iterable[Part] | None = None) -> Turn:
    said = (part for turn in turns for part in turn.parts) if parts is None else parts
    return Turn(role, tuple(said), tuple(dict.fromkeys(origin for turn in turns for origin in turn.origins)))


def _of_model(run: Sequence[Turn], target: Target) -> list[Turn]:
    """A turn of the model: one message, or one item for each call and for the words between."""
    if target.grouping == "one item":
        return [item for turn in run for item in _items(turn)]
    whole = _joined("assistant", run)
    parts = in_one_text(whole.parts) if target.texts_in_one else whole.parts
    return [evolve(whole, parts=tuple(_signed(parts, target.unsigned_call)))]


def _signed(parts: Iterable[Part], signature: str | None) -> Iterator[Part]:
    """The parts, the first call among them with what stands for its signature."""
    for part in parts:
        if signature is not None and isinstance(part, ToolCall):
            yield evolve(part, signature=signature)
            signature = None
        else:
            yield part


def _items(turn: Turn) -> Iterator[Turn]:
    for apart, parts in groupby(turn.parts, key=lambda part: isinstance(part, (Thinking, ToolCall))):
        if apart:
            yield from (evolve(turn, parts=(part,)) for part in parts)
        else:
            yield evolve(turn, parts=tuple(parts))


def _of_others(role: str, run: Sequence[Turn], target: Target) -> list[Turn]:
    """The results of tools first, then what else is said."""
    answering = [turn for turn in run if any(isinstance(part, ToolResult) for part in turn.parts)]
    results = [_plain(part, target) for turn in answering for part in turn.parts if isinstance(part, ToolResult)]
    said = [rest for turn in run if (rest := _without_results(turn)).parts]
    if target.grouping == "one turn":
        parts = [*results, *(part for turn in said for part in turn.parts)]
        few = tuple(_few_media(parts, target))
        why = () if all(map(is_, few, parts)) else ("a message takes no more media of this kind: the latest stay",)
        return [evolve(_joined(role, run, few), why=why)]
    if not results:
        return said
    if target.grouping == "all results":
        return [_joined("user", answering, results), *said]
    each = (
        Turn("tool", (_plain(part, target),), turn.origins)
        for turn in answering
        for part in turn.parts
        if isinstance(part, ToolResult)
    )
    return [*each, *said]


def _without_results(turn: Turn) -> Turn:
    return evolve(turn, parts=tuple(part for part in turn.parts if not isinstance(part, ToolResult)))


def _plain(result: ToolResult, target: Target) -> ToolResult:
    return evolve(result, content=tuple(in_one_text(result.content))) if target.results_in_one else result


def _few_media(parts: Sequence[Part], target: Target) -> Iterator[Part]:
    """No more media of a kind than a message may hold: the latest ones."""
    over = {kind: sum(1 for part in parts if _is(part, kind)) - most for kind, most in target.most.items()}
    for part in parts:
        if isinstance(part, Media) and over.get(part.kind, 0) > 0:
            over[part.kind] -= 1
            yield left_out(part)
        else:
            yield part


def _is(part: Part, kind: str) -> bool:
    return isinstance(part, Media) and part.kind == kind


def _with_answers(turns: Sequence[Turn]) -> Iterator[Turn]:
    """The model says a word where the user would speak directly after the results of tools."""
    heard = False
    for turn in turns:
        results = tuple(part for part in turn.parts if isinstance(part, ToolResult))
        rest = _without_results(turn)
        if results:
            yield evolve(turn, parts=results)
        if rest.parts:
            if rest.role == "user" and (heard or results):
                yield Turn("assistant", (Text(HEARD),))
            yield rest
        heard = bool(results) and not rest.parts
