"""Patterns that read what a server said, in work that grows with the text."""

import importlib
import pkgutil
import re
from re import _constants, _parser

import pytest

import agentctx.economics
from agentctx import classify_error


def patterns_in(value):
    """Every compiled pattern in a value of a module."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from patterns_in(each)


NAMES = [f"agentctx.economics.{each.name}" for each in pkgutil.iter_modules(agentctx.economics.__path__)]
VALUES = [value for name in NAMES for value in vars(importlib.import_module(name)).values()]
PATTERNS = sorted({each.pattern for value in VALUES for each in patterns_in(value)})


def gaps_without_limit(tree):
    """Every repeat without an end over any character."""
    for operator, argument in tree:
        if operator in (_constants.MAX_REPEAT, _constants.MIN_REPEAT):
            _, most, inner = argument
            if most == _constants.MAXREPEAT and any(kind is _constants.ANY for kind, _ in inner):
                yield operator
            yield from gaps_without_limit(inner)
        elif operator is _constants.SUBPATTERN:
            yield from gaps_without_limit(argument[3])
        elif operator is _constants.BRANCH:
            for each in argument[1]:
                yield from gaps_without_limit(each)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_no_gap_goes_on_to_the_end(pattern):
    """What may stand between two words of an error has a limit: no word is looked at once for each other."""
    assert not list(gaps_without_limit(_parser.parse(pattern)))


@pytest.mark.parametrize(
    "piece",
    ["limit: 1, ", "1,", "input ", "400 ", "\\u", "is too large: 1. length is 1 ", "9", "maximum context length "],
)
def test_a_long_error_is_an_answer(piece):
    """However long an error says the same, there is an answer; a number that no model has is none that stops it."""
    text = f"prompt is too long: {piece * (20_000 // len(piece))} tokens > 200000 maximum"
    classify_error(RuntimeError(text))
