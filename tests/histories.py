"""Hypothesis strategies: transcripts as their provider would see them, legal and broken; budgets; built-in stages.

Example::

    @given(histories("anthropic"), budgets(), stages())
    def test_my_loop(history, budget, stage): ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import mul
from typing import TypeVar, get_args

from attrs import evolve, frozen
from hypothesis import strategies as st
from plans import (
    WRITERS,
    Answer,
    Ask,
    Code,
    Foreign,
    Hosted,
    Item,
    Picture,
    Plan,
    Ran,
    Say,
    Think,
    ToolSpec,
    Turn,
    Writer,
    write,
)

from agentctx.budget import PERCENTAGES, SMALLEST_LIMIT, Budget
from agentctx.engine.relevance import Embedded
from agentctx.engine.repair import RepairHistory
from agentctx.engine.shrink import Keep
from agentctx.pipeline import Pipeline
from agentctx.protocols import ContextStrategy
from agentctx.strategies.collapse_repeats import CollapseRepeats
from agentctx.strategies.compress_layers import DICTIONARY, CompressLayers
from agentctx.strategies.drop_superseded import DropSuperseded
from agentctx.strategies.drop_units import (
    ByTools,
    ClearByProvider,
    ClearToolResults,
    Drop,
    DropTail,
    ShrinkArguments,
    Strict,
    Tiered,
    TrimRounds,
    TruncateOldest,
)
from agentctx.strategies.fit import CompactJson, FitContextWindow, TabulateJson, TruncateToolOutputs
from agentctx.strategies.fold_output import FoldOutput
from agentctx.strategies.ledger import Ledger
from agentctx.strategies.pack import STRATEGIES, Pack, Weights
from agentctx.strategies.reuse_lines import ReuseLines
from agentctx.strategies.summarize import Summarize
from agentctx.strategies.when import first_of, over, when
from agentctx.testing.fakes import fixed_summarizer
from agentctx.testing.writers import History
from agentctx.tiers import TierRule

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
"""Texts that have broken programs before, with something to see in them."""

BLANK = ("", " ", "\n\t ", "\u3000")
"""Texts with nothing to see in them."""

LONE = ("\ud800", "cut in half: \ud83d", "\udc00 low first", "a\udfffb")
"""Texts with half a surrogate pair in them, which cannot be sent."""

NAMES = ("read_file", "bash", "search", "write-file")
"""Names of tools."""

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A PNG of one pixel, in base64."""

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

_FREE = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12).map(
    lambda text: text if text.strip() else f"x{text}"
)
VISIBLE_TEXTS = st.one_of(st.sampled_from(VISIBLE), st.sampled_from(VISIBLE), _FREE)
"""Texts with something to see in them: mostly known trouble, some free."""

_BIG = st.builds(mul, st.sampled_from(VISIBLE), st.sampled_from((10, 60, 300)))
OUTPUTS = st.one_of(VISIBLE_TEXTS, _BIG, st.just(""))
"""What tools answer: small texts, big ones, and nothing."""

_VALUES: st.SearchStrategy[object] = st.one_of(
    st.sampled_from(VISIBLE), st.integers(-9, 9), st.sampled_from((None, True, 0.5, [], {"deep": [{"er": "x"}]}))
)
ARGUMENTS = st.dictionaries(st.sampled_from(("path", "query", "größe")), _VALUES, max_size=2)
"""Arguments of tool calls."""


@frozen
class _Custom:
    """What one transcript does throughout."""

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


Break = Callable[[Plan, int], Plan]
"""A way in which real transcripts are broken: takes a plan and a number that picks the place, and returns the broken
plan; or the plan itself where there is nothing to break."""


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

BROKEN = st.lists(st.tuples(st.sampled_from(BREAKAGES), st.integers(0, 1_000)), min_size=1, max_size=4)


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


AnyItem = TypeVar("AnyItem", bound=Item)


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


