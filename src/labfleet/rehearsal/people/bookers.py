"""Bookers: who asks for a slot long before it begins, alone or as a class at once.

Some slots are later on the same day: they run, and nobody need ever open their lab. Others are days
ahead, beyond the rehearsal's end: they are extended or given back, and whoever is left gives theirs back
as the day ends. Every draw is from streams of their own, so that all others do what they did.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from labfleet.rehearsal.people.sending import Sender
from labfleet.rehearsal.replicas.fleet_client import FleetClient
from labfleet.rehearsal.time.virtual_host import EPOCH, SeededRng

NINE, DAY, HOUR = 9 * 3600.0, 86400.0, 3600.0
SOONEST = 1.25 * HOUR
"""How long before its slot a booker of the same day asks at least: a worker boots within that."""
CLASS = 8
"""How many of a class ask at once at most."""
TODAY, CLASSES, WAITS = 0.6, 0.4, 0.3
"""Shares: of seeds with a booking for the same day, of bookings by a class, of who would wait."""
TRIES = 5


@dataclass(frozen=True, slots=True)
class Booking:
    """One slot that so many people ask for at once, at a time in seconds.

    `away` tells that it lies beyond the end of the rehearsal.
    """

    at: float
    start: float
    minutes: int
    people: int
    away: bool


@dataclass(slots=True)
class Bookers:
    """The people who book ahead in one namespace; `run` returns when they ask for nothing more."""

    hours: float
    rng: SeededRng
    client: FleetClient
    sender: Sender
    names: list[str] = field(default_factory=list)

    async def run(self) -> None:
        """Let them ask, change their minds, and give back what lies beyond the end."""
        async with asyncio.TaskGroup() as group:
            for number, booking in enumerate(self.bookings()):
                group.create_task(self._book(number, booking))

    def bookings(self) -> list[Booking]:
        """Return what is booked: one slot for each six hours and one more, and perhaps one of today."""
        span, rng = self.hours * HOUR, self.rng
        made = []
        for _ in range(1 + int(self.hours / 6)):
            day = 1 + int(self.hours / 24) + rng.below(20)
            people = 2 + rng.below(CLASS - 1) if rng.chance(CLASSES) else 1
            start = day * DAY + NINE + 900 * rng.below(4)
            made.append(Booking(rng.between(300, span / 2), start, 90, people, away=True))
        if rng.chance(TODAY) and span > 3 * HOUR:
            at = rng.between(300, min(span - 2.5 * HOUR, 4 * HOUR))
            start = rng.between(at + SOONEST, span - HOUR)
            people = 2 + rng.below(3) if rng.chance(CLASSES) else 1
            made.append(Booking(at, start - start % 300, 30, people, away=False))
        return made

    async def _book(self, number: int, booking: Booking) -> None:
        await self._until(booking.at)
        async with asyncio.TaskGroup() as group:
            for person in range(booking.people):
                group.create_task(self._one(f"b{number:02d}-{person}", booking))

    async def _one(self, name: str, booking: Booking) -> None:
        """Play one booker: asks for the slot, and then may want it longer, or not at all."""
        rng = self.rng.stream(name)
        start = EPOCH + timedelta(seconds=booking.start)
        end = start + timedelta(minutes=booking.minutes)
        spec: dict[str, Any] = {
            "definition": "pair",
            "owner": name,
            "slot": {"start": start.isoformat(), "end": end.isoformat(), "zone": "UTC"},
        }
        if rng.chance(WAITS):
            spec["whenFull"] = "wait"
        await self.sender.send(self.client.create("Session", name, spec, f"book-{name}"))
        self.names.append(name)
        intensity, pause = rng.random(), rng.between(60, HOUR)
        if intensity < 0.5:
            await asyncio.sleep(pause)
            if intensity < 0.2:
                await self._give_back(name)
            else:
                longer = timedelta(minutes=5 * (1 + rng.below(6)))
                await self.sender.send(self.client.extend(name, longer, f"longer-{name}"))
        if booking.away:
            await self._until(self.hours * HOUR - rng.between(0, HOUR / 2))
            await self._give_back(name)

    async def _give_back(self, name: str) -> None:
        """Cancel a session; that it is not there, or has ended, is an answer too."""
        for _ in range(TRIES):
            before = self.sender.refused["GaveUp"]
            await self.sender.send(self.client.cancel(name, "not needed"))
            if self.sender.refused["GaveUp"] == before:
                return

    async def _until(self, at: float) -> None:
        await asyncio.sleep(max(0.0, at - asyncio.get_running_loop().time()))
