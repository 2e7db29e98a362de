"""Local servers that speak each provider's protocol, to test a client with its real SDK and without a network.

They validate each request by the provider's rules, down to fields that it does not know and signatures that do not
hold, count it, refuse what is larger than their window in the provider's own words, and answer with what the test says.
They need the extra ``testing``.
"""

from agentctx.errors import ConfigError
from agentctx.lazy import unmet

try:
    from agentctx.testing.servers.anthropic import messages
    from agentctx.testing.servers.bedrock import converse
    from agentctx.testing.servers.desk import Desk, Said
    from agentctx.testing.servers.gemini import generate_content
    from agentctx.testing.servers.openai import chat_completions, responses
    from agentctx.testing.servers.scripted import ProviderServer, provider_server, serving
except ImportError as error:
    if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn"):
        raise
    raise ConfigError(unmet("agentctx.testing.servers", "testing", error, "starlette", "uvicorn")) from error

__all__ = [
    "Desk",
    "ProviderServer",
    "Said",
    "chat_completions",
    "converse",
    "generate_content",
    "messages",
    "provider_server",
    "responses",
    "serving",
]
