"""The providers' formats, one folder each, and what they share. ``register_format`` adds one from outside."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.formats.overflow import Overflow as Overflow
    from agentctx.formats.registry import register_format as register_format
    from agentctx.unit import RoundRules as RoundRules
    from agentctx.wire_format import (
        CacheMarkers as CacheMarkers,
        Capabilities as Capabilities,
        RequestKeys as RequestKeys,
        Spelling as Spelling,
        TokenOverheads as TokenOverheads,
        UsageKeys as UsageKeys,
        Violation as Violation,
        WireFormat as WireFormat,
    )
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.formats.overflow": "Overflow",
            "agentctx.formats.registry": "register_format",
            "agentctx.unit": "RoundRules",
            "agentctx.wire_format": (
                "CacheMarkers Capabilities RequestKeys Spelling TokenOverheads UsageKeys Violation WireFormat"
            ),
        },
    )
