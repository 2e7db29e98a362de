"""A recorded session as one page to look at: what it is told, and the page itself."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.report.data import SessionData as SessionData, session_data as session_data
    from agentctx.report.page import html_page as html_page
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.report.page": "html_page",
            "agentctx.report.data": "SessionData session_data",
        },
    )
