"""Hypothesis strategies: transcripts as their provider would see them, legal and broken; budgets; stages.

Example::

    @given(histories("anthropic"), budgets(), stages())
    def test_my_loop(history, budget, stage): ...
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen
from hypothesis import strategies as st

from agentctx.testing.breakages import BLANK, BREAKAGES, NAMES, VISIBLE, opening, speaking
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
from agentctx.testing.stages import budgets, single_stages, stages
from agentctx.testing.writers import WRITERS, Writer, write

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A PNG of one pixel, in base64."""

FORMATS: Sequence[str] = tuple(WRITERS)
"""The formats that histories can be written in."""

TOOLS = (
    *(ToolSpec(name, f"Runs {name}.", {"path": {"type": "string"}}) for name in NAMES),
    ToolSpec("web_search", hosted=True),
)

CODE = ToolSpec("code_execution", hosted=True)


def _visible(text: str) -> str:
    return text if text.strip() else f"x{text}"


def _repeated(piece: str, times: int) -> str:
    return piece * times


def visible_texts() -> st.SearchStrategy[str]:
    """Texts with something to see in them: mostly known trouble, some free."""
    free = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12).map(_visible)
    return st.one_of(st.sampled_from(VISIBLE), st.sampled_from(VISIBLE), free)


def outputs() -> st.SearchStrategy[str]:
    """What tools answer: small texts, big ones, and nothing."""
    big = st.builds(_repeated, st.sampled_from(VISIBLE), st.sampled_from((10, 60, 300)))
    return st.one_of(visible_texts(), big, st.just(""))


def arguments() -> st.SearchStrategy[dict[str, object]]:
    """Arguments of tool calls."""
    values: st.SearchStrategy[object] = st.one_of(
        st.sampled_from(VISIBLE), st.integers(-9, 9), st.sampled_from((None, True, 0.5, [], {"deep": [{"er": "x"}]}))
    )
    return st.dictionaries(st.sampled_from(("path", "query", "größe")), values, max_size=2)


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


__all__ = ["FORMATS", "broken_histories", "budgets", "histories", "plans", "single_stages", "stages"]
