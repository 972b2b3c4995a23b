"""Latest states: whoever applies the frames has the rows, however slow, in bounded memory."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labfleet.api.streams import latest_state
from labfleet.api.streams.latest_state import NOTHING, LatestState, Row, View
from labfleet.api.streams.ring import Filter
from labfleet.resources.meta import Key, Record
from labfleet.service.core.access import Principal, Role

ALL = Filter(Principal("t", Role.ADMIN, "ada"))
SOME = Filter(Principal("t", Role.ADMIN, "ada"), names=frozenset({"n0", "n1", "n2"}))


class Told(Record, frozen=True, kw_only=True):
    """A row that says one number."""

    name: str
    value: int = 0


def row(number: int, value: int) -> Row:
    """Return a row of the server's own."""
    name = f"n{number}"
    return Row(Key("server", "default", name), None, Told(name=name, value=value), Told(name=name))


class Reader:
    """A client that keeps what it is told."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.version = NOTHING
        self.rows: dict[str, int] = {}
        self.frames: list[Any] = []

    def read(self) -> None:
        """Take in what there is, as a client does."""
        if not self.view.behind(self.version):
            return
        self.version, frames = self.view.frames(self.version)
        for frame in frames:
            data = json.loads(frame.split(b"data: ", 1)[1])
            self.frames.append(data)
            if data["whole"] and data["first"]:
                self.rows.clear()
            for each in data["gone"]:
                self.rows.pop(each["name"], None)
            self.rows |= {each["name"]: each["value"] for each in data["items"]}


CHANGES = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 3) | st.none(), st.booleans(), st.booleans()),
    max_size=60,
)


@settings(max_examples=60, deadline=None)
@given(CHANGES)
def test_every_reader_ends_with_the_rows_it_may_see(
    changes: list[tuple[int, int | None, bool, bool]],
) -> None:
    """Any puts, drops and pauses between reads: a fast and a slow reader have the same at the end."""
    latest_state.GONE = 3  # small, so that a reader can be too late
    try:
        state = LatestState("samples")
        views = [View(state, ALL), View(state, SOME)]
        readers = [Reader(view) for view in views for _ in range(2)]
        held: dict[str, int] = {}
        for number, value, step, slow in changes:
            if value is None:
                state.drop((Key("server", "default", f"n{number}"), ""))
                held.pop(f"n{number}", None)
            else:
                state.put(row(number, value))
                held[f"n{number}"] = value
            if step:
                state.ready = True
                for view in views:
                    view.step()
                for reader in readers[:: 1 if slow else 2]:
                    reader.read()
        state.ready = True
        for view in views:
            view.step()
        for reader in readers:
            reader.read()
            seen = reader.view.wanted.names
            assert reader.rows == {k: v for k, v in held.items() if not seen or k in seen}
    finally:
        latest_state.GONE = 1024


def test_a_slow_reader_gets_one_frame_of_what_changed_however_often() -> None:
    """A thousand changes of a row wait as one number, and come as that row once."""
    state = LatestState("samples")
    view = View(state, ALL)
    reader = Reader(view)
    for number in range(3):
        state.put(row(number, 0))
    state.ready = True
    view.step()
    reader.read()
    for value in range(1, 1001):
        state.put(row(1, value))
        view.step()
    reader.read()
    assert [each["items"] for each in reader.frames[1:]] == [[{"name": "n1", "value": 1000}]]


def test_a_reader_that_missed_too_much_gets_everything_anew() -> None:
    """Only so many gone rows are remembered; who has not heard of an earlier one starts again."""
    state = LatestState("samples")
    view = View(state, ALL)
    reader = Reader(view)
    state.put(row(0, 7))
    state.ready = True
    view.step()
    reader.read()
    for number in range(1, latest_state.GONE + 3):
        state.put(row(number, 0))
        state.drop((Key("server", "default", f"n{number}"), ""))
        view.step()
    reader.read()
    assert (reader.frames[-1]["whole"], reader.rows) == (True, {"n0": 7})


def test_a_large_state_comes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """No frame has more than so many rows; `first` and `last` tell where the state begins and ends."""
    monkeypatch.setattr(latest_state, "PART", 2)
    state = LatestState("samples")
    view = View(state, ALL)
    reader = Reader(view)
    for number in range(5):
        state.put(row(number, 0))
    state.ready = True
    view.step()
    reader.read()
    assert [(each["first"], each["last"], len(each["items"])) for each in reader.frames] == [
        (True, False, 2), (False, False, 2), (False, True, 1),
    ]  # fmt: skip


def test_what_is_left_out_or_unknown_is_said_and_taken_back() -> None:
    """A change of that alone is a frame without rows."""
    state = LatestState("samples")
    view = View(state, ALL)
    reader = Reader(view)
    state.ready = True
    view.step()
    reader.read()
    for left_out, unknown in ((3, ""), (3, "the store is down"), (0, "")):
        state.say(left_out=left_out, unknown=unknown)
        view.step()
        reader.read()
        last = reader.frames[-1]
        assert (last["leftOut"], last["unknown"], last["items"]) == (left_out, unknown, [])


def test_nobody_is_woken_for_what_they_do_not_see() -> None:
    """A change outside a view's filter costs its clients nothing, and leaves them up to date."""
    state = LatestState("samples")
    view, woken = View(state, SOME), list[int]()
    view.wakes.add(lambda: woken.append(1))
    state.ready = True
    view.step()
    version, _ = view.frames(NOTHING)
    for value in range(10):
        state.put(row(6, value))
        view.step()
    assert (woken, view.behind(version)) == ([1], False)
    state.put(row(0, 1))
    view.step()
    assert (woken, view.behind(version)) == ([1, 1], True)
