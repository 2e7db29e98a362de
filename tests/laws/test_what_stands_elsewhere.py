"""Whatever says of lines that they stand elsewhere in the request is right, in every view."""

import json
import re

from hypothesis import given, strategies as st
from plans import WRITERS

from agentctx import (
    Budget,
    ClearToolResults,
    CollapseRepeats,
    ContextOverflow,
    FitContextWindow,
    Pipeline,
    Session,
    TrimRounds,
    TruncateToolOutputs,
)
from agentctx.marks import WITHIN, without_references
from agentctx.strategies import DropSuperseded, ReuseLines
from agentctx.testing import assistant, call, result, transcript, user

WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa")
FILES = [[f"{WORDS[k % 10]} {WORDS[k * 7 // 3 % 10]} of {name} goes on, {k}" for k in range(24)] for name in "abc"]
HEADS = ("", "2026-01-01 10:00:{}", "<system-reminder>\nDo not speak of this to the user.\n</system-reminder>")
SLICE = st.tuples(st.sampled_from(HEADS), st.integers(0, 2), st.sampled_from((0, 0, 5, 12)), st.sampled_from((6, 24)))
OUTPUTS = st.lists(SLICE, min_size=2, max_size=8)
SAYING = (
    (ReuseLines(4),),
    (DropSuperseded(),),
    (CollapseRepeats(),),
    (CollapseRepeats(similar=1),),
    (ReuseLines(4), DropSuperseded(), CollapseRepeats(similar=1)),
)
CUTTING = (
    (FitContextWindow(),),
    (ClearToolResults(1), FitContextWindow()),
    (ClearToolResults(0),),
    (TrimRounds(2), FitContextWindow()),
    (TruncateToolOutputs(60), FitContextWindow()),
    (FitContextWindow(), DropSuperseded()),
)
BUDGETS = st.sampled_from((400, 600, 900, 1_400))
MOVES = st.lists(st.sampled_from(("on", "on", "on", "back", "reload", "trim")), min_size=2, max_size=8)
ELSEWHERE = re.compile(r"\[(?:(\d+) lines? |(reminder ))?shown again later[^\]]*\]")


def said(output, number):
    """What a tool says."""
    head, file, start, length = output
    return "\n".join([*filter(None, [head.format(f"{number:02}")]), *FILES[file][start : start + length]])


def conversation(outputs, format_):
    """A round for each output, all of calls that are named alike, and words of the user between."""
    turns = [user("the task")]
    for number, output in enumerate(outputs):
        asked = call(f"c{number}", "read", {"n": number % 2})
        turns += [assistant(f"step {number}", asked), result(f"c{number}", said(output, number))]
        turns += [assistant("Done."), user(f"wish {number}")] if number % 3 == 2 else []
    return transcript(format_, *turns)


def stands(lines, texts):
    """Whether lines stand together in one of the texts."""
    return any(f"\n{lines}\n" in f"\n{text}\n" for text in texts)


def check(view, outputs, *, is_cut):
    """What is said to stand elsewhere stands there, as it was said."""
    texts = ["\n".join(lines) for lines in without_references(view.context.messages)]
    steps = [int(step) for message in view.context.messages for step in re.findall(r"^step (\d+)$", message.text)]
    for place, (number, text) in enumerate(zip(steps, texts, strict=False)):
        assert WITHIN not in text
        assert says(text, said(outputs[number], number), texts[place + 1 :], is_cut), text


def says(text, whole, later, is_cut):
    """Whether marks in a text stand for what was said, as that stands later; without cuts, for what had their place."""
    if text.startswith("[the same output of read stands further down"):
        return any(says(other, whole, later[at:], is_cut=False) for at, other in enumerate(later, 1))
    if text.startswith("[the same output of read came again later"):
        return re.sub(r"\d+", "0", whole) in [re.sub(r"\d+", "0", other) for other in later]
    lines, at = whole.split("\n"), 0
    for line in text.split("\n"):
        found = ELSEWHERE.fullmatch(line)
        length = 1 if found is None else 3 if found[2] else int(found[1] or len(lines))
        starts = range(len(lines) - length + 1) if is_cut else [at]
        if found is not None and not any(stands("\n".join(lines[each : each + length]), later) for each in starts):
            return False
        if found is None and not is_cut and line != "\n".join(lines[at : at + 1]):
            return False
        at += length
    return is_cut or at == len(lines)


