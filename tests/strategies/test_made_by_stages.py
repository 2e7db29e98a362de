"""What a user's stage makes goes out as its provider takes it: mended and reported, or the stage is named."""

import json

import pytest
from attrs import evolve
from plans import WRITERS

from agentctx import Budget, Context, Message, Pipeline, StageError, Text, Tool, ToolCall, ToolResult, count, validate
from agentctx.formats.registry import format_named
from agentctx.testing import assistant, call, history, result, transcript, user

pytestmark = pytest.mark.anyio

TURNS = user("task"), assistant(call("a", "read", {})), result("a", "out"), assistant("two"), user("latest")
KEYS = {"gemini": "contents", "openai-responses": "input"}


def put(*made):
    """A stage that puts messages behind the first round."""

    def stage(context, _call):
        return context.with_messages((*context.messages[:3], *made, *context.messages[3:]))

    return stage


def round_of(call_id, name="read"):
    """A call and its result."""
    return Message("assistant", (ToolCall(call_id, name, "{}"),)), Message("tool", (ToolResult(call_id, (Text("y"),)),))


def round_again(context, _call):
    """The first round is there twice."""
    return context.with_messages((*context.messages[:3], *context.messages[1:3], *context.messages[3:]))


MENDED = {
    "no parts": put(Message("assistant", ())),
    "no parts of the user": put(Message("user", ())),
    "blank": put(Message("assistant", (Text(" "),))),
    "empty text": put(Message("user", (Text(""),))),
    "lone surrogates": put(Message("user", (Text("x\ud800y"),))),
    "an id spelled wrongly": put(*round_of("z z.z" * 30)),
    "a name spelled wrongly": put(*round_of("zz", "re ad")),
    "a round twice": round_again,
    "a round with the same id": put(*round_of("a")),
}


@pytest.mark.parametrize("format_name", WRITERS)
@pytest.mark.parametrize("what", MENDED)
async def test_what_the_provider_would_refuse_is_mended(preparing, format_name, what):
    """As in a history that comes in; what is sent breaks no rule, whatever the stage made."""
    messages = transcript(format_name, *TURNS)
    view = await preparing(Pipeline(MENDED[what], budget=Budget(3_000)), format_name)(messages)
    json.dumps(view.messages, ensure_ascii=False).encode()
    found = validate({KEYS.get(format_name, "messages"): view.messages}, format_name)
    assert [str(each) for each in found if each.severity == "error"] == []


async def test_what_redaction_leaves_blank_goes_and_is_reported(preparing):
    """A message that says nothing after a stage is left out; the report names stage, message and reason."""

    def redact(context, call):
        kept = call.protected(context)
        return context.with_messages(
            tuple(
                message if place in kept else message.with_parts((Text(message.text.replace("secret", "")),))
                for place, message in enumerate(context.messages)
            )
        )

    messages = transcript("anthropic", user("task"), assistant("hm"), user("secret"), assistant("ok"), user("go"))
    view = await preparing(Pipeline(redact, budget=Budget(3_000)), "anthropic")(messages)
    assert [each["content"] for each in view.messages] == ["task", "hm", "ok", "go"]
    (change,) = view.report.changes
    assert (change.index, change.outcome, change.stage) == (2, "dropped", "redact")
    assert "empty content" in change.reason
    assert any("messages[2]" in note for stage in view.report.stages for note in stage.notes)


async def test_what_is_legal_stays_as_the_stage_made_it(preparing):
    """A stage whose output needs no repair is taken at its word, and nothing is said of it."""
    view = await preparing(Pipeline(put(Message("user", (Text("more"),))), budget=Budget(3_000)), "anthropic")(
        transcript("anthropic", *TURNS)
    )
    assert view.messages[3] == {"role": "user", "content": "more"}
    assert not any(stage.notes for stage in view.report.stages)


