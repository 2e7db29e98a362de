"""Google's clients, which take their HTTP clients when they are made."""

from google import genai
from google.genai import types

import agentctx


def gemini_client(url, pipeline=None, **how):
    """A client of Google's SDK; with a pipeline, its model calls are prepared."""
    options = {"base_url": url}
    if pipeline is not None:
        options["httpx_client"] = agentctx.http_client(pipeline, **how)
        options["httpx_async_client"] = agentctx.async_http_client(pipeline, **how)
    return genai.Client(api_key="none", http_options=types.HttpOptions(**options))


async def end(client):
    """Close a client of Google's SDK and the HTTP clients that it was given, which it leaves to whoever made them."""
    await client.aio.aclose()
    client.close()
    options = client._api_client._http_options
    if options.httpx_client is not None:
        options.httpx_client.close()
        await options.httpx_async_client.aclose()
