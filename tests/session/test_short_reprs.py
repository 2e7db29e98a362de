"""What sessions, views and wrapped clients look like when they are printed."""

import httpx
import openai
import pytest

import agentctx
from agentctx import Budget, FitContextWindow, Pipeline, Session, TrimRounds
from agentctx.presets import coding_agent
from agentctx.testing import assistant, call, history, result, tool, user

pytestmark = pytest.mark.anyio

PIPELINE = Pipeline(FitContextWindow(), budget=Budget(9_000, 1_000))
FORMATS = ("openai-chat", "openai-responses", "anthropic", "gemini", "bedrock")


@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_view_and_a_session_are_one_line_of_counts(format_name):
    """What is said in the messages stands in no repr: it is one line of counts, also before the first step."""
    made = history(
        format_name, user("secret " * 900), assistant(call("c1", "run")), result("c1", "secret"), tools=[tool("run")]
    )
    session = PIPELINE.session(model="gpt-5.4", id="thread-42")
    assert repr(session) == "<Session: id 'thread-42', model 'gpt-5.4', 0 steps, 0 messages, 0 tokens sent last>"
    view = await session.prepare(made.messages, tools=made.tools)
    tokens = view.report.tokens_after
    assert repr(view) == f"<View: {len(made.messages)} messages, 1 tools, {tokens:,} of 8,000 tokens>"
    about = f"id 'thread-42', model 'gpt-5.4', format '{format_name}', 1 steps, {len(made.messages)} messages"
    assert repr(session) == f"<Session: {about}, {tokens:,} tokens sent last>"
    assert repr(Session.load(PIPELINE, session.dump())) == repr(session)


def test_a_pipeline_shows_its_stages_and_its_budget():
    """The settings of a preset can be read from it; a stage that is a function is named."""

    def without_pictures(context, _call):
        return context

    budget = Budget(9_000, 1_000)
    pipeline = Pipeline(without_pictures, TrimRounds(3), Pipeline(FitContextWindow()), budget=budget)
    inner = f"Pipeline({FitContextWindow()!r}, budget=None)"
    assert repr(pipeline) == f"Pipeline(without_pictures, TrimRounds(max_rounds=3), {inner}, budget={budget!r})"
    shown = repr(coding_agent(budget))
    assert shown.startswith("Pipeline(FoldOutput(")
    assert "TruncateToolOutputs(max_tokens=" in shown
    assert "FitContextWindow(" in shown
    assert "budget=Budget(window=9000, " in shown


@pytest.mark.parametrize("named", [False, True])
async def test_a_wrapped_client_s_sessions_are_one_line(named):
    """`client.agentctx` is printed by its session or their number, and the last view."""
    client = openai.AsyncOpenAI(api_key="k", http_client=httpx.AsyncClient())
    wrapped = agentctx.wrap(client, PIPELINE, session=PIPELINE.session() if named else None)
    printed = repr(wrapped.agentctx)
    which = "<Session: 0 steps, 0 messages, 0 tokens sent last>" if named else "0 sessions by key"
    assert printed == f"<Conversations: {which}, last view None>"
