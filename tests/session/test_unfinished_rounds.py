"""What repair did to a round that is not finished is done again with what comes next, and to nothing else."""

from __future__ import annotations

import pytest

from agentctx import Budget, ContextStrategy, FitContextWindow, Pipeline, Session, Text, ToolResult, When, validate
from agentctx.testing import assistant, call, result, transcript, user
from agentctx.tokens import FixedCounter

pytestmark = pytest.mark.anyio


async def walk(session, messages, *lengths):
    """The view of each length of a history, asked for twice: the same both times, and legal."""
    views = []
    for length in lengths:
        view = await session.prepare(messages[:length])
        assert (await session.prepare(messages[:length])).messages == view.messages
        found = validate({"messages": view.messages}, format="openai-chat")
        assert not [violation for violation in found if violation.severity == "error"]
        views.append(view)
    return views


async def test_a_result_that_came_before_its_call_stays_where_it_was_moved_to():
    """The pair is whole at each later step, and the call is there once."""
    asks, answer, task, more = transcript(
        "openai-chat", assistant(call("c", "f")), result("c", "ok"), user("a"), user("b")
    )
    messages = [task, answer, asks, more]
    first, second = await walk(Pipeline().session(format="openai-chat"), messages, 3, 4)
    assert first.messages == [task, asks, answer]
    assert second.messages == [task, asks, answer, more]


async def test_the_result_made_for_an_older_call_is_not_lost_with_an_open_round_after_it():
    """An answered call keeps its made result when the round after it is read again."""
    messages = transcript(
        "openai-chat",
        user("task"),
        assistant(call("lost", "f")),
        result("nobody", "an orphan"),
        assistant(call("c", "f"), call("d", "f")),
        result("c", "ok"),
        result("d", "ok"),
        user("go on"),
    )
    *_, last = await walk(Pipeline().session(format="openai-chat"), messages, 2, 4, 5, 6, 7)
    assert [message.get("tool_call_id") for message in last.messages] == [None, None, "lost", None, "c", "d", None]


async def test_a_round_that_is_whole_once_repaired_is_not_read_again():
    """A round that was left out stays out, also when its result came after a user's message."""
    messages = transcript("openai-chat", user("task"), assistant("old"), user("more"), assistant(call("c", "f")))
    messages += transcript("openai-chat", user("interrupts")) + transcript("openai-chat", result("c", "late"))
    pipeline = Pipeline(FitContextWindow(), budget=Budget(35), counter=FixedCounter(10))
    (view,) = await walk(pipeline.session(format="openai-chat"), messages, 6)
    assert view.messages == [messages[0], messages[4]]


async def test_a_result_before_its_call_leaves_a_run_of_code_whole_that_it_stands_in():
    """What is read again, so that the result gets to its call, begins where no server-side call is open."""
    by, kind = "code_execution", "code_execution_20250825"

    def code(name):
        asked = {"type": "tool_use", "id": f"toolu_{name}", "name": "run", "input": {}}
        asked["caller"] = {"type": kind, "tool_id": f"srvtoolu_{name}"}
        return [{"type": "server_tool_use", "id": f"srvtoolu_{name}", "name": by, "input": {"code": "x"}}, asked]

    def ended(name):
        told = {"type": "code_execution_result", "stdout": "x", "stderr": "", "return_code": 0, "content": []}
        done = {"type": "code_execution_tool_result", "tool_use_id": f"srvtoolu_{name}", "content": told}
        return [done, {"type": "text", "text": "fine"}]

    def answer(name):
        return [{"type": "tool_result", "tool_use_id": f"toolu_{name}", "content": "r"}]

    said = ["task", code(1), answer(1), answer(2), ended(1), code(2), ended(2), "and now?"]
    roles = ("user", "assistant", "user", "user", "assistant", "assistant", "assistant", "user")
    messages = [{"role": role, "content": content} for role, content in zip(roles, said, strict=True)]
    tools = [{"name": "run", "description": "d", "input_schema": {"type": "object"}, "allowed_callers": [kind]}]
    tools.append({"type": kind, "name": by})
    for stop in range(2, 8):
        session = Pipeline(budget=100_000).session(model="claude-sonnet-5", format="anthropic")
        await session.prepare(messages[:stop], None, tools)
        view = await session.prepare(messages, None, tools)
        found = validate({"messages": view.messages, "tools": tools}, format="anthropic", model="claude-sonnet-5")
        assert not [violation for violation in found if violation.severity == "error"]