@st.composite
def budgets(draw: st.DrawFn, max_window: int = 20_000) -> Budget:
    """Budgets of any size, also far too small ones, with and without reserve, trigger and target.

    Args:
        draw: Given by Hypothesis.
        max_window: The largest window, in tokens.
    """
    window = draw(st.one_of(st.integers(1, 100), st.integers(100, 2_000), st.integers(1, max_window)))
    reserve = draw(st.one_of(st.just(0), st.integers(0, window - 1)))
    limit = window - reserve
    least = 1 if limit < SMALLEST_LIMIT else PERCENTAGES + 1  # fewer tokens of so many would be a percentage
    trigger = draw(st.one_of(st.none(), st.integers(least, limit)))
    target = draw(st.one_of(st.none(), st.integers(least, trigger or limit)))
    return Budget(window, reserve, trigger=trigger, target=target)


def single_stages() -> st.SearchStrategy[ContextStrategy]:
    """Any one built-in stage, with any options."""
    keeps: st.SearchStrategy[Keep] = st.sampled_from(get_args(Keep))
    return st.one_of(
        st.builds(TrimRounds, st.integers(1, 5)),
        st.builds(TruncateToolOutputs, max_tokens=st.integers(1, 300), keep=keeps),
        st.builds(TruncateToolOutputs, max_chars=st.integers(1, 2_000), keep=keeps),
        st.builds(ClearToolResults, keep_last=st.integers(0, 4), exclude=st.sets(st.sampled_from(NAMES), max_size=2)),
        st.just(FitContextWindow()),
        st.builds(FitContextWindow, budget=budgets(5_000)),
        st.builds(CollapseRepeats, similar=st.sampled_from((None, 1, 0.6))),
        st.builds(CollapseRepeats, marker=st.sampled_from(("[-]", "[{tool}]", "[as {what} of {tool} said below]"))),
        st.builds(DropSuperseded, min_lines=st.integers(2, 8), stale=st.booleans(), short=st.booleans()),
        st.builds(ShrinkArguments, st.integers(0, 3), max_tokens=st.integers(1, 60), tools=st.just(NAMES)),
        layers(),
        st.builds(ReuseLines, st.integers(2, 10)),
        packs(),
        tiereds(),
        st.just(RepairHistory()),
        summaries(),
        whole_units(),
        ledgers(),
        rewritten(),
        cleared_by_provider(),
    )


def rewritten() -> st.SearchStrategy[ContextStrategy]:
    """What puts single results into fewer tokens."""
    names = st.sets(st.sampled_from(NAMES), max_size=2)
    makers = st.sampled_from((CompactJson, TabulateJson, FoldOutput))
    return st.builds(lambda made, exclude: made(exclude=exclude), makers, names)


def layers() -> st.SearchStrategy[ContextStrategy]:
    """Codes, folded outputs and what the assistant has said before, in any combination."""
    words = st.sampled_from((DICTIONARY, (), ("the same line",)))
    folds = st.one_of(st.none(), st.integers(10, 40))
    on = st.booleans()
    switches = dict.fromkeys(("paths", "codebook", "json", "deduplicate"), on)
    return st.builds(CompressLayers, dictionary=words, observation=folds, **switches)


def cleared_by_provider() -> st.SearchStrategy[ContextStrategy]:
    """Clearing that is left to the provider, with any options."""
    few = st.one_of(st.none(), st.integers(1, 500))
    return st.builds(
        ClearByProvider,
        st.integers(1, 3_000),
        st.integers(0, 4),
        at_least=few,
        exclude=st.sets(st.sampled_from(NAMES), max_size=2),
        inputs=st.booleans(),
        thinking=st.one_of(st.none(), st.just("all"), st.integers(1, 2)),
    )


def summaries() -> st.SearchStrategy[ContextStrategy]:
    """A summary of the oldest, or of all earlier turns: short, empty, far too long, or one that breaks marks."""
    texts = st.sampled_from(("They read two files.", "", " \n", "and then " * 150, "</system> [go on] \x1b[31m"))
    summarizers = st.builds(fixed_summarizer, texts)
    return st.one_of(
        st.builds(lambda made: Pipeline(FitContextWindow(), summarizer=made), summarizers),
        st.builds(Summarize, summarizers, fallback=st.sampled_from((None, Drop(), TruncateOldest()))),
    )


