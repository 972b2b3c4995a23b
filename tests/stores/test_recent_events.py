"""Events that a process has just committed are given without reading them back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_places import commit, put, set_clock

from labfleet.interfaces import store as s
from labfleet.kernel import errors
from labfleet.stores import sqlite
from labfleet.stores.fleet_store import FleetStore
from labfleet.stores.recent_events import RecentEvents
from labfleet.stores.rules import EventRow
from labfleet.stores.runners import Inline


def row(revision: int, size: int = 10) -> EventRow:
    """Return the row of an event."""
    doc = b"x" * size
    return (revision, "Worker", "default", "w", "u", "MODIFIED", doc, 1_000, "a", "r", "Why", 0)


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 6), st.integers(0, 9)), max_size=12
    ),
    asked=st.integers(0, 80),
    limit=st.integers(1, 9),
)
def test_what_is_given_is_what_the_log_has_or_nothing(
    batches: list[tuple[int, int, int]], asked: int, limit: int
) -> None:
    """Whatever others wrote between and however much was dropped: never a gap, never the wrong one."""
    recent, log, last = RecentEvents(length=8, size=60), [0], 0
    for others, ours, size in batches:
        log += range(last + 1, last + 1 + others)
        mine = [row(last + 1 + others + each, size) for each in range(ours)]
        log += [each[0] for each in mine]
        last = log[-1]
        recent.add(mine)
    found = [each.revision for each in recent.after(asked, limit)]
    assert found in ([], [each for each in log if each > asked][: len(found)])
    assert len(found) <= limit


def test_the_newest_stay_within_both_bounds() -> None:
    """A batch's last event is there as long as the next one keeps within the bounds."""
    recent = RecentEvents(length=10, size=1000)
    for first in range(1, 200, 5):
        recent.add([row(each) for each in range(first, first + 5)])
        assert [each.revision for each in recent.after(first + 3, 9)] == [first + 4]
    assert recent.after(1, 9) == ()
    recent.add([row(200, 5000)])
    assert recent.after(199, 9) == ()


@pytest.mark.asyncio
async def test_a_store_gives_its_own_events_as_it_would_read_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same page without a read; another epoch, or what was compacted away, is read as before."""
    database = sqlite.SqliteDatabase(str(tmp_path / "store.db"), epoch="e1", readers=0)
    store = FleetStore(database, Inline(), set_clock(), head=0)
    start = await store.head()
    for number in range(7):
        await store.commit(commit(put(f"w{number}")))
    with monkeypatch.context() as patched:
        patched.setattr(database, "rows", None)
        own = await store.events(start, limit=3)
        assert own is await store.events(start, limit=3)
        rest = await store.events(own.cursor)
    database.commit([commit(put("other"))])  # a later event makes a page longer
    assert len((await store.events(own.cursor)).events) == len(rest.events) + 1
    with pytest.raises(errors.TooOld):
        await store.events(s.Cursor("e2", start.revision))
    await store.compact(set_clock().now(), keep=100)
    assert own == await store.events(start, limit=3)
    assert [each.key.name for each in own.events] == ["w0", "w1", "w2"]
    await store.close()
