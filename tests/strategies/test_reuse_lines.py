"""Lines that stand further up are said by reference, and no reference points to nothing."""

import json
import re
from functools import partial
from itertools import repeat

import pytest
from histories import broken_histories, budgets, histories
from hypothesis import given, strategies as st
from plans import WRITERS

from agentctx import (
    Budget,
    ClearToolResults,
    CollapseRepeats,
    ConfigError,
    ContextOverflow,
    FitContextWindow,
    Message,
    Pipeline,
    Session,
    Text,
    ToolCall,
    ToolResult,
    TrimRounds,
    TruncateToolOutputs,
    count,
)
from agentctx.marks import WITHIN, Standing, named, text_in, without_references
from agentctx.recall import Recall
from agentctx.stores import MemoryStore
from agentctx.strategies import DropSuperseded, ReuseLines, ShrinkArguments
from agentctx.testing import assistant, call, check_laws, result, transcript, user
from agentctx.testing.assertions import _is_cut_of

pytestmark = pytest.mark.anyio

FILES = [[f"    {name}_{number} = compute({number * 7}, of={name!r})" for number in range(30)] for name in "abc"]
FILES[1][5:20] = FILES[0][5:20]
FILES[2][8:16] = [""] * 8
SLICES = st.tuples(
    st.integers(0, 2),
    st.integers(0, 25),
    st.integers(1, 30),
    st.sampled_from((None, None, "→", "\t")),
    st.integers(0, 9),
)
"""Which lines of which file, what stands behind their numbers, if they have some, and how far these were moved."""
OUTPUTS = st.lists(SLICES, min_size=1, max_size=3)
PIPELINES = (
    (),
    (ClearToolResults(1),),
    (ClearToolResults(2), FitContextWindow()),
    (TruncateToolOutputs(200), FitContextWindow()),
    (CollapseRepeats(), TrimRounds(2)),
    (FitContextWindow(), CollapseRepeats()),
    (ShrinkArguments(1, max_tokens=20), ClearToolResults(2)),
)
MOVES = st.lists(st.sampled_from(("on", "on", "on", "back", "reload", "edit")), min_size=2, max_size=9)


def said(slices, number):
    """What a tool says."""
    return "\n".join([f"output {number}", *(line for each in slices for line in shown(*each))])


def shown(file, start, length, behind, moved):
    """Lines of a file, with numbers or without."""
    lines = FILES[file][start : start + length]
    if behind is None:
        return lines
    return [f"{at:>6}{behind}{line}" for at, line in enumerate(lines, start + moved)]


def room(data, behind):
    """A small budget, where a stage needs one."""
    return data.draw(st.sampled_from((600, 1_000, 2_000))) if any(hasattr(each, "budget") for each in behind) else None


def conversation(outputs, format_):
    """A round for each output, some of calls that are named alike, and words of the user between."""
    turns = [user("the task")]
    for number, slices in enumerate(outputs):
        asked = {"path": f"f{slices[0][0]}.py", "number": number}
        if number % 3 == 1:
            asked["content"] = "\n".join(FILES[slices[-1][0]][5:])
        turns += [
            assistant(call(f"c{number}", "write" if "content" in asked else "read", asked)),
            result(f"c{number}", said(slices, number)),
        ]
        turns += [assistant("Done."), user(f"wish {number}")] if number % 4 == 3 else []
    return transcript(format_, *turns)


def check(view, outputs):
    """All references name lines that are there; with these in their places, outputs are what was said, or cut."""
    messages, asked = view.context.messages, {}
    wholes = without_references(messages)
    taken = [list(map(NUMBER.sub, repeat(r"\1:"), lines)) for lines in without_references(messages)]
    assert taken == list(as_a_reader_takes_them(messages))
    for message in messages:
        asked |= {each.id: json.loads(each.arguments)["number"] for each in message.calls}
        for number in [asked[each.call_id] for each in message.results if text_in(each) is not None]:
            lines, whole = next(wholes), said(outputs[number], number)
            assert not [line for line in lines if line.startswith(WITHIN)]
            assert _is_cut_of("\n".join(lines), whole), "\n".join(lines)
            assert "[" in "\n".join(lines) or "\n".join(lines) == whole


