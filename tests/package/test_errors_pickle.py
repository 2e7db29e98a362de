"""Errors cross a process pool."""

import pickle

import pytest

from agentctx import ContextOverflow, InvalidInput, UnknownModel
from agentctx.errors import BrokenPair, NoBudget, StoreConflict


@pytest.mark.parametrize(
    "error",
    [
        InvalidInput(where="messages[0]", what="wrong"),
        NoBudget("FitContextWindow"),
        BrokenPair("mine", "broke a pair"),
        ContextOverflow(9, 3),
        StoreConflict("thread", 4),
        UnknownModel("none"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_pickles_with_its_text_and_its_fields(error):
    """Else a process pool that raises one is broken for all later work."""
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - made here
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
