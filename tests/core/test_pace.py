"""Long work in a thread gives way, and nothing else does."""

from __future__ import annotations

import threading

from agentctx.core import pace
from agentctx.core.pace import breathe, giving_way, paced


def test_items_are_themselves_in_a_thread_that_need_not_give_way():
    """Nothing stands between a loop on the event loop's thread and its items."""
    items = [1, 2, 3]
    assert paced(items) is items


def test_items_come_in_order_in_a_thread_that_gives_way():
    """All items come, once each and in order; afterwards the thread does not give way any more."""
    with giving_way():
        assert list(paced(range(1_000))) == list(range(1_000))
    items = [1]
    assert paced(items) is items


def test_a_long_loop_pauses_each_time_it_has_computed_for_long(monkeypatch):
    """It pauses at the first look at the clock after so long, and not before, where others are at work all the time."""
    now, pauses = [0.0], []
    monkeypatch.setattr(pace, "_computed_by_others", lambda: now[0])
    monkeypatch.setattr(pace, "perf_counter", lambda: now[0])
    monkeypatch.setattr(pace, "sleep", pauses.append)
    with giving_way():
        now[0] += pace.AT_MOST
        breathe()
        assert pauses == []
        now[0] += pace.AT_MOST / 2
        breathe()
        breathe()
        assert pauses == [pace.PAUSE]
        for _ in paced(range(pace.EVERY * 3)):
            now[0] += pace.AT_MOST * 1.5 / pace.EVERY
    assert pauses == [pace.PAUSE] * 3


def test_each_thread_gives_way_for_itself():
    """What one thread is told does not hold for another."""
    items, seen = [1], []
    with giving_way():
        other = threading.Thread(target=lambda: seen.append(paced(items) is items))
        other.start()
        other.join()
    assert seen == [True]


def test_work_of_its_own_that_goes_ahead_holds_no_thread_up(monkeypatch):
    """A stage in a worker may have an event loop of its own, whose short work goes ahead: of all others."""
    pauses = []
    monkeypatch.setattr(pace, "sleep", pauses.append)
    with giving_way():
        pace.AHEAD.add(threading.get_ident())
        try:
            breathe()
            assert pauses == []
            pace.AHEAD.add(-1)
            monkeypatch.setattr(pace, "LONGEST_PAUSE", 0.0)
            breathe()
            assert pauses == [pace.PAUSE]
        finally:
            pace.AHEAD.difference_update((threading.get_ident(), -1))
