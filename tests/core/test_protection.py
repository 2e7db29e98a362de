"""What survives without being asked for."""

from hypothesis import given
from hypothesis import strategies as st

from agentctx.core.message import Message
from agentctx.core.parts import Text, ToolCall, ToolResult
from agentctx.core.protection import always, first_task

IDS = st.sampled_from("ab")
PARTS = st.one_of(
    st.builds(Text, st.just("on")),
    st.builds(ToolCall, IDS, st.just("read"), st.just("{}"), optional=st.booleans()),
    st.builds(ToolResult, IDS, st.just((Text("done"),)), interim=st.booleans()),
)
ROLES = st.sampled_from(("system", "developer", "user", "assistant", "tool"))
MESSAGES = st.lists(st.builds(Message, ROLES, st.lists(PARTS, max_size=3).map(tuple)), max_size=10)


@given(MESSAGES, st.integers(0, 10))
def test_the_end_of_a_transcript_tells_what_survives_of_it(messages, start):
    """What survives from a place on is the same whether what stands before it is looked at or not."""
    late = {index for index in always(messages) if index >= start}
    assert always(messages, start) == late | set(first_task(messages))
