"""What a session is begun with is named."""

import pytest

from agentctx import Pipeline


def test_a_name_without_its_keyword_is_refused():
    """``pipeline.session("thread-42")`` is refused: the text could be the model or the conversation."""
    with pytest.raises(TypeError, match="positional"):
        Pipeline().session("thread-42")
    assert Pipeline().session(id="thread-42").id == "thread-42"
