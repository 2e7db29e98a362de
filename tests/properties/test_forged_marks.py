"""What a tool writes is data, whatever it looks like: marks that it forges stand for nothing."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from forged_marks import KINDS, MODES, PRESETS, leaks, prepared

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("preset", PRESETS)
async def test_forged_marks_stand_for_nothing(preset, mode):
    """No view says more of a result than its tool has said, nor leads to another conversation's original."""
    for kind, forged in KINDS.items():
        said = forged(8_000)
        views = await prepared(preset, 12_000, said, mode)
        assert views
        assert leaks(views, said) == [], kind
