"""Many recorded sessions, each through several pipelines: what each sends, costs and keeps."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.comparison.contenders import Contender as Contender, Size as Size, read_contenders as read_contenders
    from agentctx.comparison.rows import Measured as Measured, measure as measure
    from agentctx.comparison.run import Failed as Failed, Results as Results, compare as compare, processes as processes
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.comparison.contenders": "Contender Size read_contenders",
            "agentctx.comparison.rows": "Measured measure",
            "agentctx.comparison.run": "Failed Results compare processes",
        },
    )
