"""A report as plain text."""

from math import inf

import pytest

from agentctx import Change, Outcome, Report, StageReport
from agentctx.builder import BlockReport, BuildReport, Tier
from agentctx.economics import Forecast
from agentctx.reports import change_text, report_text

DROPPED = Change(2, "assistant", Outcome.DROPPED, "TrimRounds", "an old round", 120, 0, "mem:1")
EDITED = Change(7, "tool", Outcome.EDITED, "ClearToolResults", "", 900, 12)
ADDED = Change(1, "tool", Outcome.ADDED, "RepairHistory", "no result was recorded", 0, 9)


def test_a_change_says_what_became_of_which_message_and_why():
    """One line holds outcome, index, role, size, reason and handle."""
    assert [change_text(change) for change in (DROPPED, EDITED, ADDED)] == [
        "dropped message 2 (assistant, 120 tokens): an old round [original: mem:1]",
        "edited message 7 (tool, 900 -> 12 tokens)",
        "added message 1 (tool, 9 tokens): no result was recorded",
    ]


def test_a_report_lists_each_stage_that_acted():
    """Every change stands under its stage, and the first line has the sizes of the request."""
    stages = (
        StageReport("TrimRounds", (DROPPED,), 5000, 4880, 0.001),
        StageReport("Quiet", (), 4880, 4880, 0.001),
        StageReport("ClearToolResults", (EDITED,), 4880, 3992, 0.001, ("one note",)),
    )
    report = Report(stages, (DROPPED, EDITED), 9, 8, 5000, 3992, limit=4000, first_changed=2, rebilled_tokens=800)
    assert report_text(report).split("\n") == [
        "9 -> 8 messages, 5,000 -> 3,992 tokens, 4,000 allowed, 0.0 ms",
        "first message that differs: 2, 800 tokens to be billed again",
        "TrimRounds: 5,000 -> 4,880 tokens",
        "  dropped message 2 (assistant, 120 tokens): an old round [original: mem:1]",
        "ClearToolResults: 4,880 -> 3,992 tokens",
        "  one note",
        "  edited message 7 (tool, 900 -> 12 tokens)",
    ]


def test_a_cut_says_what_it_costs():
    """Where the prices are known, a line says what the call costs with and without the cut, and when that pays back."""
    forecast = Forecast(without=0.02, with_cut=0.05, later_without=0.02, later_with=0.01, calls=4)
    stages = (StageReport("TrimRounds", (DROPPED,), 5000, 4880, 0.001),)
    report = Report(stages, (DROPPED,), 9, 8, 5000, 4880, first_changed=2, forecast=lambda: forecast)
    assert report_text(report).split("\n")[2] == (
        "cost: next call $0.0500 with the cut, $0.0200 without; later $0.0100 instead of $0.0200: "
        "pays back after 4 calls"
    )
    assert str(Forecast(0.05, 0.02, 0.02, 0.01, calls=1)).endswith("pays back at that call")
    assert "cost" not in report_text(Report((), (), 1, 1, 10, 10, forecast=lambda: forecast))


def test_a_quiet_report_says_that_nothing_was_changed():
    """A request that went through as it was says so."""
    assert report_text(Report((), (), 1, 1, 10, 10)).endswith("nothing was changed")


def test_a_long_list_is_counted_beyond_its_beginning():
    """Only the first changes of a stage are listed; how many more there are is said."""
    changes = tuple(Change(index, "tool", Outcome.EDITED, "Stage") for index in range(10))
    text = report_text(Report((StageReport("Stage", changes, 1, 1, 0.0),), changes, 10, 10, 1, 1), most=3)
    assert text.endswith("  and 7 more")
    assert text.count("edited message") == 3


def test_changes_of_earlier_steps_are_counted():
    """What was decided at earlier steps of a session is in force and counted."""
    text = report_text(Report((), (DROPPED, EDITED), 9, 8, 100, 50))
    assert text.endswith("2 more changes from earlier steps still in force")


def test_one_is_not_many():
    """One message, one change; a prefix that costs nothing again and a list that is whole say no more."""
    stages = (StageReport("TrimRounds", (DROPPED,), 5000, 4880, 0.001),)
    report = Report(stages, (DROPPED, EDITED), 2, 1, 5000, 4880, first_changed=0, seconds=12.3456)
    assert report_text(report, most=1).split("\n") == [
        "2 -> 1 message, 5,000 -> 4,880 tokens, 12345.6 ms",
        "first message that differs: 0",
        "TrimRounds: 5,000 -> 4,880 tokens",
        "  dropped message 2 (assistant, 120 tokens): an old round [original: mem:1]",
        "1 more change from earlier steps still in force",
    ]


@pytest.mark.parametrize(
    ("calls", "said"), [(inf, "never"), (0, "at that call"), (1, "at that call"), (2, "after 2 calls")]
)
def test_a_forecast_says_when_a_cut_has_paid_for_itself(calls, said):
    """At once, after some calls, or never; the call in which it has is one of them."""
    forecast = Forecast(0.05, 0.02, 0.02, 0.01, calls=calls)
    assert str(forecast).endswith(f"pays back {said}")
    assert (calls < inf, False) == (forecast.pays_back(2), forecast.pays_back(-1))


def test_printing_a_report_shows_its_text():
    """``print(view.report)`` reads like the text of the report."""
    report = Report((StageReport("TrimRounds", (DROPPED,), 5000, 4880, 0.001),), (DROPPED,), 9, 8, 5000, 4880)
    assert str(report) == report_text(report)
    assert "Report(" not in f"{report}"


def test_what_a_stage_is_called_or_says_reaches_no_terminal_as_it_is():
    """Names, reasons and notes are shown without what a terminal would obey."""
    bad = Change(2, "tool\x1b[2J", Outcome.DROPPED, "Trim\x9b", "because\u202e", 120, 0, "mem:\x07")
    text = report_text(Report((StageReport("Trim\x9b", (bad,), 50, 48, 0.001, ("note\u2028",)),), (bad,), 9, 8, 50, 48))
    assert not {"\x1b", "\x9b", "\u202e", "\x07", "\u2028"} & set(text)


def test_printing_a_build_shows_each_block():
    """``print(built.report)`` has a line for the request and one for each block, failed builds too."""
    blocks = (
        BlockReport("rules", Tier.SYSTEM, 120, 120, 1, 1, 120),
        BlockReport("found", Tier.RAG, 2300, 0, 4, 0, 0, "dropped", (), ("of four",)),
    )
    report = BuildReport(8000, 7, 127, blocks, 0.0021, ("likes tea",), notes=("look",))
    assert str(report).split("\n") == [
        "127 tokens, 8,000 allowed, 2.1 ms",
        "  rules (system): 120 tokens",
        "  found (rag): 2,300 -> 0 tokens, dropped; of four",
        "  facts kept of what was left out: 1",
        "  look",
    ]
    assert str(BuildReport(10, error="ContextOverflow: too much")).startswith(
        "failed: ContextOverflow: too much; 10 to"
    )
