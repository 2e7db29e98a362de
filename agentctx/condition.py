"""Something that is true or false of a context: when a stage runs, apart from how it works."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from agentctx.core.message import Context
from agentctx.errors import ConfigError
from agentctx.protocols import Call

Test = Callable[[Context, Call], bool]
Approval = Callable[[Context, Context, Call], bool]
"""Given the context, what stages made of it, and the call: whether that is worth having."""


@frozen
class Condition:
    """Something that is true or false of a context; join with ``&``, ``|`` and ``~``.

    Args:
        test: Given the context and the call, whether it holds.
        name: What it is called in reports.
        approval: Asked once the stages have run: what it does not approve is as if they had not. None approves all.
        every_step: Whether it has to be asked at every step of a session, whenever the stages would run alone: what
            it depends on changes although the context does not grow.
    """

    test: Test
    name: str
    approval: Approval | None = None
    every_step: bool = False

    def __call__(self, context: Context, call: Call) -> bool:
        """Whether it holds."""
        return self.test(context, call)

    def approves(self, before: Context, after: Context, call: Call) -> bool:
        """Whether what stages made of a context is worth having."""
        return self.approval is None or self.approval(before, after, call)

    def __bool__(self) -> bool:
        """Not true or false by itself: of two that are joined with ``and`` or ``or``, Python would drop one.

        Raises:
            ConfigError: Always.
        """
        msg = f"{self.name}: join conditions with &, | and ~ instead of and, or and not"
        raise ConfigError(msg)

    def __and__(self, other: object) -> Condition:
        if not isinstance(other, Condition):
            return NotImplemented
        name = " & ".join(f"({each.name})" if " | " in each.name else each.name for each in (self, other))

        def approval(before: Context, after: Context, call: Call) -> bool:
            return self.approves(before, after, call) and other.approves(before, after, call)

        often = self.every_step or other.every_step
        return Condition(lambda context, call: self(context, call) and other(context, call), name, approval, often)

    def __or__(self, other: object) -> Condition:
        if not isinstance(other, Condition):
            return NotImplemented
        name = f"{self.name} | {other.name}"

        def approval(before: Context, after: Context, call: Call) -> bool:
            return any(each(before, call) and each.approves(before, after, call) for each in (self, other))

        often = self.every_step or other.every_step
        return Condition(lambda context, call: self(context, call) or other(context, call), name, approval, often)

    def __invert__(self) -> Condition:
        name = f"~({self.name})"
        return Condition(lambda context, call: not self(context, call), name, every_step=self.every_step)
