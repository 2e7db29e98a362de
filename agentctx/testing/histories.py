"""Hypothesis strategies: transcripts as their provider would see them, legal and broken; budgets; stages.

Example::

    @given(histories("anthropic"), budgets(), stages())
    def test_my_loop(history, budget, stage): ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from attrs import evolve, frozen
from hypothesis import strategies as st

from agentctx.testing.plan import (
    Answer,
    Ask,
    Code,
    Foreign,
    History,
    Hosted,
    Item,
    Picture,
    Plan,
    Ran,
    Say,
    Think,
    ToolSpec,
    Turn,
)
from agentctx.testing.stages import (
    BLANK,
    LONE,
    NAMES,
    PIXEL,
    arguments,
    budgets,
    outputs,
    single_stages,
    stages,
    visible_texts,
)
from agentctx.testing.writers import WRITERS, Writer, write

Break = Callable[[Plan, int], Plan]
AnyItem = TypeVar("AnyItem", bound=Item)


def lose_result(plan: Plan, pick: int) -> Plan:
    """One result is missing."""
    return _at_item(plan, pick, Answer, lambda _answer: ())


def lose_results(plan: Plan, pick: int) -> Plan:
    """All results of a round are missing."""
    return _at_turn(plan, pick, "results", lambda _turn: ())


def lose_calls(plan: Plan, pick: int) -> Plan:
    """An assistant turn is missing: its results are orphans."""
    return _at_turn(plan, pick, "assistant", lambda _turn: ())


def repeat_result(plan: Plan, pick: int) -> Plan:
    """One result is there twice, side by side."""
    return _at_item(plan, pick, Answer, lambda answer: (answer, evolve(answer, content="said twice")))


def repeat_results_later(plan: Plan, pick: int) -> Plan:
    """The results of a round come again at the end."""
    found = [turn for turn in plan.turns if turn.role == "results"]
    return evolve(plan, turns=(*plan.turns, found[pick % len(found)])) if found else plan


def invent_result(plan: Plan, pick: int) -> Plan:
    """A result that answers no call."""
    place = pick % (len(plan.turns) + 1)
    orphan = Turn("results", (Answer("call_nobody_made", "who asked?"),))
    return evolve(plan, turns=(*plan.turns[:place], orphan, *plan.turns[place:]))


def swap_turns(plan: Plan, pick: int) -> Plan:
    """Two neighbouring turns in the wrong order."""
    turns = list(plan.turns)
    if len(turns) < 2:
        return plan
    place = pick % (len(turns) - 1)
    turns[place : place + 2] = reversed(turns[place : place + 2])
    return evolve(plan, turns=tuple(turns))


def start_late(plan: Plan, pick: int) -> Plan:
    """The beginning is cut off, wherever that leaves it."""
    return evolve(plan, turns=plan.turns[pick % max(1, len(plan.turns)) :])


def stop_early(plan: Plan, pick: int) -> Plan:
    """The end is cut off, wherever that leaves it."""
    return evolve(plan, turns=plan.turns[: 1 + pick % max(1, len(plan.turns))])


def interrupt(plan: Plan, pick: int) -> Plan:
    """The user speaks between calls and results."""
    return _at_turn(plan, pick, "results", lambda turn: (Turn("user", (Say("wait!"),)), turn))


def speak_before_results(plan: Plan, pick: int) -> Plan:
    """Within a turn of results, the user's words come first."""
    return _at_turn(plan, pick, "results", lambda turn: (evolve(turn, items=(Say("by the way"), *turn.items)),))


def blank_text(plan: Plan, pick: int) -> Plan:
    """A text with nothing to see in it."""
    return _at_item(plan, pick, Say, lambda _say: (Say(BLANK[pick % len(BLANK)]),))


def empty_turn(plan: Plan, pick: int) -> Plan:
    """A turn of the model with no content at all."""
    return _at_turn(plan, pick, "assistant", lambda turn: (evolve(turn, items=(), blocks=True),))


def lone_surrogate(plan: Plan, pick: int) -> Plan:
    """A text that was cut in the middle of a character."""
    return _at_item(plan, pick, Say, lambda _say: (Say(LONE[pick % len(LONE)]),))


