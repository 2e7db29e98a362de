"""A report as plain text: what ``print(view.report)`` shows, with as many changes as are wanted."""

from agentctx.core.report_text import change_text, report_text

__all__ = ["change_text", "report_text"]
