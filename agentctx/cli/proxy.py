"""``agentctx proxy``: a local server that prepares the model calls of agents in any language."""

from __future__ import annotations

from typing import Annotated

import typer

from agentctx import warmup
from agentctx.cli import options, pipelines
from agentctx.cli.console import err, in_one_line
from agentctx.cli.options import parse_bytes
from agentctx.cli.pipelines import PresetName, chosen_pipeline
from agentctx.errors import ConfigError

Upstream = Annotated[
    list[str] | None,
    typer.Option(
        "--upstream",
        metavar="[PROVIDER=]URL",
        show_default="each provider's own",
        help="Where requests are passed on to: openai=, anthropic=, gemini=, bedrock=URL; a URL alone is for all.",
    ),
]
Host = Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen; others than this machine reach 0.0.0.0.")]
Port = Annotated[int, typer.Option(metavar="N", min=0, max=65_535, help="The port; 0 is any that is free.")]
MaxBody = Annotated[
    str, typer.Option("--max-body", metavar="BYTES", help="Refuse a model call with a larger body: 64m.")
]
MaxConnections = Annotated[
    int, typer.Option("--max-connections", metavar="N", min=1, help="Refuse more connections at once.")
]
MaxConversations = Annotated[
    int, typer.Option("--max-conversations", metavar="N", min=1, help="Remember so many conversations.")
]
MaxMemory = Annotated[
    str, typer.Option("--max-memory", metavar="BYTES", help="Remember conversations of so many bytes together.")
]
Timeout = Annotated[
    float, typer.Option(metavar="SECONDS", min=0.1, help="Wait so long for the next bytes of an answer.")
]
Grace = Annotated[float, typer.Option(metavar="SECONDS", min=1, help="When stopped, let streams go on for so long.")]
SignAws = Annotated[
    bool, typer.Option("--sign-aws", help="Sign requests to Bedrock anew, with the AWS credentials of this machine.")
]


@in_one_line
def proxy(  # noqa: PLR0913 - each is an option of the command
    *,
    pipeline: pipelines.Named = None,
    preset: pipelines.Preset = None,
    window: options.Window = None,
    reserve: options.Reserve = None,
    trigger: pipelines.Trigger = None,
    upstream: Upstream = None,
    host: Host = "127.0.0.1",
    port: Port = 8787,
    max_body: MaxBody = "64m",
    max_connections: MaxConnections = 2_000,
    max_conversations: MaxConversations = 1_000,
    max_memory: MaxMemory = "256m",
    timeout: Timeout = 600.0,
    grace: Grace = 30.0,
    sign_aws: SignAws = False,
) -> None:
    """Prepare the model calls of any agent: set its base URL to this proxy, which passes them on to the provider.

    The pipeline is --preset coding_agent unless another one is named. Keys pass through; none is kept or written.

    [bold]Examples[/bold]

      agentctx proxy

      agentctx proxy --preset thrifty --window 100k

      agentctx proxy --pipeline my_agent:pipeline --upstream openai=https://openrouter.ai/api
    """
    try:
        from agentctx.proxy import Histories, Proxy, Timeouts, Upstreams, server  # noqa: PLC0415 - an extra of its own
    except ModuleNotFoundError as error:
        msg = f"the proxy needs {error.name}: pip install 'agentctx-middleware[cli,proxy]'"
        raise ConfigError(msg) from None
    listening = server.Listening(host, port, max_connections, grace)
    typed = options.Typed(window, reserve, trigger, None, "off", "off")
    if pipeline is None and preset is None:
        preset = PresetName.CODING_AGENT
    if pipeline is not None or window is not None:
        chosen_pipeline(typed, preset, pipeline, None)  # what is wrong with it is said now
    app = Proxy(
        lambda model: chosen_pipeline(typed, preset, pipeline, model)[1],
        Upstreams.parse(upstream or ()),
        max_body=parse_bytes("--max-body", max_body),
        max_requests=max_connections,
        timeouts=Timeouts(read=timeout),
        histories=Histories(max_conversations, parse_bytes("--max-memory", max_memory)),
        sign_aws=sign_aws,
        on_loopback=listening.on_loopback,
    )
    warmup()
    with server.bound(listening) as listener:
        _tell(server.address_of(listener))
        server.serve(app, listener, listening)


def _tell(address: str) -> None:
    """Say where it listens, and what to set."""
    err().print(f"agentctx proxy listens on {address}; set what your agent reads:")
    for name, path in _SETTINGS.items():
        err().print(f"  {name}={address}{path}")


_SETTINGS = {
    "OPENAI_BASE_URL": "/v1",
    "ANTHROPIC_BASE_URL": "",
    "GOOGLE_GEMINI_BASE_URL": "",
    "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": "",
}
"""The variables that the SDKs read, and the path behind the address."""