async def test_of_two_results_without_ids_each_answers_one_call():
    """A result of one of Gemini's calls answers no call of the same name in a later round as well."""

    def asks(*names):
        return {
            "role": "model",
            "parts": [{"functionCall": {"name": name, "args": {"k": place}}} for place, name in names],
        }

    def tells(name, said):
        return {"role": "user", "parts": [{"functionResponse": {"name": name, "response": {"result": said}}}]}

    messages = [
        asks((1, "run")),
        {"role": "user", "parts": [{"text": "and"}]},
        asks((2, "look"), (3, "look"), (4, "look"), (5, "run")),
        tells("look", "r3"),
        tells("run", "r5"),
        asks((7, "run"), (8, "look")),
        tells("look", "r8"),
    ]
    plan = Pipeline(budget=100_000)
    session = plan.session(model="gemini-2.5-flash", format="gemini")
    for stop in (4, 5, 7):
        view = await session.prepare(messages[:stop])
    at_once = await plan.prepare(messages, format="gemini", model="gemini-2.5-flash")
    assert view.messages == at_once.messages
    assert str(view.messages).count("r5") == 1


@pytest.mark.parametrize("format_name", ["openai-chat", "gemini"])
async def test_what_was_left_out_of_an_open_round_is_left_out_once(format_name):
    """A call that gave way while the round waits for another one's result is not read and decided about again."""
    lost = assistant(call("lost", "read", {"path": "long " * 300}))
    turns = [user("task"), lost, assistant(call("b", "read")), result("b", "ok")]
    messages = transcript(format_name, *turns)
    session = Pipeline(FitContextWindow(), budget=Budget(200, target=150)).session(format=format_name)
    first = (await session.prepare(messages[:-1])).report
    assert 1 in {change.index for change in first.changes}
    second = (await session.prepare(messages)).report
    assert 1 not in {change.index for change in second.changes}


async def accounted(pipeline, messages, lengths, **named):
    """The last view of a walk on which nothing goes without a word, and on which a loaded session sends the same."""
    session, loaded = pipeline.session(**named), None
    for length in lengths:
        given = messages[:length]
        view = await session.prepare(given)
        told = {change.index for change in view.report.in_force}
        sent = set(map(id, view.messages))
        assert [index for index, message in enumerate(given) if id(message) not in sent and index not in told] == []
        if loaded is not None:
            assert (await loaded.prepare(given)).messages == view.messages
        loaded = Session.load(pipeline, session.dump())
    return view


def program(name):
    """A program of a server that calls a tool, the answer to that, and what the program says at its end."""
    asked = {"type": "function_call", "call_id": f"call_{name}", "name": "run", "arguments": "{}"}
    by = {"caller": {"type": "program", "caller_id": name}}
    return [
        {"type": "program", "call_id": name, "code": "run()", "fingerprint": "f"},
        asked | by,
        {"type": "function_call_output", "call_id": f"call_{name}", "output": "ok"} | by,
        {"type": "program_output", "call_id": name, "result": "ok", "status": "completed"},
    ]


@pytest.mark.parametrize("lengths", [(13, 15, 16, 17, 18, 19), (13, 15, 13, 15, 14, 16, 19, 15, 17)])
async def test_a_program_that_the_user_interrupted_stays_as_it_was_sent_when_a_later_one_is_open(lengths):
    """A cut in the open round of a second program loses nothing behind the first, which never came to its end."""
    rounds = [said for n in range(4) for said in (assistant(call(f"c{n}", "f")), result(f"c{n}", "ok"))]
    messages = [*transcript("openai-responses", user("task"), *rounds), *program("p")[:3]]
    messages += [{"role": "user", "content": "Stop. This instead."}, *program("q")]
    messages += transcript("openai-responses", assistant("done"), user("and now?"))
    pipeline = Pipeline(FitContextWindow(), budget=Budget(115, target=0.9), counter=FixedCounter(10))
    view = await accounted(pipeline, messages, lengths, format="openai-responses")
    assert messages[12] in view.messages


async def test_what_is_moved_behind_an_open_round_is_not_lost_with_it():
    """A system message that the model takes further on only stands behind a call that waits, and stays in the view."""
    asks = {"type": "tool_use", "id": "toolu_1", "name": "run", "input": {}}
    searches = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
    said = [
        ("user", "task"),
        ("assistant", "words"),
        ("user", "more words. " * 30),
        ("system", "be terse"),
        ("assistant", "words"),
        ("user", [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "early"}]),
        ("user", "and now?"),
        ("assistant", [asks]),
        ("assistant", [searches]),
        ("assistant", [found, {"type": "text", "text": "fine"}]),
    ]
    messages = [{"role": role, "content": content} for role, content in said]
    pipeline = Pipeline(FitContextWindow(), budget=Budget(174))
    view = await accounted(pipeline, messages, (5, 9, 10), model="claude-opus-5-5", format="anthropic")
    assert messages[3] in view.messages


