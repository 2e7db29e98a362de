"""Pages to look at: a recorded session, and a comparison of pipelines on many."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.report.page import (
        SessionData as SessionData,
        comparison_page as comparison_page,
        html_page as html_page,
        session_data as session_data,
    )
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.report.page": "SessionData comparison_page html_page session_data",
        },
    )
