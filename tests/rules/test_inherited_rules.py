"""A format of a user's that inherits one of the library's has its rules, and adds its own."""

from agentctx.formats.openai_chat import OpenAIChat
from agentctx.rules import find_violations
from agentctx.wire_format import Violation

REQUEST = {"messages": [{"role": "tool", "tool_call_id": "a", "content": "late"}]}


class Short(OpenAIChat):
    """Chat Completions of a server that takes no system prompt."""

    def validate(self, request, _profile, _before, /):
        """Refuse every request, in the server's words."""
        return (Violation("short.refused", "error", None, "messages", f"{len(request['messages'])} is too many"),)


def test_both_are_told_of_one_request():
    """The inherited rules come first."""
    assert [one.rule for one in find_violations(Short(), REQUEST)] == ["chat.tool_orphan", "short.refused"]
    assert [one.rule for one in find_violations(OpenAIChat(), REQUEST)] == ["chat.tool_orphan"]
