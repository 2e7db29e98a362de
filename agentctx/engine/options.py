"""What options must be, checked where they are given, so that a wrong one is not found in the middle of a loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from inspect import isawaitable, iscoroutinefunction, isroutine, signature
from typing import TypeVar

from attrs import frozen

from agentctx.budget import Budget, reserve_for_answer
from agentctx.engine.listeners import is_async
from agentctx.errors import ConfigError, NoBudget
from agentctx.message import Context
from agentctx.protocols import Call, ContextStrategy, Strategy, When, name_of, run_plain
from agentctx.unit import ProtectRule
from agentctx.validators import MustBe, function, holds, list_of, methods, must_be

_OF_THE_LIBRARY: set[type] = set()

Kind = TypeVar("Kind", bound=type)


def library_stage(kind: Kind) -> Kind:
    """Mark a class of stages as the library's own: the engine does not repair the result of such a stage.

    A class that derives from it does not have the mark.
    """
    _OF_THE_LIBRARY.add(kind)
    return kind


def is_ours(stage: ContextStrategy) -> bool:
    """Whether a stage is the library's own (``library_stage``)."""
    return type(stage) in _OF_THE_LIBRARY


class Summarizing(ContextStrategy):
    """A strategy of the library that asks the pipeline's summarizer."""

    __slots__ = ()


def limits(stage: str, max_tokens: int | None, call: Call) -> tuple[int, int]:
    """The hard limit, and the size to come down to, in tokens.

    Args:
        stage: Name of the stage, for the error.
        max_tokens: The stage's own limit; without it the pipeline's budget holds.
        call: What the stage is told.

    Raises:
        NoBudget: If there is neither.
    """
    hard = max_tokens if call.budget is None else call.budget.limit
    if hard is None:
        raise NoBudget(stage)
    limit = hard if max_tokens is None else min(hard, max_tokens)
    return limit, limit if call.limit is None else min(limit, call.limit)


def as_strategies(where: str, stages: Sequence[Strategy]) -> tuple[ContextStrategy, ...]:
    """Return the stages as strategies: a function is wrapped, a strategy stays as it is.

    Args:
        where: Who they were passed to, for the error.
        stages: The stages that were passed.

    Raises:
        ConfigError: If one cannot be called with two arguments, is a class, is a list of stages, derives from
            ``ContextStrategy`` and does not say what it does, or has a ``when`` that is none: it would never be run.
    """
    return tuple([_as_strategy(where, place, stage) for place, stage in enumerate(stages)])


def _as_strategy(where: str, place: int, stage: Strategy) -> ContextStrategy:
    passed: object = stage
    if isinstance(passed, (list, tuple)):
        before = "condition, " if where == "when" else ""
        msg = (
            f"{where}: stages[{place}] must be a stage, got a {type(passed).__name__} of {len(passed)}: "
            f"pass the stages one by one, {where}({before}a, b), or unpack it, {where}({before}*stages)"
        )
        raise ConfigError(msg)
    if not callable(stage) or isinstance(stage, type):
        msg = f"{where}: stages[{place}] is {stage!r}; a stage is called with (context, call)"
        raise ConfigError(msg)
    if not _takes_two(stage):
        msg = f"{where}: stages[{place}] is {stage!r}; a stage takes (context, call), and this cannot be called so"
        raise ConfigError(msg)
    if not isinstance(stage, ContextStrategy):
        if hasattr(stage, "when"):
            msg = f"{where}: stages[{place}] is {stage!r}; derive its class from ContextStrategy: it says when it runs"
            raise ConfigError(msg)
        return FunctionStage(stage)
    apply = type(stage).apply if type(stage).__call__ is ContextStrategy.__call__ else None
    if apply is not None and (apply is ContextStrategy.apply or iscoroutinefunction(apply)):
        msg = f"{where}: stages[{place}] is {stage!r}; give it a plain apply, or an async __call__ where it waits"
        raise ConfigError(msg)
    when: object = stage.when
    if not isinstance(when, When):
        msg = (
            f"{where}: stages[{place}] is {stage!r}; its when is {when!r}: write when: ClassVar[When] = "
            "When.UNDER_PRESSURE, or another When; without ClassVar attrs takes it for an option"
        )
        raise ConfigError(msg)
    return stage


