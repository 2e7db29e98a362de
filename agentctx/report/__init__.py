"""Pages to look at: a recorded session, and a comparison of pipelines on many."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.report.comparison import comparison_page as comparison_page
    from agentctx.report.data import SessionData as SessionData, session_data as session_data
    from agentctx.report.page import html_page as html_page
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.report.page": "html_page",
            "agentctx.report.comparison": "comparison_page",
            "agentctx.report.data": "SessionData session_data",
        },
    )
