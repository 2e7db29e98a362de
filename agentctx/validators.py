"""What an option must be: validators for the fields of attrs, which refuse a value in one sentence.

A plain function checks its options with the same validators (``MustBe.check``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from math import inf
from typing import Any

from attrs import Attribute, fields, frozen
from attrs.validators import and_, ge, gt, in_, instance_of, is_callable, le, lt, not_, optional

from agentctx.characters import shown
from agentctx.errors import ConfigError

Rule = Callable[[Any, Any, Any], object]
"""A validator of attrs: it raises where a value will not do."""


def must_be(where: str, wanted: str, value: object) -> ConfigError:
    """Make the error that refuses the value of an option.

    Args:
        where: The class or function and its option, as ``Class.option``.
        wanted: What the option must be.
        value: What it is; the error shows at most 80 characters of it.
    """
    return ConfigError(f"{where} must be {wanted}, got {shown(value)}")


@frozen
class MustBe:
    """A validator for a field of attrs that raises ``ConfigError``: "`Class.option` must be …, got …".

    Args:
        wanted: What the option must be.
        rule: A validator of attrs that raises ``TypeError`` or ``ValueError`` where a value is none.
        member: What each of the values must be, where the option has many.
    """

    wanted: str
    rule: Rule
    member: MustBe | None = None

    def __call__(self, instance: object, attribute: Attribute[Any], value: object) -> None:
        """Check a field, as attrs calls a validator."""
        self.check(f"{type(instance).__name__}.{attribute.alias}", value)

    def check(self, where: str, value: object) -> None:
        """Check an option of a function.

        Args:
            where: The function and its option, as ``function.option``.
            value: What was passed.

        Raises:
            ConfigError: If the value will not do.
        """
        try:
            self.rule(self, _ANY, value)
        except Exception:  # noqa: BLE001 - a rule may look into a value of a class of a user's
            raise must_be(where, self.wanted, value) from None
        if self.member is not None and isinstance(value, Iterable):
            for place, member in enumerate(value):
                self.member.check(f"{where}[{place}]", member)

    @property
    def or_none(self) -> MustBe:
        """The same, where None will do as well."""
        return MustBe(f"{self.wanted}, or None", optional(self.rule), self.member)


_ANY = fields(MustBe).rule
"""A field to call a validator with that checks no field: attrs' own take its name for their error."""


def holds(test: Callable[[Any], object]) -> Rule:
    """Make a validator of attrs that refuses a value of which the test is not true."""

    def check(_instance: object, _attribute: object, value: object) -> None:
        if not test(value):
            raise ValueError

    return check


_NUMBER: Rule = and_(instance_of((int, float)), not_(instance_of(bool)))


def whole_number(least: int, most: int | None = None) -> MustBe:
    """Require a whole number that is not smaller than ``least``, and not larger than ``most``."""
    kind = (instance_of(int), not_(instance_of(bool)), ge(least))
    if most is None:
        return MustBe(f"a whole number of at least {least}", and_(*kind))
    return MustBe(f"a whole number from {least} to {most:,}", and_(*kind, le(most)))


def numeric(wanted: str, *bounds: Rule) -> MustBe:
    """Require a number within bounds; ``nan`` is within none."""
    return MustBe(wanted, and_(_NUMBER, *bounds))


def one_of(options: Collection[str]) -> MustBe:
    """Require one of some texts."""
    *first, last = map(repr, options)
    return MustBe(f"{', '.join(first)} or {last}", in_(tuple(options)))


def a(kind: type | tuple[type, ...], wanted: str) -> MustBe:
    """Require an object of a class, or of one of some classes."""
    return MustBe(wanted, instance_of(kind))


def function(wanted: str) -> MustBe:
    """Require something that can be called and is no class: of a class, an object is meant."""
    return MustBe(wanted, and_(is_callable(), not_(instance_of(type))))


def list_of(member: MustBe, wanted: str) -> MustBe:
    """Require a list, which is no text, of such members; an error names the place of a wrong one."""
    return MustBe(f"a list of {wanted}", and_(not_(instance_of(str)), instance_of(Iterable)), member)


def template(*places: str) -> MustBe:
    """Require a text that names nothing else in braces than the places that are filled in."""
    filled = holds(lambda text: set(re.findall(r"\{(\w+)\}", text)) <= set(places))
    return MustBe(f"a text with nothing but {{{'} and {'.join(places)}}} in braces", and_(TEXT.rule, filled))


def methods(wanted: str, *names: str) -> MustBe:
    """Require an object with these methods."""
    has = holds(lambda value: all(callable(getattr(value, name, None)) for name in names))
    return MustBe(f"{wanted}, with {' and '.join(names)}", has)


SHARE = numeric("a number from 0 to 1", ge(0), le(1))
PART = numeric("a share above 0 and up to 1", gt(0), le(1))
SECONDS = numeric("a number of seconds above 0", gt(0))
NOT_NEGATIVE = numeric("a number of at least 0", ge(0), lt(inf))
POSITIVE = numeric("a number above 0", gt(0))
CLOCK = function("a function that tells seconds")
TEXT = a(str, "a text")
NOT_BLANK = MustBe("a text that is not blank", and_(TEXT.rule, holds(str.strip)))
NAME = MustBe("a name", and_(TEXT.rule, holds(len)))
TRUTH = a(bool, "True or False")
NAMES = list_of(TEXT, "names")
TEXTS = list_of(TEXT, "texts")


def as_names(value: Iterable[str]) -> frozenset[str]:
    """Convert a collection of names; anything else stays, and the validator ``NAMES`` refuses it."""
    try:
        return value if isinstance(value, str) else frozenset(value)  # type: ignore[return-value]
    except TypeError:
        return value  # type: ignore[return-value]


def as_tuple(value: Iterable[Any]) -> tuple[Any, ...]:
    """Convert a list; anything else stays, and the validator of ``list_of`` refuses it."""
    return value if isinstance(value, str) or not isinstance(value, Iterable) else tuple(value)  # type: ignore[return-value]
