"""The life of a session in steps: when each began, how long it lasted, and what is ahead. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from labfleet.interfaces import store as stores
from labfleet.resources.session import TERMINAL, Session, SessionPhase
from labfleet.service.reads import history
from labfleet.web import seat_words, values
from labfleet.web.values import Cell

S = SessionPhase
_MARKS = {"done": "✓", "now": "◔", "ahead": "○", "left out": "·"}
_ENDING = (S.COLLECTING, S.STOPPING)


@dataclass(frozen=True, slots=True)
class Step:
    """One step: `stands` is done, now, ahead or left out; `at` is when it began or is to begin.

    `lasted` says how long it took, or has taken so far; "" when that is not known.
    """

    title: str
    stands: str
    at: Cell | None
    lasted: str = ""
    note: str = ""

    @property
    def mark(self) -> str:
        """Return the shape of where it stands."""
        return _MARKS[self.stands]


def entered(events: Iterable[stores.Event], uid: str) -> dict[str, datetime]:
    """Return when a session entered each phase last, of its events, oldest first.

    Phases after one that it fell back to are forgotten: they are of an earlier place.
    """
    found, last = dict[str, datetime](), None
    for event in events:
        if event.uid != uid:
            continue
        try:
            phase = history.read(event).status.phase
        except ValueError:
            # Written by another version in a form unknown here.
            continue
        if phase is None or phase == last:
            continue
        if phase in found:
            kept = list(found)[: list(found).index(phase)]
            found = {each: found[each] for each in kept}
        found[phase] = event.at
        last = phase
    return found


def of(
    session: Session, phases: Mapping[str, datetime], looked_for: datetime | None, now: datetime
) -> tuple[Step, ...]:
    """Return the steps of a session; `looked_for` is from when on a worker is looked for it."""
    begun = list(_begins(session, phases, looked_for, now))
    over = session.status.phase in TERMINAL
    current = max(
        (n for n, (_, at, _) in enumerate(begun) if at is not None and at <= now), default=0
    )
    return tuple(_step(begun, number, current, over=over, now=now) for number in range(len(begun)))


def _begins(
    session: Session, phases: Mapping[str, datetime], looked_for: datetime | None, now: datetime
) -> Iterator[tuple[str, datetime | None, str]]:
    """Yield each step with when it began, or is to begin, and a note."""
    status, slot = session.status, session.spec.slot
    created = session.metadata.creation_timestamp
    promised = "" if status.claim is None else f"a place in pool {status.claim.pool} is promised"
    yield "Booked", created, promised
    waits = created if slot.start is None else looked_for
    placed = status.scheduled_at
    if waits is not None and placed is not None:
        waits = min(waits, placed)
    yield "Waits for a place", waits, ""
    yield "Placed", placed, "" if status.worker is None else f"on {status.worker}"
    yield "Starts its lab", _at(session, phases, S.INSTANTIATING), ""
    yield "Ready", status.ready_at, ""
    runs = status.started_at
    if runs is None and status.phase not in TERMINAL:
        runs = slot.start if slot.start is not None and slot.start > now else None
    yield "Runs", runs, ""
    ends = next((at for each in _ENDING if (at := _at(session, phases, each)) is not None), None)
    ahead = status.end if status.phase not in TERMINAL and ends is None else ends
    yield "Ends", ahead, ""
    yield "Over", status.ended_at, "" if status.phase not in TERMINAL else str(status.phase)


def _at(session: Session, phases: Mapping[str, datetime], phase: SessionPhase) -> datetime | None:
    if session.status.phase is phase:
        return session.status.phase_since
    return phases.get(phase)


def _step(
    begun: list[tuple[str, datetime | None, str]],
    number: int,
    current: int,
    *,
    over: bool,
    now: datetime,
) -> Step:
    title, at, note = begun[number]
    following = next((each for _, each, _ in begun[number + 1 :] if each is not None), None)
    if at is None:
        stands = "left out" if over or number < current else "ahead"
        return Step(title, stands, None, note=note)
    stands = "done" if number < current or over else "now" if number == current else "ahead"
    last = number == len(begun) - 1
    until = None if stands == "ahead" or last else min(following or now, now)
    if stands == "now":
        until = now
    lasted = "" if until is None or until < at else seat_words.lasting(until - at)
    return Step(title, stands, values.instant(at, now), lasted, note)
