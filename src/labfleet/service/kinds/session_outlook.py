"""When will a waiting session start? Worked out from what is stored, while somebody looks.

By `decisions.queueing.session_starts`, aside from the loop, once for all who look at a namespace. Of
what is told first the outcome is counted, so that the coverage that is stated can be checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from labfleet.decisions.queueing.durations import Lasting
from labfleet.decisions.queueing.fleet import Fleet, Foreseen, Host
from labfleet.decisions.queueing.session_starts import AHEAD, COVERAGE, foresee
from labfleet.engine.cache import Cache
from labfleet.kernel import errors
from labfleet.kernel.clock import utc_minute, utc_text
from labfleet.resources.meta import Resource
from labfleet.resources.session import TERMINAL, Session, SessionPhase
from labfleet.resources.session_conditions import PhaseReason
from labfleet.resources.waiting import SessionOutlook
from labfleet.resources.worker import Worker
from labfleet.service.core.known_starts import KnownStarts
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import indices, session_fleet
from labfleet.service.kinds.session_fleet import Line, PastRuns, Reading

STAY_BYTES = 2048
"""What a session on a worker weighs beside texts that are parsed: playing it takes as long."""
KEPT_SECONDS = 2.0
"""Machine seconds for which one answer serves all who look at a namespace."""
KEPT_TIMES = 10
"""An answer is kept at least so many times as long as it took, however much runs and waits."""
ASKED_SECONDS = 60.0
"""Machine seconds for which a namespace is kept fresh after somebody looked at it."""
UNASKED_SECONDS = 60.0
"""Machine seconds between two looks at a namespace at which nobody looks."""
MINUTE = 60

Pause = Callable[[float], Awaitable[object]]


@dataclass(slots=True)
class _Kept:
    until: float = 0.0
    asked: float = 0.0
    looking: bool = False


class StartOutlooks:
    """Keeps `services.starts` fresh in one process, and counts what became of what was told."""

    def __init__(self, services: ServiceContext, pause: Pause = asyncio.sleep) -> None:
        self._services = services
        self._pause = pause
        self.past = PastRuns(services)
        """How long past runs took."""
        self._kept: dict[str, _Kept] = {}
        self._listeners: list[Callable[[], None]] = []
        services.starts.keeper = self
        services.cache.on_change(Session, self._changed)

    def listen(self, told: Callable[[], None]) -> None:
        """Call this each time that something else is said of some session."""
        self._listeners.append(told)

    async def run(self) -> None:
        """Look every few seconds at what somebody looks at, and every minute at the rest."""
        while True:
            await self.round()
            await self._pause(KEPT_SECONDS)

    async def round(self) -> None:
        """Look once at each namespace whose turn it is."""
        now = asyncio.get_running_loop().time()
        waiting = {each[0] for each in self._services.cache.values(indices.SESSIONS_WAITING)}
        for name in sorted(self._services.starts.asked & waiting):
            self._kept.setdefault(name, _Kept()).asked = now
        self._services.starts.asked.clear()
        for name in list(self._kept.keys() - waiting):
            del self._kept[name]
            self._put(name, {})
        for name in sorted(waiting):
            kept = self._kept.setdefault(name, _Kept(asked=now - ASKED_SECONDS))
            often = self._services.starts.watchers > 0 or kept.asked + ASKED_SECONDS > now
            if kept.until + (0.0 if often else UNASKED_SECONDS) <= now:
                await self.look(name)

    async def look(self, namespace: str) -> None:
        """Work out anew when the sessions of a namespace start; nothing while another one does.

        What the store or a busy thread cannot give now is given at the next look.
        """
        kept, loop = self._kept.setdefault(namespace, _Kept()), asyncio.get_running_loop()
        begun = loop.time()
        if kept.looking or begun < kept.until:
            return
        kept.looking = True
        try:
            reading = await session_fleet.read(self._services, namespace, self.past, AHEAD)
            found = await self._foreseen(reading.fleet)
        except errors.Temporary:
            return
        finally:
            kept.looking = False
            kept.until = loop.time() + max(KEPT_SECONDS, KEPT_TIMES * (loop.time() - begun))
        self._put(namespace, self._outlooks(reading, found))

    async def _foreseen(self, fleet: Fleet) -> dict[str, Foreseen]:
        if not fleet.waiters:
            return {}
        size = (len(fleet.waiters) + sum(len(each.stays) for each in fleet.hosts)) * STAY_BYTES
        return await self._services.aside.run(size, lambda: foresee(fleet, COVERAGE))

    def _put(self, namespace: str, found: dict[str, tuple[int, SessionOutlook]]) -> None:
        if self._services.starts.put(namespace, found, COVERAGE):
            for told in self._listeners:
                told()

    def _outlooks(
        self, reading: Reading, found: dict[str, Foreseen]
    ) -> dict[str, tuple[int, SessionOutlook]]:
        words = _Words(self._services.cache, reading, self._services.starts)
        made = {}
        for session in reading.waiting:
            uid = session.metadata.uid
            outlook = words.outlook(session.namespace, reading.lines[uid], found.get(uid))
            made[uid] = session.revision, outlook
        return made

    def _changed(self, old: Resource | None, new: Resource | None) -> None:
        """Count what became of a session that was told a range."""
        session = new or old
        if not isinstance(session, Session):
            return
        starts, uid, status = self._services.starts, session.metadata.uid, session.status
        if status.started_at is not None:
            starts.over(uid, status.started_at)
        elif status.phase is SessionPhase.EXPIRED and status.reason == PhaseReason.NEVER_STARTED:
            starts.over(uid, None)
        elif new is None or status.phase in TERMINAL or session.spec.cancel is not None:
            starts.forget(uid)


def shown(services: ServiceContext, session: Session) -> Session:
    """Return a session that waits with its outlook, as it was last worked out."""
    if session.status.phase is not SessionPhase.PENDING:
        return session
    found = services.starts.of(session.namespace, session.metadata.uid)
    if found is None:
        return session
    status = msgspec.structs.replace(session.status, outlook=found)
    return msgspec.structs.replace(session, status=status)


def kept(services: ServiceContext) -> StartOutlooks:
    """Return what keeps the outlooks of this process; made at the first question."""
    found = services.starts.keeper
    if not isinstance(found, StartOutlooks):
        found = services.starts.keeper = StartOutlooks(services)
    return found


async def of(services: ServiceContext, session: Session) -> SessionOutlook | None:
    """Return the outlook of a session; None when it waits for no worker, or came a moment ago."""
    if session.status.phase is not SessionPhase.PENDING:
        return None
    await kept(services).look(session.namespace)
    return services.starts.of(session.namespace, session.metadata.uid)


def minute(at: datetime, *, up: bool = False) -> datetime:
    """Return the full minute before an instant, or after it: what is told does not flicker."""
    whole = at.replace(second=0, microsecond=0)
    return whole + timedelta(minutes=1) if up and whole != at else whole


def _range(early: datetime | None, late: datetime | None, share: float | None) -> str:
    """Return a range after a comma, with the day only where it ends on another one."""
    if early is None:
        return ""
    if late is None:
        return f", {utc_text(early)} or later"
    sure = "" if share is None else f" ({100 * share:.3g} %)"
    same = early.date() == late.date()
    begins = utc_minute(early).removesuffix("Z") if same else utc_text(early)
    return f", {begins}-{utc_minute(late) if same else utc_text(late)}{sure}"


_DECLARED = {
    "boots": "how long a worker boots",
    "ends": "how long labs take to be gone",
    "labs": "how long its lab takes to start",
    "sessions": "how long sessions really last",
}


class _Words:
    """Says what was found at one reading."""

    def __init__(self, cache: Cache, reading: Reading, known: KnownStarts) -> None:
        self._cache = cache
        self._known = known
        self._now = reading.fleet.now
        self._hosts = {each.name: each for each in reading.fleet.hosts}

    def outlook(self, namespace: str, line: Line, found: Foreseen | None) -> SessionOutlook:
        """Return where a session stands, and when it starts."""
        start = None if found is None else found.start
        early = None if start is None or start.earliest is None else minute(start.earliest)
        late = None if start is None or start.latest is None else minute(start.latest, up=True)
        share = None
        if start is not None and start.coverage is not None:
            share = self._known.share(start.coverage)
        said = [f"ranges are worked out for the first {AHEAD} that wait"]
        if found is not None:
            said = self._because(namespace, found)
        return SessionOutlook(
            line=line.name,
            position=line.position,
            waiting=line.waiting,
            earliest=early,
            latest=late,
            coverage=share,
            because="; ".join(said),
            words=f"{line.position} of {line.waiting}{_range(early, late, share)}",
            at=self._now,
        )

    def _because(self, namespace: str, found: Foreseen) -> list[str]:
        """Return what a start depends on, and what is not known of that."""
        cause = found.cause
        if cause is None and not found.suited:
            return ["no worker that is there, or that may be added now, could take it"]
        if cause is None:
            return ["no end is in sight of what holds the room that it needs"]
        said = {
            "free": f"{cause.name} has room",
            "ends": f"a session on {cause.name} ends",
            "grows": f"pool {cause.name} adds a worker",
        }.get(cause.what)
        if said is None:
            host = self._hosts[cause.name]
            said = boots(self._cache, namespace, host, self._now)
        if not found.declared:
            return [said]
        words = ", ".join(_DECLARED[each] for each in found.declared)
        return [said, f"not known yet: {words}"]


def boots(cache: Cache, namespace: str, host: Host, now: datetime) -> str:
    """Return how far a worker's boot is, such as `w-eu-5 boots (LICENSING, 6 of ~17 min)`."""
    worker = cache.get(Worker, host.name, namespace)
    phase = "" if worker is None else f"{worker.status.phase}, "
    age = 0.0 if host.since is None else (now - host.since).total_seconds()
    return f"{host.name} boots ({phase}{aged(age, host.boot)})"


def aged(seconds: float, lasting: Lasting | None) -> str:
    """Return how long something has lasted, of how long it usually does where that is known."""
    usual = None if lasting is None else lasting.usual
    been = int(seconds // MINUTE)
    return f"for {been} min" if usual is None else f"{been} of ~{round(usual / MINUTE)} min"