def lone_surrogate_in_result(plan: Plan, pick: int) -> Plan:
    """A tool output that was cut in the middle of a character."""
    return _at_item(plan, pick, Answer, lambda answer: (evolve(answer, content=LONE[pick % len(LONE)]),))


def lone_surrogate_in_call(plan: Plan, pick: int) -> Plan:
    """Arguments that were cut in the middle of a character."""
    return _at_item(plan, pick, Ask, lambda ask: (evolve(ask, arguments={"text": LONE[pick % len(LONE)]}),))


def not_a_number(plan: Plan, pick: int) -> Plan:
    """Arguments with a number that JSON has not."""
    strange = {"x": [float("nan"), float("inf")], "NaN": "Infinity"}
    return _at_item(plan, pick, Ask, lambda ask: (evolve(ask, arguments=strange),))


def same_id_twice(plan: Plan, pick: int) -> Plan:
    """Two calls of one turn with one id, and a result each."""
    return _at_item(plan, pick, Ask, lambda ask: (ask, evolve(ask, arguments={"again": True})))


def same_id_everywhere(plan: Plan, pick: int) -> Plan:
    """Every round uses the ids of the first."""
    turns = [evolve(turn, items=tuple(_renamed(turn.items, pick))) for turn in plan.turns]
    return evolve(plan, turns=tuple(turns))


BREAKAGES: tuple[Break, ...] = (
    lose_result,
    lose_results,
    lose_calls,
    repeat_result,
    repeat_results_later,
    invent_result,
    swap_turns,
    start_late,
    stop_early,
    interrupt,
    speak_before_results,
    blank_text,
    empty_turn,
    lone_surrogate,
    lone_surrogate_in_result,
    lone_surrogate_in_call,
    not_a_number,
    same_id_twice,
    same_id_everywhere,
)
"""Every way to break a plan."""


def opening(plan: Plan) -> Plan:
    """The plan with its system prompt first: where it is kept apart, it cannot get between the messages."""
    turns = sorted(plan.turns, key=lambda turn: turn.role != "system")
    return evolve(plan, turns=tuple(turns))


def speaking(plan: Plan) -> Plan:
    """The plan, with a word of the user at its end when there is none left in it: nothing else can be sent."""
    said = (item for turn in plan.turns if turn.role == "user" for item in turn.items)
    if any(isinstance(item, Say) and item.text.strip() for item in said):
        return plan
    return evolve(plan, turns=(*plan.turns, Turn("user", (Say("go on"),))))


def _renamed(items: tuple[Item, ...], pick: int) -> list[Item]:
    """The items with calls and answers numbered within their turn, by the last character of their ids."""
    renamed: list[Item] = []
    for item in items:
        if isinstance(item, Ask):
            renamed.append(evolve(item, id=f"same{pick % 7}_{item.id[-1]}"))
        elif isinstance(item, Answer):
            renamed.append(evolve(item, call_id=f"same{pick % 7}_{item.call_id[-1]}"))
        else:
            renamed.append(item)
    return renamed


def _at_turn(plan: Plan, pick: int, role: str, change: Callable[[Turn], tuple[Turn, ...]]) -> Plan:
    places = [place for place, turn in enumerate(plan.turns) if turn.role == role]
    if not places:
        return plan
    place = places[pick % len(places)]
    return _replaced(plan, place, change(plan.turns[place]))


def _at_item(plan: Plan, pick: int, kind: type[AnyItem], change: Callable[[AnyItem], tuple[Item, ...]]) -> Plan:
    found: list[tuple[int, int, AnyItem]] = []
    for where, turn in enumerate(plan.turns):
        if turn.role != "system":  # the system prompt is handed back as it came: breaking it breaks nothing else
            found.extend((where, at, item) for at, item in enumerate(turn.items) if isinstance(item, kind))
    if not found:
        return plan
    place, spot, chosen = found[pick % len(found)]
    items = plan.turns[place].items
    changed = (*items[:spot], *change(chosen), *items[spot + 1 :])
    return _replaced(plan, place, (evolve(plan.turns[place], items=changed),) if changed else ())


