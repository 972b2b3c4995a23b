"""What clients that asked for the same get of the ring, put together once for all of them.

However many clients a principal has, an event is judged and its frame found once for each filter,
and whoever stands at the same index is sent the same bytes.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, TypeGuard
from weakref import WeakValueDictionary

from labfleet.api.streams.moves import Moves
from labfleet.api.streams.ring import Entry, Filter, Ring
from labfleet.interfaces import store as stores
from labfleet.service.core.service_context import ServiceContext

BATCH = 256
TURN = 1024
"""Events of one turn of a paced client at most; what is more comes right after them."""
KEPT_BYTES = 32 * 1024
"""So many joined bytes are kept for the next client; a single frame is the ring's own anyway."""


class Batch(NamedTuple):
    """Events of the ring as they are sent.

    start: Index of the first event.
    end: Index after the last event.
    first: Revision of the first event.
    place: Position in the log after the last event.
    body: Frames of those events that the audience gets.
    generation: Generation of the ring in which the indices count.
    moves: Index after the newest move; a later one may change what is seen.
    until: Index after the newest event of the ring when it was made.
    """

    start: int
    end: int
    first: int
    place: stores.Cursor
    body: bytes
    generation: int
    moves: int
    until: int


class Audience:
    """All clients of one filter, whose principal is one too: it keeps the newest batch."""

    __slots__ = ("__weakref__", "_kept", "_kept_turn", "_moves", "_ring", "_services", "_wanted")

    def __init__(self, services: ServiceContext, ring: Ring, moves: Moves, wanted: Filter) -> None:
        self._services = services
        self._ring = ring
        self._moves = moves
        self._wanted = wanted
        self._kept: Batch | None = None
        self._kept_turn: Batch | None = None

    def batch(self, index: int, after: int) -> Batch:
        """Return what there is from an index on that is newer than a revision.

        The index must be one of the ring's, with an event at it.
        """
        if self._is_current(self._kept, index, after):
            return self._kept
        made, shared = self._made(index, after, self._ring.since(index, BATCH) or [])
        self._kept = made if shared else None
        return made

    def turn(self, index: int, after: int) -> Batch:
        """Return the same with the newest event of each object alone, of at most TURN events.

        What is left out is older than what is told of the same object, whose id is later: whoever
        goes on from any id of a turn is told the newest of every object again.
        """
        kept = self._kept_turn
        if self._is_current(kept, index, after) and kept.until == self._ring.end:
            return kept
        entries = self._ring.since(index, TURN) or []
        newest = {(entry.event.key, entry.event.uid): entry for entry in entries}
        told = {entry.event.revision for entry in newest.values()}
        made, shared = self._made(index, after, entries, told)
        self._kept_turn = made if shared else None
        return made

    def _is_current(self, kept: Batch | None, index: int, after: int) -> TypeGuard[Batch]:
        """Tell whether what is kept is what a client gets from an index on."""
        return (
            kept is not None
            and kept.start == index
            and kept.first > after
            and kept.generation == self._ring.generation
            and kept.moves == self._moves.end
        )

    def _made(
        self, index: int, after: int, entries: list[Entry], told: Collection[int] | None = None
    ) -> tuple[Batch, bool]:
        """Return a batch of entries, of those revisions alone, and whether it may be kept."""
        ring, who = self._ring, self._wanted.principal
        frames = [
            entry.frame(self._services, who)
            for entry in entries
            if entry.event.revision > after
            and (told is None or entry.event.revision in told)
            and entry.passes(self._wanted)
        ]
        first, last = entries[0].event.revision, entries[-1].event.revision
        place = stores.Cursor(ring.head.epoch, max(last, after))
        made = Batch(
            start=index,
            end=index + len(entries),
            first=first,
            place=place,
            body=b"".join(frames),
            generation=ring.generation,
            moves=self._moves.end,
            until=ring.end,
        )
        return made, first > after and (len(frames) < 2 or len(made.body) <= KEPT_BYTES)


class Audiences:
    """The audiences that have a client."""

    def __init__(self, services: ServiceContext, ring: Ring, moves: Moves) -> None:
        self._services = services
        self._ring = ring
        self._moves = moves
        self._present: WeakValueDictionary[Filter, Audience] = WeakValueDictionary()

    def of(self, wanted: Filter) -> Audience:
        """Return the audience of a filter, which all clients of it share."""
        found = self._present.get(wanted)
        if found is None:
            found = Audience(self._services, self._ring, self._moves, wanted)
            self._present[wanted] = found
        return found
