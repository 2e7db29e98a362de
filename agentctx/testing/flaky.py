"""Parts that fail the first time, to prove that a failure costs nothing."""

from __future__ import annotations

from attrs import define, field

from agentctx.core.event import Compaction
from agentctx.core.message import Context
from agentctx.errors import StoreError
from agentctx.protocols import Call, ContextStrategy, Scope, Store


class FlakyError(Exception):
    """What the flaky parts raise; no error of agentctx."""


@define
class FlakyStage:
    """A stage that does its work and then raises, every first time that it meets a context of some length.

    Args:
        stage: The stage that does the work.
        failures: How often it raised.
    """

    stage: ContextStrategy
    failures: int = 0
    _met: set[int] = field(factory=set, init=False)

    @property
    def scope(self) -> Scope:
        """The scope of the stage inside."""
        found = getattr(self.stage, "scope", Scope.ALWAYS)
        return found if isinstance(found, Scope) else Scope.ALWAYS

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Return what the stage inside returns, at the second try.

        Raises:
            FlakyError: At the first try.
        """
        made = await self.stage(context, call)
        if len(context.messages) not in self._met:
            self._met.add(len(context.messages))
            self.failures += 1
            msg = "the stage failed after its work was done"
            raise FlakyError(msg)
        return made


@define
class FlakyStore:
    """A store that refuses everything once.

    Args:
        store: The store that keeps what comes again.
        failures: How often it refused.
    """

    store: Store
    failures: int = 0
    _refused: set[bytes] = field(factory=set, init=False)

    async def put(self, content: bytes, /) -> str:
        """Keep ``content`` at the second try.

        Raises:
            StoreError: At the first try.
        """
        if content not in self._refused:
            self._refused.add(content)
            self.failures += 1
            msg = "the store is not there"
            raise StoreError(msg)
        return await self.store.put(content)

    async def get(self, handle: str, /) -> bytes:
        """What was put under ``handle``.

        Raises:
            StoreError: If there is nothing under it.
        """
        return await self.store.get(handle)


def failing_listener(_event: Compaction) -> None:
    """A listener that raises.

    Raises:
        FlakyError: Always.
    """
    msg = "the listener failed"
    raise FlakyError(msg)
