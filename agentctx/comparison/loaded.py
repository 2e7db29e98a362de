"""What measuring a session takes, loaded once: workers are forked from the process that imports this."""

import gc
from importlib import import_module

from agentctx import warmup

for _name in ("presets", "comparison.contenders", "comparison.rows", "comparison.run"):
    import_module(f"agentctx.{_name}")
import_module("anyio._backends._asyncio")  # anyio imports it when an event loop begins
warmup()
gc.freeze()  # what is loaded stays shared: no collection in a worker writes to its memory
