"""A provider added from outside: read, prepared, counted, checked, converted and replayed like any other."""

import json
import re
from copy import deepcopy

import pytest
from attrs import frozen

import agentctx
from agentctx import (
    Budget,
    ConfigError,
    ContextOverflow,
    FitContextWindow,
    InvalidInput,
    Message,
    Pipeline,
    PlaceCacheMarkers,
    Session,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    TruncateToolOutputs,
)
from agentctx.builder import Block, ContextBuilder, Tier
from agentctx.engine.usage import output_tokens, prompt_tokens
from agentctx.formats import (
    Capabilities,
    RequestKeys,
    RoundRules,
    TokenOverheads,
    UsageKeys,
    Violation,
    WireFormat,
    register_format,
    registry,
)
from agentctx.formats.registry import detected, format_named
from agentctx.replay import Recording, replay

pytestmark = pytest.mark.anyio

SPEAKERS = {"you": "user", "me": "assistant", "machine": "tool"}
ROLES = {role: speaker for speaker, role in SPEAKERS.items()}


@frozen
class Toy(WireFormat):
    """Messages with a ``speaker`` and a ``text``; ``do`` holds calls, ``of`` names the call that a machine answers."""

    name = "toy"
    other_names = ("plaything",)
    keys = RequestKeys("talk", system="manners")
    rounds = RoundRules(unique_ids=True)
    overheads = TokenOverheads(message=2, reply=5, call=3, result=1)
    usage_keys = UsageKeys(("heard",), parts=("remembered",), answer=("spoken",))
    overflow_words = re.compile(r"you talk too much")

    def usual_for(self, family, /):
        """Its own models."""
        return 3 if "toy" in family else 0

    def recognises(self, request, /):
        """By its speakers."""
        messages = request.get("talk", request.get("messages"))
        if not isinstance(messages, list) or not messages:
            return 0
        return 10 if all(isinstance(each, dict) and each.get("speaker") in SPEAKERS for each in messages) else 0

    def read_message(self, native, index, /):
        """A message as a value."""
        if not isinstance(native, dict) or native.get("speaker") not in SPEAKERS:
            where, what = f"messages[{index}].speaker", f"expected one of {', '.join(SPEAKERS)}"
            raise InvalidInput(where, what)
        said = (Text(native["text"], source=native["text"]),) if native.get("text") else ()
        if native["speaker"] == "machine":
            said = (ToolResult(native["of"], said, source=native),)
        calls = (
            ToolCall(call["number"], call["tool"], json.dumps(call["with"]), source=call)
            for call in native.get("do", ())
        )
        return Message.read(SPEAKERS[native["speaker"]], (*said, *calls), native)

    def write_message(self, message, /):
        """A value as a message."""
        if message.as_read:
            return message.source
        made = {"speaker": ROLES[message.role]}
        if message.results:
            (result,) = message.results
            return {"speaker": "machine", "of": result.call_id, "text": result.text}
        made["text"] = "".join(part.text for part in message.parts if isinstance(part, Text))
        calls = [{"number": call.id, "tool": call.name, "with": json.loads(call.arguments)} for call in message.calls]
        return {**made, "do": calls} if calls else made

    def synthetic_result(self, calls, text, /):
        """One answer of a machine for each call."""
        return tuple(Message("tool", (ToolResult(call.id, (Text(text),)),)) for call in calls)

    def validate(self, request, _profile, _before, /):
        """Nobody may be silent."""
        return tuple(
            Violation("toy.silent", "error", index, f"talk[{index}].text", "say something")
            for index, each in enumerate(request.get("talk", request.get("messages", ())))
            if not each.get("text") and not each.get("do")
        )

    def capabilities(self, _model, _profile, /):
        """Each result is a message, and says nothing of failure."""
        keys = frozenset({"speaker", "text", "do", "of", "number", "tool", "with"})
        return Capabilities(grouping="one result", texts_in_one=True, results_in_one=True, says_failed=False, keys=keys)


@pytest.fixture(autouse=True)
def registered():
    """The format, as a program would add it when it starts."""
    register_format(Toy())
    yield
    del registry._formats._loaded["toy"]


def history(rounds=3, long=40):
    """A task, some rounds with a tool, and an answer."""
    talk = [{"speaker": "you", "text": "Find out why the build is red."}]
    for number in range(rounds):
        call = {"number": f"c{number}", "tool": "read", "with": {"path": f"src/part_{number}.py"}}
        talk.append({"speaker": "me", "text": f"Look at part {number}.", "do": [call]})
        text = "\n".join(f"line {line} of part {number}" for line in range(long))
        talk.append({"speaker": "machine", "of": f"c{number}", "text": text})
    return [*talk, {"speaker": "me", "text": "It was a typo."}, {"speaker": "you", "text": "Fix it."}]


