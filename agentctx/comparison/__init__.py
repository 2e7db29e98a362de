"""Many recorded sessions, each through several pipelines: what each sends, costs and keeps."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.comparison.run import (
        Contender as Contender,
        Failed as Failed,
        Measured as Measured,
        Results as Results,
        Size as Size,
        compare as compare,
        measure as measure,
        processes as processes,
        read_contenders as read_contenders,
    )
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.comparison.run": (
                "Contender Failed Measured Results Size compare measure processes read_contenders"
            ),
        },
    )
