"""What is known of models, as data."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.models.profile import ImageRule as ImageRule, ModelProfile as ModelProfile, Prices as Prices
    from agentctx.models.table import register_model as register_model
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.models.profile": "ImageRule ModelProfile Prices",
            "agentctx.models.table": "register_model",
        },
    )
