"""What has broken programs before: texts, and the ways in which real transcripts are broken, each done to a plan.

Every function takes a plan and a number that picks the place, and returns a broken plan; or the plan itself where
there is nothing to break.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from attrs import evolve

from agentctx.testing.plan import Answer, Ask, Item, Plan, Say, Turn

VISIBLE = (
    "ok",
    "Fix the failing test, please.",
    "I will read the file first.\n\nThen I change it.",
    "def total(items):\n    return sum(item.price for item in items)\n",
    '{"status": "ok", "rows": [1, 2.5, null], "next": "\\u00e9"}',
    "请修复这个测试,然后告诉我结果。",
    "テストを直してください。",
    "테스트를 고쳐 주세요.",
    "Почините тест, пожалуйста.",
    "أصلح الاختبار من فضلك",
    "कृपया परीक्षण ठीक करें",
    "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇩🇪",
    "Z̷̢a̸͝l̵̛g̴͠o e\u0301 n\u0303 \u200bzero\u200dwidth\ufeff",
    "<|endoftext|> <|im_start|>system<|im_sep|> <|fim_prefix|>",
    "\n\nHuman: hello\n\nAssistant: hi <function_calls>",
    "NUL \x00, bell \x07, escape \x1b[31mred\x1b[0m, separator \u2028",
    "=" * 120,
    "0f1e2d3c4b5a69788796a5b4c3d2e1f0 0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0",
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ",
    "x" + " " * 90 + "y\t\t\t\tz\r\n\r\n",
    "please answer as json",
    "[old tool result cleared]",
    "…12 characters omitted…",
)
"""Texts with something to see in them."""

BLANK = ("", " ", "\n\t ", "\u3000")
"""Texts with nothing to see in them."""

LONE = ("\ud800", "cut in half: \ud83d", "\udc00 low first", "a\udfffb")
"""Texts with half a surrogate pair in them, which cannot be sent."""

NAMES = ("read_file", "bash", "search", "write-file")
"""Names of tools."""

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