TOOLS = [{"name": "read", "description": "Read a file.", "parameters": {"type": "object", "properties": {}}}]
SMALL = Budget(window=900, output_reserve=100)


def test_its_usage_is_understood():
    """A prompt's size is told under the keys that the format names, its parts added up; so is the answer's."""
    usage = {"heard": 100, "remembered": 900, "spoken": 7}
    assert (prompt_tokens(usage), output_tokens(usage)) == (1_000, 7)


async def test_an_untouched_request_goes_back_as_it_came():
    """It is found out by its messages; what fits comes back as the caller's own objects."""
    talk = history()
    view = await Pipeline(FitContextWindow(), budget=Budget(10_000)).prepare(talk, system="Be brief.", tools=TOOLS)
    assert detected({"messages": talk}).wire == Toy()
    assert all(one is other for one, other in zip(view.messages, talk, strict=True))
    assert view.system == "Be brief."


async def test_a_request_that_is_too_large_is_cut_and_stays_legal():
    """Stages cut it to the budget, in its own shape, with pairs whole; nothing passed in changes."""
    talk = history(rounds=8)
    before = deepcopy(talk)
    view = await Pipeline(TruncateToolOutputs(50), FitContextWindow(), budget=SMALL).prepare(
        talk, system="Be brief.", tools=TOOLS
    )
    assert talk == before
    assert view.report.tokens_after <= SMALL.limit < view.report.tokens_before
    asked = [call["number"] for each in view.messages for call in each.get("do", ())]
    assert asked == [each["of"] for each in view.messages if each["speaker"] == "machine"]
    assert agentctx.validate({"talk": view.messages}, "toy") == ()


async def test_what_cannot_fit_overflows_before_it_is_sent():
    """The fit guarantee holds for it as for any other."""
    with pytest.raises(ContextOverflow):
        await Pipeline(FitContextWindow(), budget=Budget(20)).prepare(history(), format="toy")


async def test_a_broken_history_is_repaired():
    """A call without an answer gets one, as its own format writes it; a repeated id is told apart."""
    call = {"number": "c0", "tool": "read", "with": {}}
    talk = [{"speaker": "you", "text": "Go."}, {"speaker": "me", "do": [call]}, {"speaker": "you", "text": "And?"}]
    view = await Pipeline(budget=Budget(10_000)).prepare(talk)
    assert [each["speaker"] for each in view.messages] == ["you", "me", "machine", "you"]
    assert view.messages[2]["of"] == "c0"
    again = [*history(1), {"speaker": "me", "do": [call]}, {"speaker": "machine", "of": "c0", "text": "x"}]
    view = await Pipeline(budget=Budget(10_000)).prepare(again)
    assert [each["of"] for each in view.messages if each["speaker"] == "machine"] == ["c0", "c0_2"]


async def test_a_session_sticks_to_what_it_decided():
    """Step by step it is cut once in a while, and the prefix stays; a dumped session goes on."""
    pipeline = Pipeline(TruncateToolOutputs(60), FitContextWindow(), budget=SMALL)
    session, whole = pipeline.session(format="toy"), history(rounds=12)
    views = []
    for end in range(1, len(whole), 2):
        view = await session.prepare(whole[:end])
        session.record({"prompt_tokens": view.report.tokens_after})
        views.append(view)
        assert view.report.tokens_after <= SMALL.limit
    assert any(view.report.changes for view in views)
    loaded = Session.load(pipeline, json.loads(json.dumps(session.dump())))
    assert (await loaded.prepare(whole)).messages == (await session.prepare(whole)).messages


async def test_it_is_counted_with_its_own_overheads():
    """Two more messages cost two times what one adds beside its words."""
    one, two = [{"speaker": "you", "text": "Hi"}], [{"speaker": "you", "text": "Hi"}] * 2
    assert agentctx.count(two, format="toy") - agentctx.count(one, format="toy") == 2 + len(["user", "Hi"])
    assert agentctx.count(one, format="toy") == 5 + 2 + len(["user", "Hi"])


async def test_its_words_for_too_much_are_understood():
    """An overflow in its own words is one, and its session sends something smaller."""
    refused = RuntimeError("You talk too much: 900 is more than 600.")
    overflow = agentctx.classify_error(refused)
    assert (overflow.kind, overflow.provider, overflow.limit) == ("window", "toy", 600)
    session = Pipeline(FitContextWindow(), budget=Budget(2_000)).session(format="toy")
    view = await session.prepare(history(rounds=4))
    smaller = await session.recover(refused)
    assert smaller.report.tokens_after < view.report.tokens_after