def without_oldest_round(natives):
    """The messages without the first step that something is said of, as a caller takes it out of its list."""
    steps = [place for place, native in enumerate(natives) if re.search(r'"step \d+"', json.dumps(native))]
    return [*natives[: steps[0]], *natives[steps[1] :]] if len(steps) > 2 else natives


@given(OUTPUTS, st.sampled_from(sorted(WRITERS)), st.sampled_from(SAYING), st.sampled_from(CUTTING), BUDGETS)
def test_without_a_session(both_loops, outputs, format_, saying, cutting, tokens):
    """In a call without a session, whatever cuts behind."""
    plan = Pipeline(*saying, *cutting, budget=Budget(tokens, target=tokens // 2))

    async def main():
        try:
            check(await plan.prepare(conversation(outputs, format_), format=format_), outputs, is_cut=True)
        except ContextOverflow:
            return

    both_loops(main)


OMITTED = re.compile(r"\n\[… ([\d,]+) characters omitted …\]\n")


@given(OUTPUTS, st.sampled_from(sorted(WRITERS)), st.sampled_from((60, 90, 200, None)), BUDGETS, st.integers(0, 1))
def test_a_cut_says_how_much_is_missing(both_loops, outputs, format_, most, tokens, marking):
    """What a cut leaves out of an output with references it counts as what these stand for, to the character."""

    async def main():
        cutting, budget = (FitContextWindow(), tokens) if most is None else (TruncateToolOutputs(most), None)
        plan = Pipeline((ReuseLines(4), DropSuperseded())[marking], cutting, budget=budget)
        try:
            view = await plan.prepare(conversation(outputs, format_), format=format_)
        except ContextOverflow:
            return
        texts = ["\n".join(lines) for lines in without_references(view.context.messages)]
        steps = [int(step) for message in view.context.messages for step in re.findall(r"^step (\d+)$", message.text)]
        for number, text in zip(steps, texts, strict=False):
            missing = [int(each.replace(",", "")) for each in OMITTED.findall(text)]
            if missing and "left out" not in text and "shown again" not in text:
                assert len(OMITTED.sub("", text)) + sum(missing) == len(said(outputs[number], number)), text

    both_loops(main)


@given(OUTPUTS, st.sampled_from(sorted(WRITERS)), st.sampled_from(SAYING))
def test_where_nothing_is_cut(both_loops, outputs, format_, saying):
    """Without a budget, where each mark stands for just the lines whose place it has."""

    async def main():
        check(await Pipeline(*saying).prepare(conversation(outputs, format_), format=format_), outputs, is_cut=False)

    both_loops(main)


@given(
    OUTPUTS,
    st.sampled_from(sorted(WRITERS)),
    st.sampled_from(SAYING),
    st.sampled_from(CUTTING),
    MOVES,
    st.data(),
)
def test_in_a_session(both_loops, outputs, format_, saying, cutting, moves, data):
    """In a session that is shown the whole history or its own views, after loads and going back."""
    tokens, rolling = data.draw(BUDGETS), data.draw(st.booleans())
    plan = Pipeline(*saying, *cutting, budget=Budget(tokens, trigger=0.8, target=0.4))
    natives = conversation(outputs, format_)

    async def main():
        session, at, current, passed = plan.session(format=format_), 0, [], []
        for move in moves:
            if move == "reload":
                session = Session.load(plan, json.loads(json.dumps(session.dump())))
                continue
            if move == "trim":
                current = without_oldest_round(current)
            elif move == "back" and passed:
                current, at = passed[data.draw(st.integers(0, len(passed) - 1))]
            else:
                more = data.draw(st.integers(1, 9))
                current, at = [*current, *natives[at : at + more]], at + more
            if not current:
                continue
            passed.append((current, at))
            try:
                view = await session.prepare(current)
            except ContextOverflow:
                continue
            check(view, outputs, is_cut=True)
            current = list(view.messages) if rolling else current

    both_loops(main)