REFUSED = {
    "messages[3].parts[0].text of what it returned is no text, but int": put(Message("user", (Text(3),))),
    "messages[3].parts[0].arguments of what it returned is no text, but dict": put(
        Message("assistant", (ToolCall("z", "read", {}),))
    ),
    "messages[3].parts[0].content of what it returned is no tuple of parts, but str": put(
        Message("tool", (ToolResult("a", "text"),))
    ),
    "messages[3].parts[0].content[0].text of what it returned is no text, but NoneType": put(
        Message("tool", (ToolResult("a", (Text(None),)),))
    ),
    "messages[3].parts of what it returned is no tuple of parts, but list": put(Message("user", [Text("x")])),
    "ToolCall without an id or a name": put(*round_of("")),
    "is of the user and holds a call": put(Message("user", (ToolCall("zz", "read", "{}"),))),
    "messages: must be a tuple of messages, got int": lambda context, _call: Context(3, context.system),
    "tools: must be one of each name, got 'x' 2 times": lambda context, _call: Context(
        context.messages, context.system, (Tool("x"), Tool("x"))
    ),
    "tools[0].parameters: must be a JSON schema, got [1]": lambda context, _call: Context(
        context.messages, context.system, (Tool("x", parameters=[1]),)
    ),
    "tools[0]: must have a text as name and description, got Tool(name=5": lambda context, _call: Context(
        context.messages, context.system, (Tool(5),)
    ),
    "tools[0]: must be a Tool, got str": lambda context, _call: Context(context.messages, context.system, ("read",)),
}


@pytest.mark.parametrize("said", REFUSED)
async def test_what_cannot_be_mended_is_the_stages_error(preparing, said):
    """It names the stage, the message and what is wrong; never a bare error of Python."""
    with pytest.raises(StageError) as caught:
        await preparing(Pipeline(REFUSED[said], budget=Budget(3_000)), "openai-chat")(transcript("openai-chat", *TURNS))
    assert caught.value.stage == REFUSED[said].__name__
    assert said in caught.value.what


async def test_an_edit_may_be_said_of_either_message(preparing):
    """Of the one that the stage was given, or of what it made of that."""
    for given in (True, False):

        def shouted(context, call, given=given):
            message = context.messages[1]
            made = message.with_parts((Text(message.text.upper()),))
            call.note(message if given else made, "louder")
            return context.with_messages((context.messages[0], made, *context.messages[2:]))

        told = transcript("openai-chat", user("task"), assistant("yes"), user("go on"))
        (change,) = (await preparing(Pipeline(shouted), "openai-chat")(told)).report.in_force
        assert (change.index, change.reason) == (1, "louder")


async def test_messages_may_come_from_a_generator():
    """A stage may give them as any iterable."""

    def listed(context, _call):
        return context.with_messages(each for each in context.messages)

    def tooled(context, _call):
        return Context((each for each in context.messages), context.system, (*context.tools, Tool("grep")))

    view = await Pipeline(listed, tooled).prepare(transcript("openai-chat", *TURNS), format="openai-chat")
    assert type(view.context.messages) is tuple


@pytest.mark.parametrize("format_name", WRITERS)
async def test_a_tool_that_a_stage_makes_or_changes_goes_out_as_its_definition_says(preparing, format_name):
    """In the format's own words; one that no stage changed is the caller's own object."""
    schema = {"type": "object", "properties": {}}
    passed = [Tool("read", "Read.", schema), Tool("bash", "Run.", schema)]
    tools = history(format_name, user("task"), tools=passed).tools

    def changed(context, _call):
        first, second = context.tools
        return evolve(context, tools=(first, evolve(second, name="run"), Tool("more", "Another.", schema)))

    prepare = preparing(Pipeline(changed, budget=Budget(3_000)), format_name)
    view = await prepare(transcript(format_name, *TURNS), tools=tools)
    read = format_named(format_name).read_tools(view.tools)
    assert list(read) == [passed[0], Tool("run", "Run.", schema), Tool("more", "Another.", schema)]
    assert view.report.tokens_after == count(view.messages, tools=view.tools, system=view.system, format=format_name)


def without_read(context, _call):
    """Leave out the tool that was called."""
    return evolve(context, tools=tuple(each for each in context.tools if each.name != "read"))


@pytest.mark.parametrize("format_name", WRITERS)
async def test_a_tool_that_was_called_goes_only_where_the_provider_does_not_ask_for_it(preparing, format_name):
    """Converse refuses calls whose tool is not defined; elsewhere nothing is left of the tools."""
    tools = history(format_name, user("task"), tools=[Tool("read", "Read.", {"type": "object"})]).tools
    prepare = preparing(Pipeline(without_read, budget=Budget(3_000)), format_name)
    if format_name == "bedrock":
        with pytest.raises(StageError, match="tools: must have 'read', since a call names it"):
            await prepare(transcript(format_name, *TURNS), tools=tools)
    else:
        assert (await prepare(transcript(format_name, *TURNS), tools=tools)).tools is None