async def test_its_rules_are_checked():
    """What it refuses is said, found out from the request or named."""
    found = agentctx.validate({"talk": [{"speaker": "you", "text": "Hi"}, {"speaker": "me", "text": ""}]})
    assert [(each.rule, each.index) for each in found] == [("toy.silent", 1)]


@pytest.mark.parametrize("name", ["openai-chat", "openai-responses", "anthropic", "gemini", "bedrock"])
async def test_a_conversation_is_taken_to_every_other_and_back(name):
    """Words, calls and answers arrive, legal there; nothing of its own shape is said to be lost."""
    talk = history(2, long=2)
    there = agentctx.convert(talk, name, system="Be brief.", tools=TOOLS)
    assert agentctx.validate(format_named(name).keys.request(there.messages, there.system, there.tools), name) == ()
    assert not [change for change in there.report.changes if "only its own format" in change.reason]
    back = agentctx.convert(there.messages, "toy", format=name, system=there.system, tools=there.tools)
    assert [each["text"] for each in back.messages] == [each["text"] for each in talk]
    assert back.system == "Be brief."
    assert back.tools == TOOLS


async def test_reasoning_stays_with_its_model():
    """What another model thought is not taken to it."""
    content = [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}, {"type": "text", "text": "Yes."}]
    messages = [{"role": "user", "content": "Sure?"}, {"role": "assistant", "content": content}]
    made = agentctx.convert(messages, "toy", format="anthropic")
    assert made.messages == [{"speaker": "you", "text": "Sure?"}, {"speaker": "me", "text": "Yes."}]
    thought = Message("assistant", (Thinking("Hm."), Text("Yes.")))
    assert Toy().without_reasoning(thought) == Message("assistant", (Text("Yes."),))


async def test_a_recording_of_it_is_replayed():
    """Each model call of a recording is prepared, fits, and breaks no rule."""
    recording = Recording(history(rounds=10), tools=TOOLS)
    pipeline = Pipeline(TruncateToolOutputs(60), FitContextWindow(), budget=SMALL)
    steps = [step async for step in replay(recording, pipeline)]
    assert len(steps) == 12
    assert all(step.overflow is None and step.tokens_sent <= SMALL.limit and not step.violations for step in steps)
    assert any(step.changes for step in steps)


async def test_a_request_is_built_of_blocks_in_it():
    """A builder writes it; its system prompt stands apart."""
    blocks = [
        Block("rules", [Message("system", (Text("Be brief."),))], Tier.SYSTEM),
        Block("talk", history(1), Tier.HISTORY),
    ]
    built = await ContextBuilder(10_000, format="toy").add(*blocks).build()
    assert built.system == "Be brief."
    assert built.messages == history(1)


async def test_stages_for_what_it_does_not_have_do_nothing():
    """Where its provider has no cache markers, none are set."""
    talk = history()
    view = await Pipeline(PlaceCacheMarkers(), budget=Budget(10_000)).prepare(talk, model="toy-1")
    assert view.messages == talk


def test_tools_have_a_shape_by_themselves():
    """Where a format says nothing of it, a tool is its name, its description and the schema of its arguments."""
    assert Toy().read_tools(TOOLS) == (Tool("read", "Read a file.", TOOLS[0]["parameters"]),)
    assert Toy().write_tool(Tool("read", "Read a file.", TOOLS[0]["parameters"])) == TOOLS[0]
    with pytest.raises(InvalidInput, match=r"tools\[1\]"):
        Toy().read_tools([*TOOLS, {"title": "read"}])


def test_the_wrong_name_is_told_apart():
    """A registered format is listed, and found under the names that people call it."""
    with pytest.raises(InvalidInput, match="did you mean 'toy'"):
        format_named("plaything")


@pytest.mark.parametrize("name", ["anthropic", "toy/two", " "])
def test_a_name_that_cannot_be_registered_is_refused(name):
    """A format of the library stays what it is, and a dialect belongs to its format."""
    renamed = type("Renamed", (Toy,), {"name": name})
    with pytest.raises(ConfigError, match="register_format"):
        register_format(renamed())


def test_what_is_no_format_is_refused():
    """A class in place of an object, or any other object."""
    for other in (Toy, object()):
        with pytest.raises(ConfigError, match="inherits WireFormat"):
            register_format(other)
