"""Keep the request's body within what the provider takes, in bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from attrs import field, frozen

from agentctx.core.message import Context
from agentctx.errors import ContextOverflow
from agentctx.protocols import Call
from agentctx.strategies.fit_guarantee import FitGuarantee, biggest, known_as
from agentctx.tokens.carried import base64_of

STEP = 0.9
"""Each try aims at this share of the tokens that would fit if all tokens had the same size."""


@frozen
class FitRequestBytes:
    """Leave out as much as it takes for the body to have at most ``request_bytes`` bytes.

    Args:
        request_bytes: The largest body, in bytes.
        origins: See ``FitGuarantee``.
    """

    request_bytes: int
    origins: Sequence[int | None] | None = field(default=None, eq=False, repr=False)

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Return the context, small enough.

        Raises:
            ContextOverflow: If what must stay is larger.
        """
        given = context
        while (size := body_bytes(context, call)) > self.request_bytes:
            tokens = call.size(context)
            aim = min(tokens - 1, int(tokens * self.request_bytes / size * STEP))
            known = known_as(given, context, self.origins)
            if aim < 1:
                raise ContextOverflow(tokens, 0, biggest(context, call, known))
            context = await FitGuarantee(aim, known)(context, call)
        return context


def body_bytes(context: Context, call: Call) -> int:
    """The size of the request as JSON, in bytes: messages, system prompt and tools as they are sent."""
    wire = call.wire
    if wire is None:
        return call.meter.bytes(context)
    natives: list[Any] = [wire.write_message(message) for message in context.messages]
    natives += [tool.source for tool in context.tools]
    if context.system is not None:
        natives.append(context.system.source)
    return len(json.dumps(natives, default=_plain).encode("utf-8", "surrogatepass"))


def _plain(value: Any) -> Any:  # noqa: ANN401 - what JSON has not
    """What a client sends: an SDK's object as its fields; bytes, and what a file or a stream holds, as base64."""
    if (dump := getattr(value, "model_dump", None)) is not None:
        return dump(mode="json", exclude_unset=True)
    return base64_of(value) or str(value)
