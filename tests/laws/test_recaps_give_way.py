"""Law 4 with a recap: it is no more than words about what is gone, and gives way before a request is refused."""

import pytest

from agentctx import Budget, ContextOverflow, FitContextWindow, Pipeline, Protect, validate
from agentctx.engine.recap import giving_way
from agentctx.marks import Recap, is_recap, recap_of
from agentctx.message import Context, Message, Text
from agentctx.protocols import Call
from agentctx.strategies import Summarize
from agentctx.testing import assistant, fixed_summarizer, transcript, user
from agentctx.tokens.counting import MessageMeter

pytestmark = pytest.mark.anyio
FORMATS = ["openai-chat", "openai-responses", "anthropic", "gemini", "bedrock"]
LONG, SHORT = fixed_summarizer("fact number one. " * 120), fixed_summarizer("short")
SMALLER = {
    "nothing": lambda budget: Pipeline(budget=budget),
    "Summarize": lambda budget: Pipeline(Summarize(SHORT), budget=budget),
    "FitContextWindow": lambda budget: Pipeline(FitContextWindow(), budget=budget),
    "with a summarizer": lambda budget: Pipeline(FitContextWindow(), budget=budget, summarizer=SHORT),
}


class ByCharacter:
    """A counter by which each character is a token."""

    def count(self, text):
        return len(text)


async def summed_up(format_name):
    """A view with a recap of about five hundred tokens, to be written back."""
    turns = [turn for place in range(60) for turn in (assistant(f"{place} " + "word " * 40), user(f"question {place}"))]
    messages = transcript(format_name, user("the task"), *turns)
    view = await Pipeline(Summarize(LONG), budget=Budget(2_000)).prepare(messages, format=format_name)
    assert any(map(is_recap, view.context.messages))
    return view


@pytest.mark.parametrize("smaller", list(SMALLER))
@pytest.mark.parametrize("format_name", FORMATS)
async def test_what_fits_without_a_recap_is_sent(format_name, smaller, preparing):
    """With any stage, in every format, with and without a later round, down to the floor."""
    view = await summed_up(format_name)
    later = transcript(format_name, user("x"), assistant("new " + "words " * 30), user("more"))[1:]
    for window in (300, 120, 60, 30):
        for messages in (view.messages, [*view.messages, *later]):
            made = await preparing(SMALLER[smaller](Budget(window)), format_name)(messages)
            assert made.report.tokens_after <= window
            request = {"messages": made.messages, "system": made.system}
            assert not [found for found in validate(request, format=format_name) if found.severity == "error"]
            assert made.context.messages[0].text.startswith("the task")


async def test_a_protected_recap_stays():
    """What the caller protects is sent as it is, or nothing is."""
    view = await summed_up("openai-chat")
    pipeline = Pipeline(budget=Budget(300), protect=[Protect.where(is_recap)])
    with pytest.raises(ContextOverflow):
        await pipeline.prepare(view.messages, format="openai-chat")


def test_the_last_section_goes_first_then_the_header_then_all():
    """A line at a time, of a summary a word at a time, no more than must; the counts go last."""
    recap = Recap(9, 3, sections={"Files": "a.py\nb.py", "Summary": "one two three"})
    call = Call(MessageMeter(ByCharacter()))
    task, old = Message("user", (Text("task"),)), recap.written()
    context = Context((task, old))
    assert giving_way(context, call.size(context), call) is context
    seen = []
    for limit in range(call.size(context) - 1, call.size(Context((task,))) - 1, -1):
        made = giving_way(context, limit, call)
        assert call.size(made) <= limit
        left = [recap_of(message) for message in made.messages[1:]]
        said = [(each.messages, each.calls, dict(each.sections)) for each in left]
        if said not in seen:
            seen.append(said)
    files = "a.py\nb.py"
    assert seen == [
        [(9, 3, {"Files": files, "Summary": "one two"})],
        [(9, 3, {"Files": files, "Summary": "one"})],
        [(9, 3, {"Files": files})],
        [(9, 3, {"Files": "a.py"})],
        [(9, 3, {})],
        [],
    ]
