"""Fixtures for pytest, which finds them where agentctx is installed; each loads what it needs when it is used.

They are for tests of any kind: plain ones, and async ones on asyncio or trio, by whichever plugin.

Example::

    async def test_my_agent(agentctx_server):
        server = agentctx_server("openai-chat", [assistant(call("c1", "read", {"path": "a.py"})), "It is empty."])
        await my_agent(AsyncOpenAI(base_url=server.base_url, api_key="none"), "What is in a.py?")
        server.assert_complete()
        assert_task_survives(server.requests)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from os import PathLike
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from agentctx.budget import Budget
    from agentctx.message import Native
    from agentctx.protocols import ContextStrategy
    from agentctx.testing.assertions import AllowedEdit
    from agentctx.testing.fakes import Recorder, Scripted, ScriptedModel
    from agentctx.testing.servers import ProviderServer


class StartServer(Protocol):
    """Starts a local server; see ``agentctx.testing.servers.provider_server``."""

    def __call__(
        self,
        format: str = "openai-chat",  # noqa: A002 - the name that the whole library gives it
        answers: Sequence[Scripted] | None = None,
        *,
        complete: bool = True,
        **behaviour: Native,  # as there
    ) -> ProviderServer:
        """The server, which runs until the test ends.

        With ``complete`` the test fails at its end where answers of the script were not asked for, or more than it has.
        """
        ...


class MakeModel(Protocol):
    """Makes a scripted model; see ``agentctx.testing.ScriptedModel``."""

    def __call__(
        self,
        answers: Sequence[Scripted],
        format: str = "openai-chat",  # noqa: A002 - the name that the whole library gives it
        *,
        complete: bool = True,
    ) -> ScriptedModel:
        """The model; ``complete`` is as for a server."""
        ...


class HoldToLaws(Protocol):
    """Holds a stage to the laws; see ``agentctx.testing.check_laws_on``."""

    def __call__(
        self,
        strategy: ContextStrategy,
        *sources: str | PathLike[str],
        budget: Budget | int | None = None,
        may: Collection[AllowedEdit] = (),
    ) -> int:
        """How many recorded sessions it was held to them on."""
        ...


@pytest.fixture
def agentctx_server() -> Iterator[StartServer]:
    """Start local servers of providers: ``agentctx_server("anthropic", ["Hello."], window=16_000)``.

    A script that is not asked to its end fails the test, unless ``complete=False``. Needs the extra ``testing``.
    """
    from agentctx.testing.servers import provider_server  # noqa: PLC0415 - heavy: when it is used

    scripts: list[ScriptedModel] = []
    with ExitStack() as running:

        def start(*script: Native, complete: bool = True, **behaviour: Native) -> ProviderServer:  # as there
            server = running.enter_context(provider_server(*script, **behaviour))
            if complete and server.model is not None:
                scripts.append(server.model)
            return server

        yield start
    for script in scripts:
        script.assert_complete()


@pytest.fixture
def agentctx_model() -> Iterator[MakeModel]:
    """Make a model whose answers are scripted: ``agentctx_model([assistant(call("c1", "read")), "Done."])``.

    A script that is not asked to its end fails the test, unless ``complete=False``.
    """
    from agentctx.testing import ScriptedModel  # noqa: PLC0415 - heavy: when it is used

    scripts: list[ScriptedModel] = []

    def make(*script: Native, complete: bool = True, **options: Native) -> ScriptedModel:  # as there
        model = ScriptedModel(*script, **options)
        scripts.extend([model] if complete else [])
        return model

    yield make
    for script in scripts:
        script.assert_complete()


@pytest.fixture
def agentctx_recorder() -> Recorder:
    """A listener that collects compactions: ``Pipeline(..., on_compact=agentctx_recorder)``."""
    from agentctx.testing import Recorder  # noqa: PLC0415 - heavy: when it is used

    return Recorder()


@pytest.fixture
def agentctx_laws() -> HoldToLaws:
    """Hold a stage to the laws on recorded sessions: ``agentctx_laws(MyStage(), "recordings/*.jsonl", budget=8_000)``.

    It is a plain function, for plain tests and async ones.
    """
    from agentctx.session.blocking import blocking  # noqa: PLC0415 - heavy: when it is used
    from agentctx.testing import check_laws_on  # noqa: PLC0415 - heavy: when it is used

    def hold(strategy: ContextStrategy, *sources: str | PathLike[str], **options: Native) -> int:  # as above
        return blocking(check_laws_on, strategy, *sources, **options)

    return hold
