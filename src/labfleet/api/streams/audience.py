"""What clients that asked for the same get of the ring, put together once for all of them.

However many clients a principal has, an event is judged and its frame found once for each filter,
and whoever stands at the same index is sent the same bytes.
"""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakValueDictionary

from labfleet.api.streams.moves import Moves
from labfleet.api.streams.ring import Filter, Ring
from labfleet.interfaces import store as stores
from labfleet.service.core.service_context import ServiceContext

BATCH = 256
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
    """

    start: int
    end: int
    first: int
    place: stores.Cursor
    body: bytes
    generation: int
    moves: int


class Audience:
    """All clients of one filter, whose principal is one too: it keeps the newest batch."""

    __slots__ = ("__weakref__", "_kept", "_moves", "_ring", "_services", "_wanted")

    def __init__(self, services: ServiceContext, ring: Ring, moves: Moves, wanted: Filter) -> None:
        self._services = services
        self._ring = ring
        self._moves = moves
        self._wanted = wanted
        self._kept: Batch | None = None

    def batch(self, index: int, after: int) -> Batch:
        """Return what there is from an index on that is newer than a revision.

        The index must be one of the ring's, with an event at it.
        """
        kept = self._kept
        if (
            kept is not None
            and kept.start == index
            and kept.first > after
            and kept.generation == self._ring.generation
            and kept.moves == self._moves.end
        ):
            return kept
        ring, who = self._ring, self._wanted.principal
        entries = ring.since(index, BATCH) or []
        frames = [
            entry.frame(self._services, who)
            for entry in entries
            if entry.event.revision > after and entry.passes(self._wanted)
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
        )
        shared = first > after and (len(frames) < 2 or len(made.body) <= KEPT_BYTES)
        self._kept = made if shared else None
        return made


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