def _replaced(plan: Plan, place: int, turns: tuple[Turn, ...]) -> Plan:
    return evolve(plan, turns=(*plan.turns[:place], *turns, *plan.turns[place + 1 :]))


FORMATS: Sequence[str] = tuple(WRITERS)
"""The formats that histories can be written in."""

TOOLS = (
    *(ToolSpec(name, f"Runs {name}.", {"path": {"type": "string"}}) for name in NAMES),
    ToolSpec("web_search", hosted=True),
)

CODE = ToolSpec("code_execution", hosted=True)

# Made once: making a strategy costs more than drawing from it.
COIN = st.booleans()
DIE = st.integers(0, 9)
NAME = st.sampled_from(NAMES)
PAIR = st.integers(1, 2)
CALLS = st.sampled_from((1, 1, 1, 2, 3, 5))
VISIBLE_TEXTS = visible_texts()
OUTPUTS = outputs()
ARGUMENTS = arguments()
BROKEN = st.lists(st.tuples(st.sampled_from(BREAKAGES), st.integers(0, 1_000)), min_size=1, max_size=4)


@frozen
class _Custom:
    """What one transcript does throughout.

    Args:
        writer: What its format can say.
        signed: Whether its model thinks aloud.
        repeats: Whether its rounds use the same call ids again.
    """

    writer: Writer
    signed: bool
    repeats: bool


@st.composite
def plans(draw: st.DrawFn, format: str = "openai-chat", max_rounds: int = 6) -> Plan:  # noqa: A002 - as elsewhere
    """Plans that are legal in ``format``: system prompt, tasks, rounds of calls and results, answers.

    Args:
        draw: Given by Hypothesis.
        format: Name of the format.
        max_rounds: The most rounds.
    """
    writer = WRITERS[format]
    custom = _Custom(writer, draw(COIN), writer.repeats_ids and draw(COIN))
    turns: list[Turn] = []
    if draw(COIN):
        turns.append(Turn("system", (Say(draw(VISIBLE_TEXTS)),), blocks=draw(COIN)))
    turns.append(_user(draw, custom))
    for number in range(draw(st.integers(0, max_rounds))):
        turns.extend(_exchange(draw, custom, number))
    tools = TOOLS if draw(COIN) else ()
    if any(isinstance(item, Hosted) for turn in turns for item in turn.items):
        tools = TOOLS
    if tools and any(isinstance(item, Code) for turn in turns for item in turn.items):
        tools = (*TOOLS, CODE)
    return Plan(tuple(turns), tools)


@st.composite
def histories(
    draw: st.DrawFn,
    format: str | None = None,  # noqa: A002 - the name that the whole library gives it
    max_rounds: int = 6,
) -> History:
    """Transcripts that their provider takes.

    Args:
        draw: Given by Hypothesis.
        format: Name of the format; None for any.
        max_rounds: The most rounds.
    """
    chosen = draw(st.sampled_from(FORMATS)) if format is None else format
    return write(draw(plans(chosen, max_rounds)), chosen)


@st.composite
def broken_histories(
    draw: st.DrawFn,
    format: str | None = None,  # noqa: A002 - the name that the whole library gives it
    max_rounds: int = 6,
) -> History:
    """Transcripts that are broken in up to four ways that happen to real ones; the user says something in each.

    Args:
        draw: Given by Hypothesis.
        format: Name of the format; None for any.
        max_rounds: The most rounds.
    """
    chosen = draw(st.sampled_from(FORMATS)) if format is None else format
    plan = draw(plans(chosen, max_rounds))
    for breakage, pick in draw(BROKEN):
        plan = breakage(plan, pick)
    if WRITERS[chosen].system_apart:
        plan = opening(plan)
    return write(speaking(plan), chosen)


def _user(draw: st.DrawFn, custom: _Custom) -> Turn:
    """The user speaks: text, perhaps with a picture or a block that nobody knows."""
    if custom.writer.takes_blank and draw(DIE) == 9:
        return Turn("user", (Say(BLANK[0]),))
    items: list[Item] = [Say(draw(VISIBLE_TEXTS))]
    extra = draw(DIE)
    if extra == 9:
        items.append(Picture(PIXEL))
    elif extra == 8:
        items.append(Foreign("container_upload", {"file_id": "file_011CNha8iCJcU1wXNR6q4V8w"}))
    elif extra == 7:
        items.insert(0, Say(draw(VISIBLE_TEXTS)))
    return Turn("user", tuple(items), blocks=draw(COIN))


