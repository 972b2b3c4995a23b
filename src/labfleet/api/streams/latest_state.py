"""Latest-state frames: the present rows of one kind, then changes only, shared by all who see alike.

A client is a number: the version of the state that it has. Nothing is queued for it; who is slow
gets what changed meanwhile in one frame, and who is too slow the whole state again. A row is
encoded once, when it changes, and a frame is put together once for all clients of one view.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import msgspec

from labfleet.api.streams.ring import Filter, frame
from labfleet.resources.meta import Key, Record, Resource
from labfleet.resources.worker import Worker
from labfleet.service.core import access
from labfleet.service.core.kind_table import TABLE

NOTHING = -1
"""The version of a client that has nothing yet."""
GONE = 1024
"""So many rows that are gone are remembered; who has not heard of an earlier one gets all anew."""
PART = 200
"""Rows of one frame."""
KEPT_BYTES, KEPT_MOST = 32 * 1024, 2**20
"""So many bytes of frames are kept for each client of a view, and at most for all of them."""
_WORKERS = Worker.__name__
_NOBODYS = ("",)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a state.

    `key` names the object that it is about, `obj` is that object where there is one; `part` tells
    apart several rows of one object; `told` is what clients get, `named` what they get of it once
    it is gone. `narrowed` tells whether the filter's kinds narrow it.
    """

    key: Key
    obj: Resource | None
    told: Record
    named: Record
    part: str = ""
    narrowed: bool = True

    def passes(self, wanted: Filter) -> bool:
        """Tell whether a client gets it: what may not be read is told to nobody in any form."""
        who, obj = wanted.principal, self.obj
        # Of the server itself, or of what has no record, knows whoever may read workers.
        return (
            (access.may(who, "read", _WORKERS) if obj is None else access.sees(who, obj))
            and (not self.narrowed or not wanted.kinds or self.key.kind in wanted.kinds)
            and (wanted.namespace is None or self.key.namespace == wanted.namespace)
            and (not wanted.names or self.key.name in wanted.names)
        )


@dataclass(frozen=True, slots=True)
class _Kept:
    version: int
    row: Row
    body: bytes


Name = tuple[Key, str]


class LatestState:
    """The rows of one kind of frame, each with the version at which it last changed."""

    def __init__(self, event: str) -> None:
        self.event = event
        self.version = 0
        self.floor = 0
        """A client that has an older version may have missed that a row is gone."""
        self.ready = False
        """Whether it was filled once: before that nothing is known, which is not the same as none."""
        self.left_out = 0
        self.unknown = ""
        self.said_at = 0
        self._rows: dict[Name, _Kept] = {}
        # The same rows by whose they are, for readers who see only their own; "" is nobody's.
        self._owned: dict[str, dict[Name, _Kept]] = {}
        self._gone: deque[_Kept] = deque()

    def names(self) -> tuple[Name, ...]:
        """Return the name of each row."""
        return tuple(self._rows)

    def put(self, row: Row) -> None:
        """Take in a row; one that says the same as before and is seen by the same changes nothing."""
        name = (row.key, row.part)
        old, body = self._rows.get(name), msgspec.json.encode(row.told)
        moved = old is not None and _owners(old.row) != _owners(row)
        if old is not None and old.body == body and not moved:
            if old.row.obj is not row.obj:  # the newest object, which is seen by the same
                self._keep(name, _Kept(old.version, row, old.body))
            return
        if old is not None and moved:
            self._bury(old)
        self.version += 1
        if old is not None:  # the newest rows stand last
            self._lose(name, old)
        self._keep(name, _Kept(self.version, row, body))

    def see(self, name: Name, obj: Resource) -> None:
        """Take in the newest object of a row, which may be somebody else's now."""
        old = self._rows.get(name)
        if old is not None:
            self.put(dataclasses.replace(old.row, obj=obj))

    def drop(self, name: Name) -> None:
        """Take out a row; no error for one that is not there."""
        old = self._rows.get(name)
        if old is not None:
            self._lose(name, old)
            self._bury(old)

    def replace(self, rows: Iterable[Row], among: Callable[[Name], bool]) -> None:
        """Take in these rows, and take out all others of those that `among` is true of."""
        here = set()
        for row in rows:
            here.add((row.key, row.part))
            self.put(row)
        for name in self.names():
            if name not in here and among(name):
                self.drop(name)

    def say(self, *, left_out: int, unknown: str) -> None:
        """Say how many rows are left out, and what is not known."""
        if (left_out, unknown) != (self.left_out, self.unknown):
            self.left_out, self.unknown = left_out, unknown
            self.version += 1
            self.said_at = self.version

    def _keep(self, name: Name, kept: _Kept) -> None:
        self._rows[name] = kept
        for owner in _owners(kept.row) or _NOBODYS:
            self._owned.setdefault(owner, {})[name] = kept

    def _lose(self, name: Name, old: _Kept) -> None:
        del self._rows[name]
        for owner in _owners(old.row) or _NOBODYS:
            shelf = self._owned[owner]
            del shelf[name]
            if not shelf:
                del self._owned[owner]

    def _shelves(self, wanted: Filter) -> Iterable[dict[Name, _Kept]]:
        """Return the rows among which are all that a client gets: not those of everybody else."""
        who = wanted.principal
        if not any(who.role in rules.owned for rules in TABLE.values()):
            return (self._rows,)
        return (self._owned.get(who.name, {}), self._owned.get("", {}))

    def _bury(self, old: _Kept) -> None:
        self.version += 1
        self._gone.append(_Kept(self.version, old.row, msgspec.json.encode(old.row.named)))
        if len(self._gone) > GONE:
            self.floor = self._gone.popleft().version

    def since(self, version: int, wanted: Filter) -> tuple[list[bytes], list[bytes]]:
        """Return the rows that changed after a version, and those that are gone since."""
        changed = list[bytes]()
        for shelf in self._shelves(wanted):
            for kept in reversed(shelf.values()):
                if kept.version <= version:
                    break
                if kept.row.passes(wanted):
                    changed.append(kept.body)
        gone = list[bytes]()
        for kept in reversed(self._gone):
            if kept.version <= version:
                break
            if kept.row.passes(wanted):
                gone.append(kept.body)
        return changed[::-1], gone[::-1]

    def all(self, wanted: Filter) -> list[bytes]:
        """Return every row that a client gets."""
        shelves = self._shelves(wanted)
        return [
            kept.body for shelf in shelves for kept in shelf.values() if kept.row.passes(wanted)
        ]


