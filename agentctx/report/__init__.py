"""Pages to look at: a recorded session, and a comparison of pipelines on many."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.report.data import SessionData as SessionData, session_data as session_data
    from agentctx.report.page import comparison_page as comparison_page, html_page as html_page
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.report.data": "SessionData session_data",
            "agentctx.report.page": "comparison_page html_page",
        },
    )
