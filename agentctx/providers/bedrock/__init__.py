"""Amazon Bedrock's Converse: read, written, repaired and checked."""

from agentctx.providers.bedrock.format import Bedrock

__all__ = ["Bedrock"]
