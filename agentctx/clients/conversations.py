"""Which conversation a request belongs to."""

from __future__ import annotations

import warnings
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from inspect import isawaitable, iscoroutine
from threading import Lock
from typing import Any

from attrs import Factory, define, field

from agentctx.core.message import Native
from agentctx.core.report import Report, View
from agentctx.engine.listeners import logger
from agentctx.errors import AgentctxError, ConfigError
from agentctx.pipeline import Pipeline
from agentctx.providers.adapter import Body, RequestParts
from agentctx.providers.overflow import Overflow
from agentctx.session.fingerprint import digest
from agentctx.session.lock import steps_around
from agentctx.session.session import Session, current
from agentctx.session.sessions import Sessions
from agentctx.session.usage import LearnedLimits, OverflowLimit, is_one_prompt, prompt_tokens

MOST = 64
"""So many models are remembered; the one that was refused longest ago is forgotten first."""


@define
class Limits:
    """The limits that overflows taught, by model. Such a call is cut to the limit, not below: the next is cut anew."""

    pipeline: Pipeline
    _known: OrderedDict[str | None, OverflowLimit] = field(init=False, factory=OrderedDict)
    _guard: Lock = field(init=False, factory=Lock, repr=False)

    def pipeline_for(self, model: str | None, *, down_to_target: bool = False) -> Pipeline:
        """The pipeline within the room that a model is known to have.

        ``down_to_target`` makes the budget's target the limit: where an error named none, it is only guessed.
        """
        with self._guard:
            limit = deepcopy(self._known.get(model))
        if limit is None or limit.tokens is None:
            return self.pipeline
        budget = LearnedLimits(self.pipeline.budget_for(model), learned=limit).in_force
        if budget is not None and down_to_target:
            budget = budget.scaled(budget.target_tokens / budget.limit)
        return self.pipeline if budget is None else self.pipeline.within(budget)

    def refused(self, model: str | None, overflow: Overflow, sent: int) -> OverflowLimit | None:
        """Take in that a view of ``sent`` tokens was too large; gives back what was known before."""
        given = self.pipeline.budget_for(model)
        with self._guard:
            before = self._known.get(model)
            allowance = LearnedLimits(given, learned=OverflowLimit() if before is None else deepcopy(before))
            allowance.refused(overflow, sent)
            self._known[model] = allowance.learned
            self._known.move_to_end(model)
            if len(self._known) > MOST:
                self._known.popitem(last=False)
        return before

    def restore(self, model: str | None, before: OverflowLimit | None) -> None:
        """Take back what an error taught: nothing smaller could be made of its request."""
        with self._guard:
            self._known[model] = OverflowLimit() if before is None else before

    def forget(self, model: str | None = None) -> None:
        """Forget what errors taught of a model, or of all of them."""
        with self._guard:
            for name in [*self._known] if model is None else [model]:
                self._known.pop(name, None)

    def taken(self, model: str | None, usage: Native) -> None:
        """Take in that the provider took a prompt, and what it billed for it."""
        billed = prompt_tokens(usage)
        if billed is None or not is_one_prompt(usage):
            return
        with self._guard:
            self._known.setdefault(model, OverflowLimit()).taken(billed)
            if len(self._known) > MOST:
                self._known.popitem(last=False)


Key = Callable[[Body], Hashable]
"""Names the conversation of a request's body; None means that it belongs to none."""

RECENT = 32
"""So many calls without a session are remembered, to notice one that goes on from another."""