REFERENCE = re.compile(
    r"\[the same as lines (\d+)-(\d+) of (this|the)(?: (?:(\d+).. )?(last))? (\w+ of)"
    r' ("[^"]*") above, from ("?)(.*)\8 on(?:, (?:numbered from (\d+) on|(without numbers)))?; .*'
)
NUMBER = re.compile(r"^ *(\d+)(?:→|\t)")


def as_a_reader_takes_them(messages):
    """The lines of all outputs, with those in the place of references that somebody takes who reads what these say.

    What stands behind a number is a colon everywhere: that is not said.
    """
    texts, calls = [], {}
    for message in messages:
        for call_ in message.calls:
            calls[call_.id] = call_
            given = {key: value for key, value in json.loads(call_.arguments).items() if isinstance(value, str)}
            texts += [(f"{key} of", f'"{named(call_)}"', value.split("\n")) for key, value in given.items()]
        for result_ in message.results:
            name, lines = f'"{named(calls.get(result_.call_id), result_)}"', text_in(result_).split("\n")
            whole = []
            for at, line in enumerate(lines):
                found = REFERENCE.fullmatch(line)
                if found is None:
                    whole.append(NUMBER.sub(r"\1:", line))
                    continue
                start, stop, which, number, last, what, of, _, words, first, bare = found.groups()
                words = json.loads(f'"{words}"')
                others = [lines[:at]] if which == "this" else [said for *other, said in texts if other == [what, of]]
                fit = [
                    each for each in others if len(each) >= int(stop) and each[int(start) - 1].strip().startswith(words)
                ]
                assert len(fit) == 1 or last
                whole += as_numbered(fit[-int(number or 1)][int(start) - 1 : int(stop)], first, bare)
            texts.append(("output of", name, lines))
            yield whole


def as_numbered(lines, first, bare):
    """Lines with the numbers that a reference says that they have here."""
    if first is None and not bare:
        return [NUMBER.sub(r"\1:", line) for line in lines]
    said = [NUMBER.sub("", line) for line in lines]
    return said if first is None else [f"{at}:{line}" for at, line in enumerate(said, int(first))]


