"""Something that is true or false of a context: when a stage runs, apart from how it works."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from agentctx.core.message import Context
from agentctx.protocols import Call

Test = Callable[[Context, Call], bool]


@frozen
class Condition:
    """Something that is true or false of a context; join with ``&``, ``|`` and ``~``.

    Args:
        test: Given the context and the call, whether it holds.
        name: What it is called in reports.
    """

    test: Test
    name: str

    def __call__(self, context: Context, call: Call) -> bool:
        """Whether it holds."""
        return self.test(context, call)

    def __and__(self, other: Condition) -> Condition:
        name = f"{self.name} & {other.name}"
        return Condition(lambda context, call: self(context, call) and other(context, call), name)

    def __or__(self, other: Condition) -> Condition:
        name = f"{self.name} | {other.name}"
        return Condition(lambda context, call: self(context, call) or other(context, call), name)

    def __invert__(self) -> Condition:
        return Condition(lambda context, call: not self(context, call), f"~({self.name})")