async def test_contents_that_repair_joined_are_the_same_once_loaded():
    """The output of code from before the history answers no code behind it, where repair joined the two as well."""
    code, output = {"executableCode": {"code": "x"}}, {"codeExecutionResult": {"output": "words " * 40}}
    told = {"name": "f", "response": {"result": "more words. " * 50}}
    asks, answers = {"functionCall": {"name": "f", "args": {}}}, {"functionResponse": told}
    said = [
        ("model", [output, {"text": "so far"}]),
        ("model", [code, output, asks]),
        ("model", [asks]),
        ("user", [answers]),
    ]
    messages = [{"role": role, "parts": parts} for role, parts in said]
    pipeline = Pipeline(FitContextWindow(), budget=Budget(300))
    view = await accounted(pipeline, messages, (2, 4), format="gemini")
    assert view.messages == (await pipeline.prepare(messages, format="gemini")).messages


SERVER_TOOLS = [
    {"name": "read", "description": "Reads.", "input_schema": {"type": "object"}},
    {"type": "code_execution_20250825", "name": "code_execution"},
]


def asking(call_id, **more):
    """A call, in a message of its own."""
    return {"type": "tool_use", "id": call_id, "name": "read", "input": {}, **more}


def told(call_id):
    """Its result."""
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call_id, "content": "r"}]}


@pytest.mark.parametrize("answers", [("other",), ("toolu_1", "toolu_1"), ("toolu_1",), ()], ids="-".join)
@pytest.mark.parametrize("lengths", [(-2, -1), (2, -2, -1)], ids=str)
async def test_code_that_is_left_open_is_read_again_whatever_results_repair_takes_out(answers, lengths):
    """Code that waits for its calls stays open while results alone follow, orphans among them, and goes after words."""
    run = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {"code": "await read()"}}
    called = asking("toolu_1", caller={"type": "code_execution_20250825", "tool_id": "srvtoolu_1"})
    messages = [{"role": "user", "content": "task"}, {"role": "assistant", "content": [run, called]}]
    messages += [*map(told, answers), {"role": "assistant", "content": [asking("call_3")]}, told("call_3")]
    messages += [{"role": "user", "content": "something else"}]
    session = Pipeline().session(model="claude-sonnet-4-5", format="anthropic")
    for length in lengths:
        view = await session.prepare(messages[: length % (len(messages) + 1)], None, SERVER_TOOLS)
        request = {"model": "claude-sonnet-4-5", "messages": view.messages, "tools": SERVER_TOOLS}
        assert [found.rule for found in validate(request) if found.severity == "error"] == []
    at_once = await Pipeline().prepare(messages, None, SERVER_TOOLS, model="claude-sonnet-4-5", format="anthropic")
    assert view.messages == at_once.messages


class Marking(ContextStrategy):
    """Marks each result that it sees, and remembers what it saw at each step."""

    when = When.ON_ARRIVAL

    def __init__(self):
        self.steps = []

    def apply(self, context, _call):
        """The results with a mark."""
        self.steps.append([part.text for message in context.messages for part in message.results])
        return context.with_messages(
            tuple(
                message.with_parts(
                    tuple(ToolResult(part.call_id, (Text(f"{part.text}!"),)) for part in message.results)
                )
                if message.results
                else message
                for message in context.messages
            )
        )


async def test_a_stage_for_arrivals_sees_the_tail_again_as_it_was_passed_until_it_is_final():
    """Until then a placeholder stands for what is missing, and what the stage did before is thrown away."""
    calls = assistant(call("c", "f"), call("d", "f"))
    said = transcript("openai-chat", user("task"), calls, result("c", "one"), result("d", "two"), assistant("Done."))
    stage, missing = Marking(), "[no result: the tool call was interrupted]"
    session = Pipeline(stage).session(format="openai-chat")
    views = [await session.prepare(said[:length]) for length in range(1, 6)]
    assert stage.steps == [[], [missing, missing], [missing, "one"], ["one", "two"], []]
    assert [message["content"] for message in views[-1].messages if message["role"] == "tool"] == ["one!", "two!"]