@given(
    st.lists(OUTPUTS, min_size=1, max_size=9), st.sampled_from(sorted(WRITERS)), st.sampled_from(PIPELINES), st.data()
)
def test_no_reference_points_to_nothing_without_a_session(both_loops, outputs, format_, behind, data):
    """Of a call without a session."""
    least = data.draw(st.integers(2, 9))
    tokens = room(data, behind)
    plan = Pipeline(ReuseLines(least), *behind, budget=tokens and Budget(tokens, target=tokens // 2))

    async def main():
        natives = conversation(outputs, format_)
        check(await plan.prepare(natives, format=format_), outputs)
        once = await Pipeline(ReuseLines(least)).prepare(natives, format=format_)
        again = await Pipeline(ReuseLines(least)).prepare(once.messages, format=format_)
        assert list(map(id, again.messages)) == list(map(id, once.messages))
        assert ["\n".join(lines) for lines in without_references(once.context.messages)] == [
            said(slices, number) for number, slices in enumerate(outputs)
        ]
        for native, sent in zip(natives, once.messages, strict=True):
            assert sent is native or count([sent], format=format_) < count([native], format=format_)

    both_loops(main)


@given(
    st.lists(OUTPUTS, min_size=2, max_size=9),
    st.sampled_from(sorted(WRITERS)),
    st.sampled_from(PIPELINES),
    st.booleans(),
    MOVES,
    st.data(),
)
def test_no_reference_points_to_nothing_in_a_session(both_loops, outputs, format_, behind, rolling, moves, data):
    """Of a session that is shown the whole history or its own views, after loads, going back and edits."""
    tokens = room(data, behind)
    plan = Pipeline(
        ReuseLines(data.draw(st.integers(2, 9))), *behind, budget=tokens and Budget(tokens, trigger=0.8, target=0.4)
    )
    natives = conversation(outputs, format_)

    async def main():
        session, at, current, passed = plan.session(format=format_), 0, [], []
        for move in moves:
            if move == "reload":
                session = Session.load(plan, json.loads(json.dumps(session.dump())))
                continue
            if move in ("back", "edit") and passed:
                current, at = passed[data.draw(st.integers(0, len(passed) - 1))]
                current = [*current, *transcript(format_, user("no, otherwise"))] if move == "edit" else current
            else:
                more = data.draw(st.integers(1, 6))
                current, at = [*current, *natives[at : at + more]], at + more
            if not current:
                continue
            passed.append((current, at))
            try:
                view = await session.prepare(current)
            except ContextOverflow:
                continue
            check(view, outputs)
            current = list(view.messages) if rolling else current

    both_loops(main)


@given(histories(), budgets())
def test_the_laws(both_loops, history, budget):
    """The stage keeps the laws on any transcript."""
    stage = ReuseLines(2)
    both_loops(partial(check_laws, stage, history.messages, budget, history.format, history.system, history.tools))


@given(broken_histories(), budgets())
def test_the_laws_on_broken_histories(both_loops, history, budget):
    """The stage keeps the laws on transcripts that had to be repaired."""
    plan = Pipeline(ReuseLines(2), FitContextWindow())
    both_loops(partial(check_laws, plan, history.messages, budget, history.format, history.system, history.tools))


@given(st.lists(OUTPUTS, min_size=2, max_size=6), st.sampled_from(sorted(WRITERS)), budgets(2_000))
def test_the_laws_where_lines_repeat(both_loops, outputs, format_, budget):
    """A cut of what refers to what keeps the laws."""
    plan = Pipeline(ReuseLines(3), ClearToolResults(2), FitContextWindow())
    both_loops(partial(check_laws, plan, conversation(outputs, format_), budget, format_))


def function(name, lines=30):
    """Lines of a file."""
    return [f"    {name}_{number} = compute({number}, the=context, of={name!r})" for number in range(lines)]


def read_twice(format_="openai-chat", between=()):
    """A file that is read, and read again from its tenth line on."""
    lines = function("x")
    turns = [user("the task"), assistant(call("a", "read", {"path": "x.py"})), result("a", "\n".join(lines))]
    turns += [*between, assistant(call("b", "read", {"path": "x.py", "from": 10})), result("b", "\n".join(lines[9:]))]
    return transcript(format_, *turns)


async def test_it_names_the_call_the_lines_and_how_they_begin():
    """A reference names the call with what it was asked, the lines, and the first words."""
    view = await Pipeline(ReuseLines()).prepare(read_twice())
    said = view.messages[-1]["content"]
    start = '[the same as lines 10-30 of the output of "read x.py" above, from "x_9 = compute(9, the" on; '
    assert said.startswith(start)


def numbered(lines, first, behind="→"):
    """Lines as a tool shows them."""
    return "\n".join(f"{at}{behind}{line}" for at, line in enumerate(lines, first))


async def test_lines_that_an_edit_moved_are_said_with_their_new_number():
    """Lines that have other numbers than further up are said by reference, which says from which number on."""
    lines = function("x")
    turns = [user("x"), assistant(call("a", "read", {"path": "x.py"})), result("a", numbered(lines, 1))]
    turns += [assistant(call("b", "read", {"path": "x.py", "from": 1})), result("b", numbered(["import x", *lines], 1))]
    view = await Pipeline(ReuseLines()).prepare(transcript("openai-chat", *turns))
    first, reference = view.messages[-1]["content"].split("\n")
    start = (
        '[the same as lines 1-30 of the output of "read x.py" above, from "1→    x_0 = compute(" on, numbered from 2'
    )
    assert (first, reference[: len(start)]) == ("1→import x", start)
    whole = list(without_references(view.context.messages))[-1]
    assert "\n".join(whole) == numbered(["import x", *lines], 1)


async def test_a_run_that_is_cut_short_reads_as_before():
    """A reference that ends before a line with one stands for what its own lines say, numbered as they are alone."""
    bare, within = function("x", 11), '[the same as lines 1-3 of the output of "read x" above, from "a" on; 0123abcd]'
    numbers = [*range(1, 10), 20, 21, 22]
    first = "\n".join(f"{number}| {line}" for number, line in zip(numbers, [*bare, within], strict=True))
    second = "\n".join([*bare, within])
    turns = [assistant(call("a", "read", {"path": "x"})), result("a", first)]
    turns += [assistant(call("b", "read", {"path": "y"})), result("b", second)]
    view = await Pipeline(ReuseLines()).prepare(transcript("openai-chat", user("x"), *turns))
    assert ["\n".join(each) for each in without_references(view.context.messages)] == [first, second]


async def test_a_call_that_was_gone_back_behind_names_nothing():
    """An output is named by the call before it, also where one of a tail that is not there any more had its id."""
    first, second = (Message("assistant", (ToolCall("a", "read", json.dumps({"path": path})),)) for path in "xy")
    answer, standing = ToolResult("a", (Text("it"),)), Standing()
    for message in (first, second):
        standing.hear(message)
    assert standing.name_of(answer) == 'output of "read y"'
    standing.forget_calls(second)
    assert standing.name_of(answer) == 'output of "read x"'


async def test_a_view_that_is_shown_again_refers_to_nothing_that_was_cut_since():
    """The caller goes back behind a view from before a cut, and then on: what it refers to may stand there no more."""
    plan = Pipeline(ReuseLines(), budget=Budget(700, trigger=0.8, target=0.4))
    session, turns = plan.session(format="openai-chat"), read_twice()
    turns += transcript("openai-chat", assistant(call("m", "look")), result("m", "ok"))
    first = list((await session.prepare(turns)).messages)
    more = transcript("openai-chat", assistant(call("z", "look")), result("z", "\n".join(function("more300", 30))))
    for shown in ([*first, *more], first[:-2], [*first, *more]):
        view = await session.prepare(shown)
        assert not [line for each in without_references(view.context.messages) for line in each if WITHIN in line]


async def test_what_is_put_back_moves_no_reference():
    """Lines that come back above what a reference names, since their later copy went, leave it true."""
    moved, lines = function("moved", 6), function("x")
    turns = [user("the task")]
    for name, said_ in (("b", [*moved, *lines]), ("c", lines), ("a", [*moved, *function("a", 20)])):
        turns += [assistant(call(name, "read", {"path": name})), result(name, "\n".join(said_))]
    turns += [assistant(call("e", "edit", {"path": "a", "new": "x"})), result("e", "done"), assistant("ok"), user("?")]
    messages = transcript("openai-chat", *turns)
    once = await Pipeline(ReuseLines()).prepare(messages)
    budget = Budget(count(once.messages) - 250)
    view = await Pipeline(ReuseLines(), DropSuperseded(stale=True), budget=budget).prepare(messages)
    outputs = ["\n".join(each) for each in without_references(view.context.messages)]
    assert outputs[:3] == ["\n".join([*moved, *lines]), "\n".join(lines), "[contents of a file that was changed later]"]


@pytest.mark.parametrize("format_", ["openai-chat", "anthropic"])
async def test_what_the_model_wrote_is_not_said_to_it_again(format_):
    """Lines that the model wrote in an argument are said by reference to it, and come back when that is cut."""
    lines = function("x", 60)
    asked = {"path": "x.py", "content": "\n".join(lines)}
    turns = [user("x"), assistant(call("a", "write", asked)), result("a", "written")]
    turns += [assistant(call("b", "read", {"path": "x.py"})), result("b", numbered(lines, 1, "\t"))]
    natives = transcript(format_, *turns)
    view = await Pipeline(ReuseLines()).prepare(natives, format=format_)
    (said,) = view.context.messages[-1].results
    start = (
        '[the same as lines 1-60 of the content of "write x.py" above, from "x_0 = compute(0, the" on, numbered from 1'
    )
    assert text_in(said).startswith(start)
    later = await Pipeline(ReuseLines(), ShrinkArguments(0, max_tokens=20)).prepare(natives, format=format_)
    (said,) = later.context.messages[-1].results
    assert text_in(said) == numbered(lines, 1, "\t")


async def test_it_says_which_of_several_outputs():
    """Of calls that are named alike, whose outputs begin alike, a reference says which it means."""
    outputs = [["begin", *(f"line {number} of {name}" for number in range(30))] for name in "ab"]
    turns = [user("x")]
    for at, lines in enumerate([*outputs, outputs[0], outputs[1]]):
        turns += [assistant(call(f"c{at}", "log")), result(f"c{at}", "\n".join(lines))]
    view = await Pipeline(ReuseLines()).prepare(transcript("openai-chat", *turns))
    said = [message["content"] for message in view.messages if message["role"] == "tool"]
    assert said[2].startswith("[the same as lines 1-31 of the 2nd last output of log above, from begin on; ")
    assert said[3].startswith("[the same as lines 1-31 of the last output of log above, from begin on; ")


async def test_lines_that_stand_twice_in_one_output_are_said_once():
    """Lines that stand in the same output further up are said by reference, too."""
    lines = function("x")
    natives = transcript(
        "anthropic", user("x"), assistant(call("a", "log")), result("a", "\n".join([*lines, "and", *lines]))
    )
    view = await Pipeline(ReuseLines()).prepare(natives, format="anthropic")
    (sent,) = (each for message in view.context.messages for each in message.results)
    assert text_in(sent).count("\n") == 31
    assert next(without_references(view.context.messages)) == [*lines, "and", *lines]


async def test_nothing_is_said_by_reference_that_is_as_short():
    """Where the reference would have as many tokens as the lines, the lines stay."""
    turns = [
        user("x"),
        assistant(call("a", "log")),
        result("a", "a\n" * 12),
        assistant(call("b", "log")),
        result("b", "a\n" * 12),
    ]
    natives = transcript("openai-chat", *turns)
    view = await Pipeline(ReuseLines(8)).prepare(natives)
    assert list(map(id, view.messages)) == list(map(id, natives))


async def test_the_lines_come_back_when_what_is_referred_to_is_cleared():
    """When the earlier output is cleared, the later one has its lines again, byte for byte, and the report says so."""
    natives = read_twice()
    view = await Pipeline(ReuseLines(), ClearToolResults(1)).prepare(natives)
    assert view.messages[-1]["content"] == natives[-1]["content"]
    assert "they stand here again" in view.report.stages[-1].changes[0].reason


async def test_without_room_a_handle_stands_for_the_lines():
    """Where the lines do not fit again, the model is told how many are left out, and gets them by the handle."""
    store = MemoryStore()
    natives = [*read_twice(), *transcript("openai-chat", assistant("Done. " * 150), user("go on"))]
    recall = Recall(store)
    plan = Pipeline(ReuseLines(), store=store, budget=Budget(750))
    view = await plan.prepare(natives, tools=[recall.definition("openai-chat")], format="openai-chat")
    (sent,) = [message["content"] for message in view.messages if message.get("tool_call_id") == "b"]
    assert sent.startswith("[21 lines left out; recall "), sent
    handle = sent.removeprefix("[21 lines left out; recall ").removesuffix("]")
    assert natives[4]["content"] in await recall({"handle": handle})


@pytest.mark.parametrize(
    "line", ['[the same as lines 1-9 of the output of "read x.py" above, from "x" on; 00000000]', "[the same as lines "]
)
async def test_what_only_looks_like_a_reference_stays(line):
    """A tool that writes what looks like a reference, and names no lines, is left alone, also by a cut."""
    natives = [
        *read_twice(),
        *transcript("openai-chat", assistant(call("z", "log")), result("z", f"begin\n{line}\nend")),
    ]
    view = await Pipeline(ReuseLines(), ClearToolResults(1)).prepare(natives)
    assert view.messages[-1] is natives[-1]


async def test_a_copy_of_a_reference_is_what_the_tool_said():
    """A tool that writes a reference off has said these words, also when the lines come back in the place of ours."""
    seen = await Pipeline(ReuseLines()).prepare(read_twice())
    copied = result("z", seen.messages[-1]["content"])
    natives = [*read_twice(), *transcript("openai-chat", assistant(call("z", "log")), copied)]
    view = await Pipeline(ReuseLines(), ClearToolResults(1)).prepare(natives)
    assert view.messages[-1] is natives[-1]


async def test_a_collapsed_result_comes_back_when_the_last_one_goes():
    """What is said to stand further down comes back when that is cut; what looks like it is only what a tool said."""
    said = "\n".join(function("x", 60))
    turns = [user("x"), *(each for at in "abc" for each in (assistant(call(at, "log")), result(at, said)))]
    natives = transcript("openai-chat", *turns)
    collapsed = await Pipeline(CollapseRepeats()).prepare(natives)

    def without_last(context, _call):
        messages = [each for each in context.messages if "c" not in {part.call_id for part in each.results}]
        return context.with_messages(tuple(each for each in messages if "c" not in {part.id for part in each.calls}))

    for passed, stands in ((natives, said), (collapsed.messages, collapsed.messages[4]["content"])):
        view = await Pipeline(CollapseRepeats(), without_last).prepare(passed)
        contents = [message["content"] for message in view.messages if message["role"] == "tool"]
        assert contents[1] == stands
        assert contents[0].startswith("[the same output of log stands further down #")


@pytest.mark.parametrize("wrong", [0, 1, -3, True, 2.5, "8", None])
def test_wrong_options(wrong):
    """Fewer than two lines are refused when the stage is built."""
    with pytest.raises(ConfigError, match="min_lines"):
        ReuseLines(wrong)
