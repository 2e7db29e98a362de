"""A scenario of the laws: a strategy, the transcript that it runs on, and what each model call of it gives."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from copy import deepcopy
from functools import cached_property
from typing import Any

from attrs import field, frozen

from agentctx.core.budget import Budget
from agentctx.core.message import Context
from agentctx.core.report import View
from agentctx.engine.reading import Reader, reader
from agentctx.errors import ContextOverflow, InvalidInput
from agentctx.pipeline import Pipeline
from agentctx.protocols import ContextStrategy, Listener, Store, TokenCounter
from agentctx.providers.native import as_mapping, mapping_or_none
from agentctx.replay import turns
from agentctx.session.session import Session
from agentctx.stores import MemoryStore
from agentctx.testing.audit import AllowedEdit
from agentctx.testing.plan import History
from agentctx.wire_format import Violation


@frozen
class PreparedCall:
    """One model call that was prepared."""

    given: list[Any] = field(repr=False)
    view: View | None = field(repr=False)
    overflow: ContextOverflow | None = None
    in_session: bool = True
    refusal: InvalidInput | None = None

    def __str__(self) -> str:
        """Which call it was, for messages."""
        return f"{'session' if self.in_session else 'stateless'} call with {len(self.given)} messages"


@frozen
class Scenario:
    """A strategy, and the transcript that it runs on.

    Args:
        strategy: A stage or a pipeline.
        messages: The native transcript.
        format: Name of its format; found out when not given.
        system: The native system prompt, if it is kept apart.
        tools: The native tool definitions.
        budget: The budget in force; without it the pipeline's own, if any.
        may: What the strategy is allowed to do besides leaving out and cutting; see ``audit.ALLOWED_EDITS``.
        before: Everything that was passed in as it was before anything ran, as JSON.
    """

    strategy: ContextStrategy
    messages: Sequence[Any]
    format: str | None = None
    system: Any = None
    tools: Any = None
    budget: Budget | None = None
    may: frozenset[AllowedEdit] = frozenset()
    before: list[str] = field(init=False, repr=False)
    _steps: list[PreparedCall] = field(init=False, repr=False, eq=False, factory=list)
    _repaired: dict[int, PreparedCall] = field(init=False, repr=False, eq=False, factory=dict)

    @before.default
    def _before(self) -> list[str]:
        return self.now()

    def now(self) -> list[str]:
        """Everything that was passed in as it is now, as JSON."""
        return texts_of([*self.messages, {"system": self.system, "tools": self.tools}])

    @classmethod
    def of(
        cls,
        strategy: ContextStrategy,
        history: History,
        budget: Budget | None = None,
        may: Collection[AllowedEdit] = (),
    ) -> Scenario:
        """A strategy with a history that was generated or built."""
        return cls(strategy, history.messages, history.format, history.system, history.tools, budget, frozenset(may))

    def pipeline(
        self,
        stage: ContextStrategy | None = None,
        *,
        store: Store | None = None,
        counter: TokenCounter | None = None,
        on_compact: Listener | None = None,
    ) -> Pipeline:
        """The strategy as a pipeline with other services."""
        own = self.strategy if isinstance(self.strategy, Pipeline) else Pipeline(self.strategy)
        return Pipeline(
            *(own.stages if stage is None else (stage,)),
            budget=self.budget or own.budget,
            counter=own.counter if counter is None else counter,
            store=MemoryStore() if store is None else store,
            protect=own.protect,
            on_compact=on_compact,
            summarizer=own.summarizer,
            thinking=own.thinking,
        )

    @property
    def limit(self) -> int | None:
        """The most tokens that a request may have, or None."""
        budget = self.pipeline().budget
        return None if budget is None else budget.limit

    @cached_property
    def source(self) -> Reader:
        """Reads and counts natives, and knows nothing of what a session has read and counted."""
        counter = self.pipeline().counter
        return reader(self.messages, system=self.system, tools=self.tools, format=self.format, counter=counter)

    def read(self, natives: Sequence[Any]) -> Context:
        """A request with these native messages, as values."""
        return self.source.context(natives, self.system, self.tools)

    def request(self, natives: Sequence[Any]) -> dict[str, Any]:
        """A request with these native messages, as it is sent."""
        apart = {"system": self.system, "tools": self.tools}
        return {"messages": list(natives)} | {key: value for key, value in apart.items() if value is not None}

    def errors(self, natives: Sequence[Any], before: Sequence[Any] | None = None) -> list[Violation]:
        """The rules that a request with these messages breaks, so that its provider refuses it."""
        edited = None if before is None else self.request(before)
        found = self.source.wire.validate(self.request(natives), None, edited)
        return [violation for violation in found if violation.severity == "error"]

    def calls(self) -> list[list[Any]]:
        """The messages of each model call of the transcript: before each assistant turn, and the whole."""
        stops = (*turns(self.read(self.messages).messages), len(self.messages))
        return [list(self.messages[:stop]) for stop in stops]

    async def prepare(self, pipeline: Pipeline | None = None, messages: Sequence[Any] | None = None) -> PreparedCall:
        """Prepare once, remembering nothing."""
        given = list(self.messages if messages is None else messages)
        chosen = pipeline or self.pipeline()
        try:
            view = await chosen.prepare(given, self.system, self.tools, self.format)
        except ContextOverflow as overflow:
            return PreparedCall(given, None, overflow, in_session=False)
        except InvalidInput as refusal:
            return PreparedCall(given, None, in_session=False, refusal=refusal)
        return PreparedCall(given, view, in_session=False)

    async def step(self, session: Session, given: list[Any]) -> PreparedCall:
        """One step of a session."""
        try:
            return PreparedCall(given, await session.prepare(given, self.system, self.tools))
        except ContextOverflow as overflow:
            return PreparedCall(given, None, overflow)
        except InvalidInput as refusal:
            return PreparedCall(given, None, refusal=refusal)

    async def walk(self, pipeline: Pipeline | None = None, *, rebuilt: bool = False) -> list[PreparedCall]:
        """Prepare every model call of the transcript in one session."""
        session = (pipeline or self.pipeline()).session(format=self.format)
        calls = self.calls()
        return [await self.step(session, deepcopy(given) if rebuilt else given) for given in calls]

    async def all_steps(self) -> list[PreparedCall]:
        """The whole transcript without a session, and every model call of it in one; made once, for all laws."""
        if not self._steps:
            self._steps.extend([await self.prepare(), *await self.walk()])
        return self._steps

    async def repaired(self, given: list[Any]) -> PreparedCall:
        """The messages of a model call, repaired and nothing else; made once, for all laws."""
        if len(given) not in self._repaired:
            self._repaired[len(given)] = await self.prepare(Pipeline(), given)
        return self._repaired[len(given)]


def text_of(native: object) -> str:
    """A native message as JSON, to compare it to the byte; an SDK object as its client sends it."""
    found = mapping_or_none(native)
    return json.dumps(native if found is None else found, default=as_mapping)


def texts_of(natives: Sequence[Any]) -> list[str]:
    """Each native message as JSON."""
    return [text_of(native) for native in natives]