def _exchange(draw: st.DrawFn, custom: _Custom, number: int) -> list[Turn]:
    """What happens next: a round of calls, plain words, the user again, or a word of the system."""
    kind = draw(DIE)
    if kind == 5 and custom.writer.runs_code:
        return _program(draw, custom, number)
    if kind <= 5:
        return _round(draw, custom, number)
    if kind == 6 and not custom.writer.system_apart:
        return [Turn("developer", (Say(draw(VISIBLE_TEXTS)),))]
    if kind == 7:
        return [_user(draw, custom)]
    return [Turn("assistant", tuple(_spoken(draw, custom, number)), blocks=draw(COIN)), _user(draw, custom)]


def _round(draw: st.DrawFn, custom: _Custom, number: int) -> list[Turn]:
    """Calls side by side and all their results, in their order or in another."""
    count = draw(CALLS)
    first = "call" if custom.repeats else f"call_{number}"
    asked = [Ask(f"{first}_{place}", draw(NAME), draw(ARGUMENTS)) for place in range(count)]
    words = _spoken(draw, custom, number) if draw(COIN) else []
    turns = [Turn("assistant", (*words, *asked), blocks=draw(COIN))]
    answers: list[Item] = [_answer(draw, custom, ask) for ask in asked]
    if count > 1 and draw(COIN):
        answers = draw(st.permutations(answers))
    split = draw(st.integers(0, count - 1)) if count > 1 else 0
    said = [Say(draw(VISIBLE_TEXTS))] if draw(DIE) >= 8 else []
    return [*turns, Turn("results", (*answers, *said), split=split)]


def _program(draw: st.DrawFn, custom: _Custom, number: int) -> list[Turn]:
    """Code that the provider runs calls tools over several rounds, and prints something in the end."""
    code = f"srvtoolu_code{number}"
    first: list[Item] = [*(_spoken(draw, custom, number) if draw(COIN) else ()), Code(code)]
    turns: list[Turn] = []
    for round_ in range(draw(st.integers(1, 3))):
        asked = [
            Ask(f"code_{number}_{round_}_{place}", draw(NAME), draw(ARGUMENTS), code) for place in range(draw(PAIR))
        ]
        answers = tuple(evolve(_answer(draw, custom, ask), caller=code) for ask in asked)
        turns += [Turn("assistant", (*first, *asked)), Turn("results", answers)]
        first = []
    return [*turns, Turn("assistant", (Ran(code, draw(OUTPUTS)), Say(draw(VISIBLE_TEXTS)))), _user(draw, custom)]


def _answer(draw: st.DrawFn, custom: _Custom, ask: Ask) -> Answer:
    kind, text = draw(DIE), draw(OUTPUTS)
    if kind == 9 and text:
        pictured = (Picture(PIXEL),) if custom.writer.pictures_in_results else ()
        return Answer(ask.id, (Say(text), *pictured))
    if kind == 8:
        return Answer(ask.id, None)
    return Answer(ask.id, text, is_error=kind == 7)


def _spoken(draw: st.DrawFn, custom: _Custom, number: int) -> list[Item]:
    """What an assistant turn says beside its calls."""
    items: list[Item] = []
    if custom.signed:
        items.append(Think(draw(VISIBLE_TEXTS), f"c2lnbmVk{number}", redacted=draw(DIE) >= 8))
    extra = draw(DIE)
    if extra == 9:
        found = [{"type": "web_search_result", "url": "https://example.com", "title": "x", "encrypted_content": "RW5j"}]
        items.append(Hosted(f"srvtoolu_{number}", input={"query": "weather"}, result=found))
    elif extra == 8:
        items.append(Foreign("block_of_tomorrow", {"payload": {"words": draw(VISIBLE_TEXTS)}}))
    return [*items, Say(draw(VISIBLE_TEXTS))]


__all__ = ["FORMATS", "broken_histories", "budgets", "histories", "plans", "single_stages", "stages"]
