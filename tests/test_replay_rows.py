"""A replay as rows, a summary and JSON values."""

import json

from agentctx import Change, ContextOverflow, Outcome
from agentctx.formats import Violation
from agentctx.replay import Step, faults, left_out, step_json, step_note, summarise, summary_rows, verdict

CUT = Change(3, "tool", Outcome.EDITED, "TruncateToolOutputs", "", 900, 100)
GONE = Change(1, "assistant", Outcome.DROPPED, "FitContextWindow", "", 50, 0)
PUT = Change(2, "tool", Outcome.ADDED, "RepairHistory", "", 0, 7)
REFUSED = Violation("rule", "error", 0, "messages[0]", "no")
WARNED = Violation("rule", "warn", 0, "messages[0]", "perhaps")

FIRST = Step(1, 2, 0, 2, 2, 1000, 1000, limit=2000)
SECOND = Step(2, 4, 2, 4, 4, 1900, 1100, prefix_tokens=1000, limit=2000, changes=(CUT,), violations=(WARNED,))
THIRD = Step(3, 6, 4, 6, 5, 2500, 500, prefix_tokens=400, limit=2000, changes=(GONE, PUT), violations=(REFUSED,))
FOURTH = Step(4, 8, 6, 8, tokens_given=9000, limit=2000, overflow=ContextOverflow(3000, 2000))
STEPS = (FIRST, SECOND, THIRD, FOURTH)


def test_what_is_left_out_is_told_by_stage():
    """Counts and tokens are told for each stage, in the order in which the stages acted."""
    assert [str(item) for item in left_out((CUT, GONE, PUT, CUT))] == [
        "TruncateToolOutputs 2 edited -1,600",
        "FitContextWindow 1 dropped -50",
        "RepairHistory 1 added +7",
    ]


def test_a_cut_on_arrival_is_no_compaction():
    """Editing a message that is new is not a compaction; leaving out a message is."""
    assert [step.compacted for step in STEPS] == [False, False, True, False]


def test_editing_what_an_earlier_call_saw_is_a_compaction():
    """A change to a message that an earlier call had seen breaks the prefix: a compaction."""
    assert Step(2, 6, 4, 6, 6, 10, 10, changes=(CUT,)).compacted


def test_a_summary_adds_up_the_steps():
    """Totals, peaks and verdicts are those of the steps; a warning does not make a request invalid."""
    summary = summarise(STEPS)
    assert (summary.steps, summary.compactions, summary.overflowed) == (4, 1, 1)
    assert (summary.tokens_given, summary.tokens_sent, summary.prefix_tokens) == (14_400, 2600, 1400)
    assert (summary.peak_given, summary.peak_sent) == (9000, 1100)
    assert verdict(summary) == "valid 2/4, within budget 3/4"
    assert not summary.clean
    assert summarise((FIRST, SECOND)).clean


def test_a_request_larger_than_the_limit_is_not_within_budget():
    """The limit is held against what was sent."""
    assert not Step(1, 1, 0, 1, 1, 10, 11, limit=10).fits
    assert Step(1, 1, 0, 1, 1, 10, 10, limit=10).fits
    assert Step(1, 1, 0, 1, 1, 10, 10**9).fits


def test_a_step_says_why_nothing_was_sent():
    """An overflow is told with its numbers."""
    assert step_note(FOURTH).startswith("nothing sent: the request needs 3,000 tokens and 2,000 are available")
    assert step_note(FIRST) == ""


def test_the_share_of_the_prefix_is_of_what_was_sent():
    """The share is 0 when nothing was sent."""
    assert [step.prefix_share for step in STEPS] == [0.0, 1000 / 1100, 0.8, 0.0]


def test_a_rule_that_is_broken_again_and_again_is_one_fault():
    """Each rule and severity is told once, with the first call and how often."""
    assert [str(fault) for fault in faults((SECOND, THIRD, THIRD))] == [
        "call 2: warn: messages[0]: [rule] perhaps",
        "call 3, 2 in all: error: messages[0]: [rule] no",
    ]


def test_a_summary_of_nothing_can_be_shown():
    """A recording without a model call is summed up without dividing by nothing."""
    rows = dict(summary_rows(summarise(())))
    assert rows["model calls"] == "0, 0 compacted (▼)"


def test_a_step_is_plain_json():
    """Every step can be written as JSON and says the same."""
    told = [json.loads(json.dumps(step_json(step))) for step in STEPS]
    assert [step["tokens_sent"] for step in told] == [1000, 1100, 500, 0]
    assert told[2]["violations"][0]["rule"] == "rule"
    assert told[2]["left_out"][0] == {"stage": "FitContextWindow", "edited": 0, "dropped": 1, "added": 0, "tokens": 50}
    assert "3,000" in told[3]["overflow"]
