"""What a recap counts is what is gone: at once, in a session, with views written back, after loads and going back."""

import json
from functools import partial

import pytest
from histories import FORMATS
from hypothesis import given, strategies as st

from agentctx import Budget, ClearToolResults, FitContextWindow, Ledger, Pipeline, Session, TrimRounds
from agentctx.marks import Recap, recap_of
from agentctx.strategies import Drop, Summarize, TruncateOldest
from agentctx.testing import assistant, call, fixed_summarizer, result, transcript, user

pytestmark = pytest.mark.both_loops


class Moody:
    """A summarizer that has nothing to say at every second call."""

    def __init__(self):
        self.asked = 0

    async def __call__(self, messages, _most):
        self.asked += 1
        return "" if self.asked % 2 else f"{len(messages)} messages"


async def without_every_third(context, call):
    """A stage of one's own that leaves out answers, whatever they say."""
    stays, groups = call.protected(context), enumerate(context.messages)
    bare = (place for place, each in groups if each.role == "assistant" and not each.calls and place not in stays)
    gone = set(list(bare)[::3])
    return context.with_messages(tuple(each for place, each in enumerate(context.messages) if place not in gone))


STAGES = {
    "nothing is said": lambda: (Summarize(),),
    "nothing is said, and all goes": lambda: (Summarize(fallback=Drop()),),
    "now and then": lambda: (Summarize(Moody(), fallback=TruncateOldest()),),
    "now and then, by a window": lambda: (Summarize(Moody(), fallback=FitContextWindow()),),
    "always": lambda: (Summarize(fixed_summarizer("short")),),
    "behind another cut": lambda: (TrimRounds(3), Summarize(fixed_summarizer("short"))),
    "before another cut": lambda: (Summarize(fixed_summarizer("short")), TrimRounds(2)),
    "results cleared": lambda: (ClearToolResults(keep_last=1), Summarize(Moody())),
    "told": lambda: (FitContextWindow(), Ledger()),
    "summed up and told": lambda: (Summarize(Moody()), FitContextWindow(), Ledger()),
    "one's own stage": lambda: (without_every_third, Summarize(fixed_summarizer("short"))),
}


@st.composite
def turns(draw):
    """Rounds of which some have nothing to be said of, with words of the user between them."""
    told = [user("the task")]
    for place in range(draw(st.integers(4, 14))):
        calls = draw(st.integers(0, 2))
        names = [f"c{place}_{number}" for number in range(calls)]
        said = "so " * draw(st.sampled_from([0, 1, 60] if calls else [1, 60]))
        told += [assistant(*filter(None, [said]), *(call(name, "ls", {}) for name in names))]
        told += [result(name, "line " * draw(st.sampled_from([1, 60, 200]))) for name in names]
        if not calls or draw(st.booleans()):
            told += [user(f"Always keep rule {place}." if draw(st.booleans()) else f"word{place} " * 12)]
    return [*told, user("and now?")]


ALONE = {"TrimRounds", "without_every_third", "RepairHistory"}
"""Stages that tell nobody, where none that does has run since."""


def standing(view):
    """The recap of a view; None where there is none."""
    [recap] = [recap for recap in map(recap_of, view.context.messages) if recap] or [None]
    return recap


