"""What a prepared request looks like to the caller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from agentctx.core.message import Context
from agentctx.core.report import Report


@frozen
class View:
    """What the next model call shall be sent, in the caller's own format.

    Args:
        messages: The messages; those that no stage touched are the caller's own objects. The list is new.
        system: The system prompt as it was passed in; None when there was none.
        tools: The tool definitions as they were passed in; None when there were none.
        report: What was done, by whom and why.
        context: The same as values.
        options: What else must be put into the request for the provider to take it; mostly nothing. Each is to be
            merged into the option of that name.
    """

    messages: list[Any]
    system: Any
    tools: Any
    report: Report
    context: Context
    options: Mapping[str, Any] = field(factory=dict)

    def __repr__(self) -> str:
        """One line, without what is said in the messages: how much there is of what."""
        tools, report = len(self.context.tools), self.report
        room = "" if report.limit is None else f" of {report.limit:,}"
        return f"<View: {len(self.messages)} messages, {tools} tools, {report.tokens_after:,}{room} tokens>"