class View:
    """All clients that see the same of one state; `wakes` are those that wait.

    Who has a version from `_news` to `_seen` has all that is to be seen here at `_seen`.
    """

    __slots__ = ("_all", "_kept", "_news", "_seen", "_told_ready", "state", "wakes", "wanted")

    def __init__(self, state: LatestState, wanted: Filter) -> None:
        self.state = state
        self.wanted = wanted
        self.wakes: set[Callable[[], None]] = set()
        self._news = self._seen = state.version
        self._told_ready = state.ready
        self._kept: tuple[int, list[bytes]] | None = None
        self._all: list[bytes] | None = None

    def behind(self, version: int) -> bool:
        """Tell whether there is something for a client of this version; asked by each, so cheap."""
        return version < self._news and self.state.ready

    def step(self) -> None:
        """Look once for all clients at what has changed, and wake them if any of it is for them."""
        state, seen, frames = self.state, self._seen, list[bytes]()
        if state.version != seen:
            frames = self._changes(seen)
            self._seen, self._all = state.version, None
        if frames:
            small = sum(map(len, frames)) <= min(KEPT_MOST, KEPT_BYTES * len(self.wakes))
            self._kept = (self._news, frames) if small else None
            self._news = state.version
        begins, self._told_ready = state.ready and not self._told_ready, state.ready
        if frames or begins:
            for wake in tuple(self.wakes):
                wake()

    def frames(self, version: int) -> tuple[int, Iterable[bytes]]:
        """Return what a client of this version is sent, and the version that it has then."""
        kept = self._kept
        if len(self.wakes) < 2:
            self._kept = None  # nobody else comes for it
        if version == NOTHING:
            return self._seen, self._whole()
        if kept is not None and kept[0] <= version:
            return self._seen, kept[1]
        return self._seen, self._changes(version)

    def _changes(self, version: int) -> list[bytes]:
        """Return the frames of what changed after a version; the whole state where that is too old."""
        state = self.state
        if version < state.floor:
            return list(self._whole())
        items, gone = state.since(version, self.wanted)
        if not items and not gone and state.said_at <= version:
            return []
        return list(self._parts(items, gone, whole=False))

    def _whole(self) -> Iterator[bytes]:
        rows = self.state.all(self.wanted) if self._all is None else self._all
        self._all = rows if len(self.wakes) > 1 else None
        return self._parts(rows, [], whole=True)

    def _parts(self, items: list[bytes], gone: list[bytes], *, whole: bool) -> Iterator[bytes]:
        count = max(1, -(-max(len(items), len(gone)) // PART))
        for number in range(count):
            here = slice(number * PART, (number + 1) * PART)
            said = {
                "whole": whole,
                "first": number == 0,
                "last": number == count - 1,
                "gone": [msgspec.Raw(each) for each in gone[here]],
                "items": [msgspec.Raw(each) for each in items[here]],
                "leftOut": self.state.left_out,
                "unknown": self.state.unknown,
            }
            yield frame(self.state.event, msgspec.json.encode(said))


def _owners(row: Row) -> frozenset[str]:
    return frozenset() if row.obj is None else access.owners(row.obj)
