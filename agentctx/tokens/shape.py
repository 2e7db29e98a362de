"""What each provider's form of a request adds to the words in it."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from agentctx.core.profile import ModelProfile
from agentctx.tokens.families import JSON_TOOLS, SHORT_TOOLS


@frozen
class Shape:
    """Tokens that a format adds.

    Args:
        message: For each message.
        reply: For each request: the opening of the answer.
        name: For a participant's name, beside the name itself.
        call: For each tool call, beside its name and arguments.
        result: For each tool result, beside what it says.
        envelope: Not tokens but characters, of encrypted reasoning that are no reasoning.
        schema_as_json: Whether tools are shown as JSON, where no model is known; else in OpenAI's short form.
    """

    message: int = 3
    reply: int = 3
    name: int = 1
    call: int = 7
    result: int = 2
    envelope: int = 0
    schema_as_json: bool = False


OPENAI = Shape()
"""Message, name and reply: OpenAI's cookbook, "How to count tokens". Calls and results: the markers around them in
the harmony format, rather too high: a round that gpt-3.5-turbo billed with 24 tokens (community.openai.com, 538914)
counts 29."""

RESPONSES = Shape(envelope=900)
"""Like Chat. The envelope: encrypted items of 26 to 1,792 reasoning tokens had 1,080 to 9,572 characters."""

ANTHROPIC = Shape(message=4, call=12, result=8, schema_as_json=True)
"""Estimates: 3 to 5 tokens a message were seen; calls and results stand in markup. The surcharge for having tools at
all is published and stands in the model table."""

GEMINI = Shape(message=4, call=8, result=8, schema_as_json=True)
"""Estimates."""

_SHAPES: Mapping[str, Shape] = {
    "openai-chat": OPENAI,
    "openai-responses": RESPONSES,
    "anthropic": ANTHROPIC,
    "bedrock": ANTHROPIC,
    "gemini": GEMINI,
}


def shape_of(format_name: str) -> Shape:
    """The shape of a format; that of OpenAI for one that is not known."""
    return _SHAPES.get(format_name, OPENAI)


def shows_schemas(format_name: str, profile: ModelProfile | None) -> bool:
    """Whether a model is shown its tools as JSON schemas: that is the model's way, whatever format they come in.

    Args:
        format_name: The format's name, which decides where the model's family is not known.
        profile: The model's profile, if known.
    """
    if profile is not None and SHORT_TOOLS.match(profile.family):
        return False
    return bool(profile and JSON_TOOLS.match(profile.family)) or shape_of(format_name).schema_as_json