@define(eq=False)
class Conversations:
    """The conversations of one wrapped client, and what was prepared for it last: ``wrapped.agentctx``.

    Args:
        pipeline: Prepares what belongs to no conversation.
        session: The session of all requests of the client, if there is one.
        key: Names the conversation of each request, if given.
        sessions: The sessions by key.
        view: The last view that was prepared for the client, with its report, of whichever conversation.
        limits: What is learned of each model's room from the requests that belong to no conversation.
    """

    pipeline: Pipeline
    session: Session | None = None
    key: Key | None = field(default=None, repr=False)
    sessions: Sessions = field(kw_only=True)
    view: View | None = field(default=None, init=False, repr=False)
    limits: Limits = field(init=False, default=Factory(lambda self: Limits(self.pipeline), takes_self=True), repr=False)
    _recent: deque[tuple[bytes, bytes, int]] | None = field(
        init=False, factory=lambda: deque(maxlen=RECENT), repr=False
    )

    _said: set[str] = field(init=False, factory=set, repr=False)

    def __repr__(self) -> str:
        """One line: the session, or how many there are by key, and the last view."""
        which = f"{len(self.sessions)} sessions by key" if self.session is None else repr(self.session)
        return f"<Conversations: {which}, last view {self.view!r}>"

    @property
    def report(self) -> Report | None:
        """The report of the last view."""
        return None if self.view is None else self.view.report

    def forget_limit(self, model: str | None = None) -> None:
        """Forget the limits that overflow errors taught: for calls without a session, and for the client's session."""
        self.limits.forget(model)
        if self.session is not None:
            self.session.forget_limit()

    @asynccontextmanager
    async def of(self, body: Body, request: RequestParts, format_name: str) -> AsyncIterator[Session | None]:
        """The session of a request, held while it is prepared; None when it belongs to no conversation.

        A model call that is made for a step of a session (by its stage, summarizer, store or listener) is no part of
        that session's conversation.
        """
        session, name = self.session or current(), None
        if session is None and self.key is not None:
            name = _named(self.key, body)
        if name is None:
            yield _of_request(session, request, format_name)
        else:
            async with self.sessions.using(name, request.model, format_name) as named:
                yield _of_request(named, request, format_name)

    def say_once(self, what: str) -> None:
        """Say in the log what costs this client knowledge, once."""
        if what not in self._said:
            self._said.add(what)
            logger.warning("%s", what)

    def note_stateless(self, messages: Sequence[Any]) -> None:
        """Warn, once, when a call without a session goes on from an earlier one without a session."""
        recent = self._recent
        if recent is None:
            return
        first, length = digest(messages[0]), len(messages)
        for begins, ends, known in recent:
            if begins == first and known < length and ends == digest(messages[known - 1]):
                self._recent = None
                warnings.warn(_GOES_ON, UserWarning, stacklevel=2)
                return
        recent.append((first, digest(messages[-1]), length))


_GOES_ON = (
    "a model call of a wrapped client goes on from an earlier one without a session: each is prepared by itself, so a "
    "cut moves the prefix at every call and the provider's cache is lost; make the calls within `with "
    "pipeline.session():`, or pass session= or key= to wrap()"
)


def _named(key: Key, body: Body) -> Hashable:
    """What the key calls the conversation of a request."""
    try:
        name: object = key(body)
    except AgentctxError:
        raise
    except Exception as error:
        msg = f"wrap: key {key!r} raised {type(error).__name__}: {error}"
        raise ConfigError(msg) from error
    if not _is_a_name(name):
        msg = f"wrap: key {key!r} gave {name!r:.80}; expected what names a conversation (a str, say), or None"
        raise ConfigError(msg)
    return name


def _is_a_name(name: object) -> bool:
    """Whether it can be looked up: it has a hash, and is equal to itself, as nan is not."""
    if iscoroutine(name):
        name.close()  # else Python says that nobody awaited it
    try:
        return not isawaitable(name) and hash(name) is not None and bool(name == name)  # noqa: PLR0124
    except Exception:  # noqa: BLE001 - whatever it raises, it names nothing
        return False


def _of_request(session: Session | None, request: RequestParts, format_name: str) -> Session | None:
    if session is None:
        return None
    if any(step.session is not None and session.is_beside(step.session) for step in steps_around()):
        return None
    return session.holding(request.messages, request.system, format_name, request.model)
