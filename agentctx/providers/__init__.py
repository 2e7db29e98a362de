"""The providers' formats, one folder each, and what they share."""

from typing import TYPE_CHECKING

from agentctx.public import lazily

if TYPE_CHECKING:
    from agentctx.core.validity import Violation as Violation
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.core.validity": "Violation",
        },
    )
