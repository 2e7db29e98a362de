"""``agentctx proxy``: a local server that prepares the model calls of agents in any language."""

from __future__ import annotations

from secrets import token_hex
from typing import TYPE_CHECKING, Annotated

import typer
from attrs import field, frozen

from agentctx import warmup
from agentctx.cli import options
from agentctx.cli.console import err, in_one_line
from agentctx.cli.options import PresetName, chosen_pipeline, parse_bytes
from agentctx.cli.store import StorePlace, store_at
from agentctx.errors import ConfigError
from agentctx.lazy import unmet
from agentctx.pipeline import Pipeline

if TYPE_CHECKING:
    from agentctx.proxy import Proxy, Upstreams

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

StoreTtl = Annotated[
    float, typer.Option("--store-ttl", metavar="SECONDS", min=1, help="Keep a conversation in the store for so long.")
]
Workers = Annotated[
    int, typer.Option(metavar="N", min=1, help="So many processes; more than one share their conversations in --store.")
]


@in_one_line
def proxy(
    *,
    pipeline: options.Named = None,
    preset: options.Preset = None,
    window: options.Window = None,
    reserve: options.Reserve = None,
    trigger: options.Trigger = None,
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
    store: StorePlace = None,
    store_ttl: StoreTtl = 7 * 24 * 3600,
    workers: Workers = 1,
) -> None:
    """Prepare the model calls of any agent: set its base URL to this proxy, which passes them on to the provider.

    The pipeline is --preset coding_agent unless another one is named. Keys pass through; none is kept or written.

    [bold]Examples[/bold]

      agentctx proxy

      agentctx proxy --preset thrifty --window 100k

      agentctx proxy --pipeline my_agent:pipeline --upstream openai=https://openrouter.ai/api
    """
    typed = options.Typed(window, reserve, trigger, None, "off", "off")
    most_bytes, most_memory = parse_bytes("--max-body", max_body), parse_bytes("--max-memory", max_memory)
    setup = _Setup(
        typed,
        preset,
        pipeline,
        upstream=tuple(upstream or ()),
        max_body=most_bytes,
        max_connections=max_connections,
        timeout=timeout,
        sign_aws=sign_aws,
        max_conversations=max_conversations,
        max_memory=most_memory,
        store=store,
        ttl=store_ttl,
        host=host,
    )
    if workers > 1 and store is None:
        msg = "--workers: several workers share their conversations in a store: pass --store PATH_OR_URL"
        raise ConfigError(msg)
    try:
        setup()  # what is wrong with it is said before anything listens
        from agentctx.proxy import server  # noqa: PLC0415 - an extra of its own
    except ImportError as error:
        raise ConfigError(unmet("the proxy", "proxy", error)) from None
    listening = server.Listening(host, port, grace, workers)
    with server.bound(listening) as listener:
        server.refuse_itself(setup.upstreams, listener)
        _tell(server.address_of(listener))
        server.serve(setup, listener, listening)


@frozen
class _Setup:
    """Makes the application by what was asked for, in this process or in a worker's."""

    typed: options.Typed
    preset: PresetName | None
    pipeline: str | None
    upstream: tuple[str, ...]
    max_body: int
    max_connections: int
    timeout: float
    sign_aws: bool
    max_conversations: int
    max_memory: int
    store: str | None
    ttl: float
    host: str
    name: str = field(factory=lambda: f"agentctx-{token_hex(8)}")

    def pipeline_of(self, model: str | None) -> Pipeline:
        """The pipeline for a model.

        Raises:
            ConfigError: If its window is not known.
        """
        if model is None and self.pipeline is None and self.typed.window is None:
            msg = "the request names no model, so its context window is not known: start the proxy with --window"
            raise ConfigError(msg)
        preset = PresetName.CODING_AGENT if self.pipeline is None and self.preset is None else self.preset
        return chosen_pipeline(self.typed, preset, self.pipeline, model)[1]

    @property
    def upstreams(self) -> Upstreams:
        """Where requests go."""
        from agentctx.proxy import Upstreams  # noqa: PLC0415 - an extra of its own

        return Upstreams.parse(self.upstream)

    def __call__(self) -> Proxy:
        """The application.

        Raises:
            ConfigError: If an option makes no sense.
        """
        from agentctx.proxy import Histories, Proxy, Timeouts, server  # noqa: PLC0415 - as above

        if self.pipeline is not None or self.typed.window is not None:
            self.pipeline_of(None)
        warmup()
        server.quiet()
        return Proxy(
            self.pipeline_of,
            self.upstreams,
            max_body=self.max_body,
            max_requests=self.max_connections,
            timeouts=Timeouts(read=self.timeout),
            histories=Histories(self.max_conversations, self.max_memory),
            store=None if self.store is None else store_at(self.store, create=True, ttl=self.ttl),
            sign_aws=self.sign_aws,
            on_loopback=server.Listening(self.host).on_loopback,
            name=self.name,
        )


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
