"""Where what was left out is kept."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.stores.memory import MemoryStore as MemoryStore
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.stores.memory": "MemoryStore",
        },
    )
