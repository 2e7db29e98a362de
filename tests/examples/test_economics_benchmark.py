"""The benchmark of bills: its windows, its bars, and what it says of the session that comes with the project."""

import pytest
from measuring import SHIPPED, measured

SCRIPT = """
import json, sys, anyio, bills, markers, recorded, windows
from pathlib import Path
from attrs import evolve
from agentctx.models.table import profile

session = recorded.read("shipped", json.loads(Path(sys.argv[1]).read_text()))
made, given = windows.Windows(), windows.Windows(20_000)
rows = anyio.run(markers.measure_markers, {"shipped": [session]}, given)
(row,) = rows
worse = {**row.totals, "cheaper": evolve(row.totals["ours"], dollars=0.0)}
broken = {**row.totals, "ours": evolve(row.totals["ours"], breaks=9)}
print(json.dumps({
    "made": made.of(session),
    "largest": session.largest,
    "floor": session.floor,
    "worth": [windows.Windows(size).worth(session, profile("gpt-5.4")) for size in (1_000, 20_000, 40_000)],
    "row": bills.plain(row),
    "dearer": evolve(row, totals=worse).missed,
    "broken": evolve(row, totals=broken).missed,
    "markdown": bills.markdown(rows),
}))
"""


@pytest.fixture(scope="module")
def found():
    """What the benchmark measures on the shipped session."""
    return measured(SCRIPT, str(SHIPPED))


def test_a_window_is_made_for_a_session(found):
    """It holds what no request can be without, and a half to a quarter of the rest."""
    rest = (found["made"] - found["floor"]) / (found["largest"] - found["floor"])
    assert 0.24 <= rest <= 0.51


def test_a_given_window_is_for_sessions_that_outgrow_it(found):
    """Neither for one that what must stay fills, nor for one that is never cut twice."""
    assert found["worth"] == [False, True, False]


def test_our_own_markers_do_what_a_careful_client_does(found):
    """On the shipped session ours reads as much as with markers set by hand, costs no more, and breaks to compact."""
    shares, totals = found["row"]["cached_share"], found["row"]["totals"]
    assert shares["ours"] >= shares["a careful client"] - 0.001
    assert totals["ours"]["dollars"] <= 1.001 * totals["a careful client"]["dollars"]
    assert totals["ours"]["breaks"] <= totals["ours"]["compactions"] > 0


def test_a_missed_bar_is_named(found):
    """Who is dearer than another, or breaks more often than it compacts, misses that bar."""
    assert "dearer" not in found["row"]["missed"]
    assert "dearer" in found["dearer"]
    assert "breaks" not in found["row"]["missed"]
    assert "breaks" in found["broken"]


def test_a_row_is_a_line_of_markdown(found):
    """With a head of as many columns."""
    head, rule, row = found["markdown"].splitlines()
    assert head.count("|") == rule.count("|") == row.count("|") == 10
    assert row.startswith("| shipped | gpt-5.6-sol | 1 | 33 |")