def ledgers() -> st.SearchStrategy[ContextStrategy]:
    """A cut, and exact values out of what went, in little and in much room."""
    told = st.one_of(st.builds(Ledger, st.floats(0.01, 0.5)), st.builds(Ledger, max_tokens=st.integers(1, 2_000)))
    cuts = st.sampled_from((FitContextWindow(), TrimRounds(1), ClearToolResults(1)))
    return st.one_of(told, st.builds(Pipeline, cuts, told))


def whole_units() -> st.SearchStrategy[ContextStrategy]:
    """What keeps or drops whole units, with any options; also what refuses to drop any."""
    roles = st.sets(st.sampled_from(("system", "user", "assistant", "tool")), max_size=1)
    oldest = st.builds(TruncateOldest, keep_pairs=st.booleans(), min_messages=st.integers(0, 6), protect_roles=roles)
    return st.one_of(oldest, st.sampled_from((Drop(), DropTail(), Strict())))


def tiereds() -> st.SearchStrategy[Tiered]:
    """Allocation to tiers, the rounds of any tools in any tiers, with and without floors, shares and caps."""
    tools = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 6), max_size=3)
    floors, caps = st.integers(0, 400), st.one_of(st.none(), st.integers(400, 3_000))
    rule = st.builds(TierRule, st.integers(0, 6), floors, st.sampled_from((0, 0.1, 0.2, 1 / 3)), caps)
    return st.builds(
        Tiered,
        st.lists(rule, max_size=3, unique_by=lambda made: made.tier),
        tier_of=st.builds(ByTools, tools),
        max_tokens=st.one_of(st.none(), st.integers(50, 5_000)),
    )


def packs() -> st.SearchStrategy[Pack]:
    """Packing by any strategy, with any options; by BM25 or a made embedding."""
    weights = st.builds(Weights, recency=st.floats(0.1, 1), relevance=st.floats(0, 1), role=st.floats(0, 1))
    return st.builds(
        Pack,
        st.one_of(st.sampled_from(sorted(STRATEGIES)), weights),
        task=st.one_of(st.none(), st.sampled_from(("read the file", "error", ""))),
        relevance=st.sampled_from((None, Embedded(_by_length))),
        keep_last=st.integers(0, 6),
        note=st.booleans(),
        max_tokens=st.one_of(st.none(), st.integers(50, 5_000)),
    )


async def _by_length(texts: Sequence[str]) -> Sequence[Sequence[float]]:
    """Vectors that differ, without an embedding model."""
    return [(1.0, float(len(text) % 7) - 3) for text in texts]


def stages() -> st.SearchStrategy[ContextStrategy]:
    """Any built-in stage, alone or nested in ``when``, ``first_of`` and pipelines."""
    return st.recursive(single_stages(), _nested, max_leaves=4)


def _nested(inner: st.SearchStrategy[ContextStrategy]) -> st.SearchStrategy[ContextStrategy]:
    sizes: st.SearchStrategy[int | float] = st.one_of(st.integers(1, 2_000), st.sampled_from((0.1, 0.5, 0.8, 1.0)))
    condition = st.one_of(st.builds(over, sizes), st.builds(lambda size: ~over(size), sizes))
    several: Callable[..., st.SearchStrategy[ContextStrategy]] = _of_several
    return st.one_of(st.builds(when, condition, inner), several(first_of, inner), several(Pipeline, inner))


def _of_several(
    made: Callable[..., ContextStrategy], inner: st.SearchStrategy[ContextStrategy]
) -> st.SearchStrategy[ContextStrategy]:
    return st.lists(inner, min_size=1, max_size=3).map(lambda chosen: made(*chosen))


__all__ = ["FORMATS", "broken_histories", "budgets", "histories", "plans", "single_stages", "stages"]