@frozen(repr=False)
class FunctionStage(ContextStrategy):
    """A function of the user's as a strategy.

    Args:
        function: The function, plain or async, or an object that is called as one.
    """

    function: Callable[[Context, Call], Context | Awaitable[Context]]

    def __repr__(self) -> str:
        """The function."""
        return self.name if isroutine(self.function) else repr(self.function)

    @property
    def name(self) -> str:
        """Its name in reports and errors."""
        return name_of(self.function)

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Return the context that the function returns; a large request is passed to a plain one in a worker thread."""
        after: object = (
            self.function(context, call) if is_async(self.function) else await run_plain(self.function, context, call)
        )
        return await after if isawaitable(after) else after  # type: ignore[return-value] # the engine checks it


def _takes_two(stage: Strategy) -> bool:
    """Whether a stage can be called with two arguments, as far as Python knows what it takes."""
    try:
        known = signature(stage)
    except (
        AttributeError,
        NameError,
        TypeError,
        ValueError,
    ):  # not of Python, or annotated by what is not there
        return True
    try:
        known.bind(None, None)
    except TypeError:
        return False
    return True


def check_rules(protect: object) -> tuple[ProtectRule, ...]:
    """The rules of what must survive.

    Raises:
        ConfigError: If they are not a list of rules.
    """
    if isinstance(protect, str) or not isinstance(protect, Iterable):
        raise must_be("Pipeline.protect", "a list of rules, such as [Protect.last_user(2)]", protect)
    rules = tuple(protect)
    list_of(RULE, "rules").check("Pipeline.protect", rules)
    return rules


REDACTOR = MustBe(
    "a plain function of a text and the name of its file",
    holds(lambda redact: callable(redact) and not isinstance(redact, type) and not is_async(redact)),
)
RULE = function("a rule, which is called with the messages: see Protect")
SUMMARIZER = function("an async function of (messages, max_tokens)")
STORE = methods("a store", "put", "get")


def check_listeners(where: str, on_compact: object) -> None:
    """Check that what is told of compactions can be called: one listener or a list of them; None is none.

    Raises:
        ConfigError: If it cannot.
    """
    if on_compact is None or (callable(on_compact) and not isinstance(on_compact, type)):
        return
    if isinstance(on_compact, str) or not isinstance(on_compact, Sequence):
        msg = f"{where}: on_compact is {on_compact!r}; it cannot be called, and is no list of listeners"
        raise ConfigError(msg)
    for place, listener in enumerate(on_compact):
        if not callable(listener):
            msg = f"{where}: on_compact[{place}] is {listener!r}; it cannot be called"
            raise ConfigError(msg)


def check_subscribers(subscribers: object) -> None:
    """Check that each subscriber can be called, and does not have to be waited for.

    Raises:
        ConfigError: If one cannot, or is async, or they are no list.
    """
    if isinstance(subscribers, str) or not isinstance(subscribers, Sequence):
        msg = f"Pipeline: subscribers is {subscribers!r}; it is a list of subscribers: subscribers=[LogEvents()]"
        raise ConfigError(msg)
    for place, each in enumerate(subscribers):
        if isinstance(each, type):
            name = each.__name__
            msg = f"Pipeline: subscribers[{place}] is the class {name}; a subscriber is made of it: {name}()"
            raise ConfigError(msg)
        if not callable(each) or is_async(each):
            what = "a subscriber is a plain function of an event, which does not wait"
            msg = f"Pipeline: subscribers[{place}] is {each!r}; {what}"
            raise ConfigError(msg)


def check_summarizer(summarizer: object, stages: Sequence[ContextStrategy]) -> None:
    """Check the summarizer, and that a stage may ask it: one of the library's that does, or one of another's.

    Raises:
        ConfigError: If it cannot be called, or there is none that may.
    """
    if summarizer is None:
        return
    SUMMARIZER.check("Pipeline.summarizer", summarizer)
    if any(_may_summarize(stage) for stage in stages):
        return
    raise must_be("Pipeline.summarizer", "left out where no stage asks it", summarizer)


def _may_summarize(stage: ContextStrategy) -> bool:
    if stage.stages:
        return any(map(_may_summarize, stage.stages))
    return isinstance(stage, Summarizing) or not is_ours(stage)


def as_budget(value: Budget | int, where: str) -> Budget:
    """Return a budget as it is; of a number, the budget of a window that leaves room for the answer.

    Args:
        value: A budget, or a window in tokens.
        where: The function that it was passed to, for the error.

    Raises:
        ConfigError: If it is neither.
    """
    passed: object = value
    if isinstance(passed, Budget):
        return passed
    if isinstance(passed, int):
        return Budget(passed, reserve_for_answer(passed))
    option = f"{where}.budget"
    raise must_be(option, "a Budget or a number of tokens", passed)
