"""How to ask a provider to drop reasoning that it cannot take, instead of refusing the request.

Source: Anthropic's page on preserved thinking, on ``thinking.block_binding``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_BETA = "thinking-binding-controls-2026-08-01"
_THINKING = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}

DROP_BLOCK: Mapping[str, Mapping[str, Any]] = {
    "anthropic": {"thinking": _THINKING, "betas": [_BETA]},
    "bedrock": {"additionalModelRequestFields": {"thinking": _THINKING, "anthropic_beta": [_BETA]}},
}
"""What a request must hold besides, by the name of its format; formats that are not here cannot ask for it."""
