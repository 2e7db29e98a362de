"""A report as plain text."""

from agentctx.core.compare import Change, Outcome
from agentctx.core.forecast import Forecast
from agentctx.core.report import Report, StageReport
from agentctx.show.report import change_text, report_text

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
    report = Report(stages, (DROPPED,), 9, 8, 5000, 4880, first_changed=2, bill=lambda: forecast)
    assert report_text(report).split("\n")[2] == (
        "cost: next call $0.0500 with the cut, $0.0200 without; later $0.0100 instead of $0.0200: "
        "pays back after 4 calls"
    )
    assert str(Forecast(0.05, 0.02, 0.02, 0.01, calls=1)).endswith("pays back at that call")
    assert "cost" not in report_text(Report((), (), 1, 1, 10, 10, bill=lambda: forecast))


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
