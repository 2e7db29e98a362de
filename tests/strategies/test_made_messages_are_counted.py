"""What one stage makes and a later one takes away again."""

import pytest

from agentctx import Budget, Pipeline, count
from agentctx.testing import assistant, call, result, transcript, user
from agentctx.testing.histories import FORMATS


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_made_message_that_is_dropped_again_leaves_no_tokens_behind(format_name):
    """The report's size is that of what is sent, when an answer that repair has made is dropped with its round."""
    rounds = (assistant(call("a", "read")), user("wait"), assistant(call("b", "read")), result("b", "ok " * 30))
    messages = transcript(format_name, user("go"), *rounds, user("and now?"))
    limit = count(messages, format=format_name) * 2 // 3
    view = await Pipeline(budget=Budget(limit)).prepare(messages, format=format_name)
    assert len(view.messages) < len(messages)
    assert count(view.messages, format=format_name) == view.report.tokens_after
