"""Amazon Bedrock's Converse: read, written, mended and checked."""

from agentctx.wire.bedrock.format import Bedrock

__all__ = ["Bedrock"]
