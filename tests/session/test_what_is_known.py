"""What a session knows of its conversation adds up, whichever way the caller goes."""

from __future__ import annotations

import json
from operator import itemgetter

import pytest
from attrs import asdict
from histories import histories
from hypothesis import given, strategies as st

from agentctx import Budget, ClearToolResults, ContextOverflow, FitContextWindow, Pack, Pipeline, Session
from agentctx.formats.native import unmarked
from agentctx.message import ROLES
from agentctx.session.record import Record, UnsaidSince, call_ids
from agentctx.testing import assistant, transcript, user
from agentctx.tokens import FixedCounter

BUDGET = Budget(20_000, trigger=0.5, target=0.25)
STAGES = st.sampled_from([(ClearToolResults(1), FitContextWindow()), (Pack(keep_last=1, note=True),)])


def add_up(record, natives, around):
    """Assert that what is known of a history and of the view that was made of it is what can be read from them."""
    meter, read = around.reader.meter, around.reader.messages(natives)
    assert list(record.sizes) == list(map(meter.message, read))
    assert list(record.byte_sizes) == list(map(meter.weight, read))
    assert [ROLES[role] for role in record.roles] == [message.role for message in read]
    assert [unmarked(seen) for seen in record.seen] == [unmarked(native) for native in natives]
    assert (record.history_tokens, record.history_bytes) == (sum(record.sizes), sum(record.byte_sizes))
    assert len(record.view) == len(record.out) == len(record.shown) == len(record.origins)
    assert len(record.decided) == len(natives) >= max(record.decided, default=0)
    assert record.otherwise in (None, [at for at in range(len(record.view)) if not record.as_given(at)])
    if record.otherwise is not None and record.origins:
        known, run = [origin or 0 for origin in record.origins], record.run
        assert known[run:] == list(range(known[run], known[run] + len(known) - run))
        assert list(record.before_run(natives)[2:]) == [natives[origin] for origin in known[:run]]
    final = record.view[: record.final]
    assert (record.view_tokens, record.view_bytes) == (sum(map(meter.message, final)), sum(map(meter.weight, final)))
    assert not around.reader.wire.rounds.unique_ids or record.ids == call_ids(final)
    assert {key: id(message) for key, (message, _) in record.made.items()} == {key: key for key in record.made}
    assert record.made.keys() <= set(map(id, record.view))
    assert record.digested() == Record(seen=record.seen, sizes=record.sizes).digested()
    assert all(change.index < len(natives) for change in record.log.changes)


@given(histories(), STAGES, st.sampled_from([60, 400]), st.data())
def test_what_is_known_adds_up(both_loops, history, stages, tokens, data):
    """Sums, lengths, ids, digests and made messages, also where the caller goes back or on from the view."""
    plan = Pipeline(*stages, budget=BUDGET, counter=FixedCounter(tokens))
    size = st.integers(1, len(history.messages))
    walk = data.draw(st.lists(st.tuples(size, st.sampled_from(["history", "view", "load"])), min_size=1, max_size=5))

    async def main():
        session, sent, known = plan.session(format=history.format), [], 0
        for length, way in walk:
            if way == "load":
                session = Session.load(plan, json.loads(json.dumps(session.dump())))
            messages = [*sent, *history.messages[known:length]] if way == "view" else history.messages[:length]
            try:
                view = await session.prepare(messages, history.system, history.tools)
            except ContextOverflow:
                continue
            add_up(session.internals.state.record, messages, session.internals.state.ctx)
            sent, known = view.messages, max(length, known)

    both_loops(main)


@pytest.mark.anyio
async def test_a_copy_shares_nothing_that_changes():
    """What is known can be copied, so that a step that fails leaves no trace: the copy is the same and its own."""
    messages = transcript("openai-chat", user("the task"), *[assistant("words"), user("more")] * 45)
    session = Pipeline(Pack(keep_last=1, note=True), budget=BUDGET, counter=FixedCounter(400)).session()
    await session.prepare(messages)
    record = session.internals.state.record
    record.digested()
    record.items = {}
    copy, again = record.copy(), ("tail", "tail_origin")  # those are another list at every step
    known = asdict(record, recurse=False)
    assert asdict(copy, recurse=False) == known
    known = {name: value for name, value in known.items() if name not in again}
    fixed = int, frozenset, tuple, itemgetter, UnsaidSince, type(None)
    shared = [name for name, value in known.items() if not isinstance(value, fixed) and getattr(copy, name) is value]
    assert shared == []
