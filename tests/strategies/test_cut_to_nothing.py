"""Results of which nothing to be seen is left."""

import pytest
from histories import FORMATS

from agentctx import Pipeline, TruncateToolOutputs, validate
from agentctx.testing import assistant, call, result, transcript, user

PIXEL = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("limit", [{"max_tokens": 1}, {"max_chars": 1}])
async def test_a_blank_rest_is_no_text(format_name, limit):
    """A result cut to blanks goes out in a form that the provider takes."""
    messages = transcript(format_name, user("go"), assistant(call("a", "f")), result("a", "\n\n\n   x y z"))
    view = await Pipeline(TruncateToolOutputs(**limit, keep="head")).prepare(messages, format=format_name)
    broken = validate({"messages": view.messages}, format=format_name)
    assert view.report.changes
    assert not [found for found in broken if found.severity == "error"]


@pytest.mark.anyio
@pytest.mark.parametrize("text", ["\n\n\n   x y z", "\U0001f3f3\ufe0f\u200d\U0001f308" * 9])
async def test_an_image_stays_without_the_text_beside_it(text):
    """Where a text is cut to nothing the image beside it stays, and no empty block."""
    messages = transcript("anthropic", user("go"), assistant(call("a", "f")), result("a", "x"))
    messages[2]["content"][0]["content"] = [{"type": "text", "text": text}, PIXEL]
    view = await Pipeline(TruncateToolOutputs(max_chars=1, keep="head")).prepare(messages, format="anthropic")
    assert view.messages[2]["content"][0]["content"] == [PIXEL]
