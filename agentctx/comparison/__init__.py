"""Many recorded sessions, each through several pipelines: what each sends, costs and keeps."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.comparison.contenders import Contender as Contender, Size as Size, read_contenders as read_contenders
    from agentctx.comparison.run import (
        Failed as Failed,
        Measured as Measured,
        Results as Results,
        compare as compare,
        measure as measure,
        processes as processes,
    )
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.comparison.contenders": "Contender Size read_contenders",
            "agentctx.comparison.run": "Failed Measured Results compare measure processes",
        },
    )
