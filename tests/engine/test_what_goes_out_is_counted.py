"""The last thing that a step does is to compare what goes out with the limit."""

import pytest

from agentctx import Budget, ContextOverflow, Pipeline, count
from agentctx.engine import guarantee
from agentctx.engine.run_stages import Adjustment, run_stage
from agentctx.message import Message, Text
from agentctx.testing import assistant, transcript, user


@pytest.mark.anyio
@pytest.mark.parametrize("room", [0, 20, 200])
async def test_what_is_added_after_the_fit_is_refused_where_it_has_no_room(room, preparing, monkeypatch):
    """Whatever runs behind the fit, and whatever it adds: what goes out is within the limit, or nothing does."""
    messages = transcript("openai-chat", user("task"), assistant("ok"), user("and now?"))
    limit = count(messages, format="openai-chat") + room

    async def adding(trail, call, _before):
        for said in ("one", "more"):
            more = Message("user", (Text(said * 10),))
            added = Adjustment("Adds", lambda context, _, more=more: context.with_messages((*context.messages, more)))
            await run_stage(added, trail, call, by="fit", trusted=True)

    monkeypatch.setattr(guarantee, "settle_reasoning", adding)
    prepare = preparing(Pipeline(lambda context, _: context, budget=Budget(limit)), "openai-chat")
    if room < 200:
        with pytest.raises(ContextOverflow) as refused:
            await prepare(messages)
        assert refused.value.limit == limit < refused.value.tokens
    else:
        view = await prepare(messages)
        assert count(messages, format="openai-chat") < view.report.tokens_after <= limit
