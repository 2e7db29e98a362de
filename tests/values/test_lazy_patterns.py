"""Patterns are compiled when they are first used."""

from __future__ import annotations

import re

import pytest

from agentctx.lazy import lazy_pattern


def test_a_pattern_does_what_a_compiled_one_does():
    """Matches, replaces, and tells its source and flags."""
    late, ready = lazy_pattern(r"a(?P<b>b+)", re.IGNORECASE), re.compile(r"a(?P<b>b+)", re.IGNORECASE)
    assert [each["b"] for each in late.finditer("xABBab")] == ["BB", "b"]
    assert late.sub("-", "xabb") == "x-"
    assert (late.pattern, late.flags) == (ready.pattern, ready.flags)


def test_what_is_wrong_with_a_pattern_is_said_at_its_first_use():
    """Nothing is compiled before."""
    broken = lazy_pattern("(")
    with pytest.raises(re.error):
        broken.search("")
