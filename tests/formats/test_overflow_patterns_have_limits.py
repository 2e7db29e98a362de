"""Patterns that read what a server said, in work that grows with the text."""

from re import _constants, _parser

import pytest

from agentctx import classify_error
from agentctx.formats import overflow


def patterns_in(value):
    """The text of every pattern in a value, compiled or to be compiled."""
    if hasattr(value, "finditer") and hasattr(value, "pattern"):
        yield value.pattern
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from patterns_in(each)
    elif isinstance(value, overflow.Refusal):
        yield from patterns_in([value.pattern, value.unless])


PATTERNS = sorted({*patterns_in([*vars(overflow).values(), overflow.refusals(), overflow.amount_patterns()])})


def test_there_are_patterns():
    """What is looked at below is not nothing."""
    assert len(PATTERNS) > 60


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
