"""One worker of a placement index: its sums, its place in the order, and what is free in a window.

A window begins now or at a later instant. What is held from now on only falls, unless a reservation
begins later: so the sum of what has begun is the peak of a window up to the first later beginning,
whenever it ends. Only beyond that is a sweep needed, once for all windows that reach equally far.
"""

from __future__ import annotations

import bisect
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from labfleet.decisions import packed, placement, strategies
from labfleet.decisions.ledger import OVERDUE
from labfleet.decisions.packed import PORTS, TOPS
from labfleet.resources.amounts import Reservation
from labfleet.resources.decision import Verdict
from labfleet.resources.strategy import Strategy

Window = tuple[datetime | None, bool, int]
Order = tuple[strategies.Rank, strategies.Key, str, Verdict]
Booking = tuple[datetime, datetime | None, int, Reservation, int]
FIRST = datetime.min.replace(tzinfo=UTC)
LAST = datetime.max.replace(tzinfo=UTC)
_INSTANT = timedelta(microseconds=1)


class IndexedWorker:
    """A worker whose reservations come and go.

    number: Its place in the lists of an index.
    order: Its pool's rank, key and name, smallest first, and the verdict if it fits; a new tuple
        whenever the key may have changed.
    fill, shares, last_end, placed, licensed, sessions: What a strategy looks at.
    free: What is free now, and until the first of `later`.
    whole: What is free from now on for ever, with the top bits set for comparing (`packed`). The
        same holds for every window that begins now and ends after `last`.
    last: The last of `later`; FIRST when there is none, LAST when the machine is taken away.
    kind: Which other workers are judged alike, whatever is booked; the index gives it.
    later: The instants after now at which reservations begin, sorted.
    turn: When the passing of time next changes what is free in a window; None for never.
    """

    __slots__ = (
        "_at", "_begun", "_bookings", "_candidate", "_ports", "_real", "_room", "_rooms", "_stale",
        "_sum", "_weigh",
        "closes_at", "fill", "free", "kind", "last", "last_end", "later", "licensed", "number",
        "order", "placed", "sessions", "turn", "whole",
    )  # fmt: skip

    def __init__(self, candidate: placement.Candidate, number: int, now: datetime) -> None:
        self.number = number
        self.kind = 0
        self._weigh = strategies.RULES[candidate.strategy].weigh
        self.licensed, self.placed = candidate.licensed, candidate.placed
        self._candidate = candidate
        self._stale = False
        self.sessions = candidate.sessions
        self.closes_at = candidate.closes_at
        self._real: int = 0 if candidate.real is None else packed.pack(candidate.real)
        self._room = self._real | TOPS
        self._ports = packed.ports(candidate.free_ports)
        self._bookings: list[Booking] = [
            (each.start, each.end, packed.pack(each.amounts), each, strategies.seconds(each.end))
            for each in candidate.reservations
        ]
        self.last_end = candidate.last_end
        self._sum = sum(each[2] for each in self._bookings)
        self.fill = candidate.fill
        self._at: dict[tuple[datetime, bool], int] = {}
        self._rooms: dict[Window, int] = {}
        self.refresh(now)

    @property
    def facts(self) -> placement.Candidate:
        """Return the worker as it was put: what no reservation changes holds."""
        return self._candidate

    @property
    def candidate(self) -> placement.Candidate:
        """Return the worker as a scan sees it now."""
        if self._stale:
            held = tuple(each[3] for each in self._bookings)
            self._candidate = replace(
                self._candidate, reservations=held, sessions=self.sessions, placed=self.placed
            )
            self._stale = False
        return self._candidate

    @property
    def shares(self) -> tuple[float, float, float]:
        """Return the booked shares of CPU, memory and storage."""
        cpu, memory = self._sum & packed.FIELD, self._sum >> packed.BITS & packed.FIELD
        storage = self._sum >> 2 * packed.BITS & packed.FIELD
        return strategies.shares_of(cpu, memory, storage, self._candidate.real)

    def book(self, reservation: Reservation, now: datetime) -> None:
        """Take a reservation, and one session more."""
        amounts, end = packed.pack(reservation.amounts), reservation.end
        last = strategies.seconds(end)
        self._bookings.append((reservation.start, end, amounts, reservation, last))
        self._sum += amounts
        self.sessions += 1
        self.last_end = max(last, self.last_end)
        if self._candidate.strategy is Strategy.ROUND_ROBIN:
            self.placed = strategies.placed_again(self.placed, now)
        self._changed(reservation, amounts, now)

    def release(self, reservation: Reservation, now: datetime) -> None:
        """Give back a reservation that is held, and one session."""
        place = self._place(reservation)
        _, _, amounts, _, last = self._bookings.pop(place)
        self._sum -= amounts
        self.sessions -= 1
        if last == self.last_end:
            self.last_end = max([each[4] for each in self._bookings], default=0)
        self._changed(reservation, -amounts, now)

    def _place(self, reservation: Reservation) -> int:
        for place, each in enumerate(self._bookings):
            if each[3] is reservation:
                return place
        return [each[3] for each in self._bookings].index(reservation)

    def _changed(self, reservation: Reservation, amounts: int, now: datetime) -> None:
        self._stale = True
        if reservation.start > now:
            self.refresh(now)
            return
        self._begun += amounts
        end = reservation.end
        for instant in self._at:
            at, overdue = instant
            if overdue or end is None or end > at:
                self._at[instant] += amounts
        self._settle(now)

    def refresh(self, now: datetime) -> None:
        """Work out what depends on which reservations have begun."""
        self._at.clear()
        self.later = sorted({each[0] for each in self._bookings if each[0] > now})
        self._begun = self._sum
        if self.later:
            self._begun = sum(each[2] for each in self._bookings if each[0] <= now)
        # A lab that has begun holds until OVERDUE from now, so a later beginning comes to fall
        # within that time before it comes itself.
        turns = [each - OVERDUE + _INSTANT for each in self.later] + self.later
        self.turn = min((each for each in turns if each > now), default=None)
        self._settle(now)

    def _settle(self, now: datetime) -> None:
        if self._rooms:
            self._rooms.clear()
        real = self._candidate.real
        if real is not None:
            cpu, memory = self._sum & packed.FIELD, self._sum >> packed.BITS & packed.FIELD
            self.fill = strategies.fill_of(cpu, memory, real)
        self.free = self._free(self._begun)
        self.whole = self.free | TOPS
        self.last = FIRST if self.closes_at is None else LAST
        if self.later:
            self.last = max(self.last, self.later[-1])
            self.whole = self.room(None, None, now) | TOPS
        candidate = self._candidate
        key, score = self._weigh(self)
        name = candidate.name
        self.order: Order = (candidate.rank, key, name, placement.fitting(score, name))

    def _free(self, held: int) -> int:
        """Return what is left, with no more ports than are free: `less` and `with_ports` in one."""
        left: int = self._room - held
        free = left ^ TOPS if left & TOPS == TOPS else packed.less(self._real, held)
        if free & PORTS > self._ports:
            return free & ~PORTS | self._ports
        return free

    def room(self, start: datetime | None, end: datetime | None, now: datetime) -> int:
        """Return what is free throughout a window that begins at `start`, None for now.

        `now` has not passed `turn`.
        """
        later = self.later
        reaches = len(later) if end is None else bisect.bisect_left(later, end)
        if start is None and reaches == 0:
            return self.free
        window = (start, start is not None and start < now + OVERDUE, reaches)
        found = self._rooms.get(window)
        if found is None:
            held = self._begun if start is None else self._held(start, now)
            for at in later[:reaches]:
                if start is None or at > start:
                    held = packed.most(held, self._held(at, now))
            found = self._rooms[window] = self._free(held)
        return found

    def _held(self, at: datetime, now: datetime) -> int:
        """Return what is held at a later instant, with ends as `ledger.settled` reads them."""
        overdue = at < now + OVERDUE
        held = self._at.get((at, overdue))
        if held is None:
            held = 0
            for start, end, amounts, *_ in self._bookings:
                if start <= at and (end is None or end > at or (overdue and start <= now)):
                    held += amounts
            self._at[at, overdue] = held
        return held

    def changes_after(self, end: datetime | None) -> datetime | None:
        """Return up to which end a window may be moved with nothing changed; None for any."""
        if end is None:
            return None
        place = bisect.bisect_left(self.later, end)
        limits = self.later[place : place + 1]
        if self.closes_at is not None and self.closes_at >= end:
            limits = [*limits, self.closes_at]
        return min(limits, default=None)