class Told:
    """A list that is passed in: what of the whole history each of its messages is, or stands for."""

    def __init__(self):
        self.messages, self.of = [], []
        self.all = set()  # what of the history was passed in, and not taken back
        self.recaps = set()  # at which indexes recaps stand that were written back
        self.lost = set()  # what repair took for good, since it was illegal
        self.uncounted = []  # what was gone from views that were written back without a recap, and before which message
        self.gave_way = False  # for want of room there was none

    def more(self, whole, number):
        """Pass in so many more messages."""
        begin = max(self.all, default=-1) + 1
        new = range(begin, min(len(whole), begin + number))
        self.messages, self.all = [*self.messages, *(whole[place] for place in new)], self.all.union(new)
        self.of += [{place} for place in new]

    def back(self, number):
        """Pass in so many messages less, as far as none of them is a recap."""
        stop = max(1, len(self.messages) - number, *(place + 1 for place in self.recaps))
        self.all = self.all.difference(*self.of[stop:])
        del self.of[stop:], self.messages[stop:]
        self.all = self.all.difference(*(gone for at, gone in self.uncounted if at >= stop))
        self.uncounted = [each for each in self.uncounted if each[0] < stop]

    def shown(self, view):
        """What of the whole history is in a view."""
        there = [origin for origin in view.origins if origin is not None and origin not in self.recaps]
        return {place for origin in there for place in self.of[origin]}

    def gone(self, view):
        """What of it was left out; what repair took was none of it."""
        lines = [each for each in view.report.in_force if each.is_gone and each.stage == "RepairHistory"]
        repaired = {place for each in lines for place in self.of[each.index]}
        return self.all - self.shown(view) - repaired - self.lost

    def written_back(self, view):
        """Pass in the view from now on."""
        gone = self.gone(view)
        self.lost = self.all - self.shown(view) - gone
        places = [*self.uncounted, *((at, of & gone) for at, of in enumerate(self.of))]
        behind = [(_behind(view, at), of) for at, of in places if of]
        self.uncounted = [] if standing(view) else behind
        known = [None if origin is None else self.of[origin] for origin in view.origins]
        for place, message in enumerate(view.context.messages):
            if known[place] is None:  # what repair has put in is the caller's now
                known[place] = gone if recap_of(message) else {min(self.all) - 1}
                self.all |= known[place]
        self.of = known
        self.messages = list(view.messages)
        self.recaps = {place for place, message in enumerate(view.context.messages) if recap_of(message)}


def _behind(view, at):
    """The first place of a view at which something stands that was passed in at an index or behind it."""
    there = (place for place, origin in enumerate(view.origins) if origin is not None and origin >= at)
    return next(there, len(view.messages))


def holds(view, told, whole_calls, *, at_once):
    """The recap, the report and what is there agree; at once nothing is known of what earlier views left out."""
    lines = [change for change in view.report.in_force if change.is_gone]
    assert sorted(change.index for change in lines) == sorted({*range(len(told.messages))} - {*view.origins})
    gone = told.gone(view).difference(*(gone for _, gone in told.uncounted if at_once))
    recap = standing(view)
    reasons = [change.reason for stage in view.report.stages for change in stage.changes]
    reasons += [note for stage in view.report.stages for note in stage.notes]
    said = " ".join(reasons)
    told.gave_way = told.gave_way or "the recap last" in said or "no room for the recap" in said
    if recap is not None:
        calls = sum(whole_calls[place] for place in gone if place >= 0)
        assert (recap.messages, recap.calls) == (len(gone), calls), (recap, len(gone), calls)
        assert recap != Recap()
    elif not told.gave_way:
        assert {change.stage for change in lines} <= ALONE, {(change.stage, change.reason) for change in lines}


async def walked(stages, format_name, history, window, acts):
    """Take the steps, and look at each."""
    whole = transcript(format_name, *history)
    reader = await Pipeline().prepare(whole, format=format_name)
    assert not reader.report.changes
    calls = [len(message.calls) for message in reader.context.messages]
    pipeline, told = Pipeline(*stages(), budget=Budget(window, trigger=0.9, target=0.6)), Told()
    session = pipeline.session(format=format_name)
    for act, number in acts:
        told.back(number) if act == "back" and told.messages else told.more(whole, number)
        if act == "load":
            session = Session.load(pipeline, json.loads(json.dumps(session.dump())))
        prepare = partial(pipeline.prepare, format=format_name) if act == "at once" else session.prepare
        view = await prepare(told.messages)
        holds(view, told, calls, at_once=act == "at once")
        if act == "written back":
            told.written_back(view)


ACTS = st.tuples(st.sampled_from(["grow", "grow", "written back", "load", "back", "at once"]), st.integers(1, 6))


@pytest.mark.parametrize("stages", STAGES.values(), ids=STAGES)
@given(turns(), st.lists(ACTS, min_size=4, max_size=14), st.integers(350, 900), st.sampled_from(FORMATS))
def test_nothing_is_lost_silently(both_loops, stages, history, acts, window, format_name):
    """Whenever something is gone, one recap stands there, which counts exactly that, with its tool calls."""
    both_loops(walked, stages, format_name, history, window, acts)
