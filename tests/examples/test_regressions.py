"""The comparison of two runs of the benchmarks."""

from measuring import measured

SCRIPT = """
import json, regressions

def retention(visible, dollars):
    ours = {"calls": 9, "dollars": dollars, "found": {"values": 1000, "visible": visible, "recallable": 10, "said": 0}}
    return {"facts": {"all": {"everything": {**ours, "dollars": 10.0}, "coding_agent": ours}}}

def economics(dollars):
    totals = {"everything": {"dollars": 10.0}, "ours": {"dollars": dollars}}
    return {"bills": [{"kind": "all", "model": "gpt-5.4", "totals": totals}]}

before = {"retention": retention(900, 4.0), "economics": economics(4.0)}
print(json.dumps({
    "same": regressions.compare(before, before),
    "within": regressions.compare(before, {"retention": retention(896, 4.04), "economics": economics(4.04)}),
    "worse": regressions.compare(before, {"retention": retention(890, 4.06), "economics": economics(4.06)}),
    "gone": regressions.compare(before, {"retention": {"facts": {}}}),
}))
"""


def test_half_a_point_is_allowed_and_more_is_named():
    """Each figure that is worse by more than half a percentage point has a line, and so has one that is missing."""
    compared = measured(SCRIPT)
    assert compared["same"] == compared["within"] == [4, []]
    assert compared["worse"] == [
        4,
        [
            "facts, all, coding_agent: visible values: 90.0 % before, 89.0 % now",
            "facts, all, coding_agent: or by handle: 91.0 % before, 90.0 % now",
            "facts, all, coding_agent: cost: 40.0 % before, 40.6 % now",
            "bills, all, gpt-5.4: cost: 40.0 % before, 40.6 % now",
        ],
    ]
    assert len(compared["gone"][1]) == compared["gone"][0] == 3
