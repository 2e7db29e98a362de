"""Tiers are integers with names."""

import copy
import pickle

import pytest

from agentctx import ConfigError
from agentctx.builder import Tier
from agentctx.tiers import TierRule, as_tier


@pytest.mark.parametrize(
    ("number", "name"), [(0, "system"), (1, "core"), (2, "rag"), (3, "history"), (4, "scratchpad"), (7, "Tier(7)")]
)
def test_names(number, name):
    """Known tiers have names, others say their number."""
    assert str(Tier(number)) == name


def test_any_integer_is_a_tier():
    """A tier of one's own sorts among the known ones, and is the same object every time."""
    assert Tier(-1) < Tier.SYSTEM < Tier(7)
    assert Tier(7) is Tier(7) is copy.deepcopy(Tier(7)) is pickle.loads(pickle.dumps(Tier(7)))  # noqa: S301 - our own


def test_the_known_tiers_stay_five():
    """Making a tier of one's own does not add to the list of the known ones."""
    Tier(99)
    assert [tier.name for tier in Tier] == ["SYSTEM", "CORE", "RAG", "HISTORY", "SCRATCHPAD"]


@pytest.mark.parametrize("value", ["rag", 1.0, None, True])
def test_what_is_no_tier(value):
    """Only integers are tiers."""
    with pytest.raises(ConfigError, match=r"^Tier must be a whole number, for example Tier\.HISTORY, got "):
        as_tier(value)
    with pytest.raises(ConfigError, match=r"^Tier must be a whole number, for example Tier\.HISTORY, got "):
        TierRule(value)
    with pytest.raises(ValueError, match="is not a valid Tier"):
        Tier("rag")
