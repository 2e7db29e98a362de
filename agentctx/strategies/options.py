"""What options must be, checked where they are given, so that a wrong one is not found in the middle of a loop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentctx.core.budget import Budget
from agentctx.core.protection import ProtectRule
from agentctx.errors import ConfigError
from agentctx.protocols import ContextStrategy


def check_stages(where: str, stages: Sequence[ContextStrategy]) -> None:
    """Check that each stage can be called.

    Raises:
        ConfigError: If one cannot, is a class, or is an eviction.
    """
    for place, stage in enumerate(stages):
        if not callable(stage) or isinstance(stage, type):
            msg = f"{where}: stages[{place}] is {stage!r}; a stage is called with (context, call)"
            raise ConfigError(msg)
        if callable(getattr(stage, "least", None)) and not hasattr(stage, "scope"):
            msg = f"{where}: stages[{place}] is {stage!r}, an eviction; it goes into a Block: Block(..., evict=...)"
            raise ConfigError(msg)


def check_rules(protect: Iterable[ProtectRule]) -> tuple[ProtectRule, ...]:
    """The rules of what must survive.

    Raises:
        ConfigError: If they are not a list of rules.
    """
    given: object = protect
    if isinstance(given, str) or not isinstance(given, Iterable):
        msg = f"Pipeline: protect must be a list of rules, such as [Protect.last_user(2)], got {given!r}"
        raise ConfigError(msg)
    rules = tuple(protect)
    for place, rule in enumerate(rules):
        if not callable(rule) or isinstance(rule, type):
            msg = f"Pipeline: protect[{place}] is {rule!r}; a rule is called with the messages: see Protect"
            raise ConfigError(msg)
    return rules


def check_parts(counter: object, store: object, on_compact: object) -> None:
    """Check that a counter counts, a store keeps, and a listener can be called; None is none.

    Raises:
        ConfigError: If one does not.
    """
    asked = (("counter", counter, ("count",)), ("store", store, ("put", "get")), ("on_compact", on_compact, ()))
    for name, given, methods in asked:
        missing = [method for method in methods if not callable(getattr(given, method, None))]
        if given is not None and (missing or (not methods and not callable(given))):
            lacks = f"it has no {' and no '.join(missing)}" if missing else "it cannot be called"
            msg = f"Pipeline: {name} is {given!r}; {lacks}"
            raise ConfigError(msg)


def as_budget(value: Budget | int | None) -> Budget | None:
    """A budget; a number is a window in tokens.

    Raises:
        ConfigError: If it is neither.
    """
    given: object = value
    if given is None or isinstance(given, Budget):
        return given
    if isinstance(given, int):
        return Budget(given)
    msg = f"budget: expected a Budget or a number of tokens, got {given!r}"
    raise ConfigError(msg)


def check_tokens(where: str, value: object) -> None:
    """Check that a number of tokens is one; None is none.

    Args:
        where: The option, for the error.
        value: What was passed.

    Raises:
        ConfigError: If it is not a positive whole number.
    """
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        msg = f"{where}: expected a positive number of tokens, got {value!r}"
        raise ConfigError(msg)
