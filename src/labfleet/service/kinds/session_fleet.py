"""What the sessions of a namespace wait for, read from the cache and the history of past runs.

In small steps, so that a large fleet does not hold up the loop; what changes meanwhile is seen at
the next look. What is read grows with what waits and lives, and never with what has ended.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from labfleet.decisions import learned_demand, placement
from labfleet.decisions.claims.asked import TEARDOWN, asked
from labfleet.decisions.lifecycle.session import budget
from labfleet.decisions.lifecycle.session import phases as session_phases
from labfleet.decisions.lifecycle.worker import phases
from labfleet.decisions.queueing.durations import Lasting, learned
from labfleet.decisions.queueing.fleet import Booked, Fleet, Growth, Host, Stay, Waiter
from labfleet.kernel.clock import in_utc
from labfleet.resources import refs
from labfleet.resources.amounts import vector
from labfleet.resources.definition import Definition, family_of
from labfleet.resources.history import RunKind
from labfleet.resources.machine import Machine
from labfleet.resources.meta import Resource
from labfleet.resources.pool import Pool
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.worker import Worker
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import catalogues, indices
from labfleet.service.kinds.pool_leads import Leads

YIELD_EVERY = 20
PAST = 50
"""Past runs that say how long the next one lasts: the newest of its family."""
FAMILIES = 200
"""Families of which these are kept; the first one makes room."""
KEPT_SECONDS = 60.0
"""Machine seconds for which they are kept."""
_ENDING = frozenset({SessionPhase.COLLECTING, SessionPhase.STOPPING})


@dataclass(frozen=True, slots=True)
class Line:
    """Where a session stands: for whose workers it waits, its place there, how many wait."""

    name: str
    position: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Reading:
    """A fleet with the first that wait, all that wait, and where each of these stands."""

    fleet: Fleet
    waiting: tuple[Session, ...]
    lines: dict[str, Line]


class PastRuns:
    """How long past runs of a family took, each read once a minute while somebody asks.

    Of the starts and ends of labs, which no history has, those that this process saw.
    """

    def __init__(self, services: ServiceContext) -> None:
        self._services = services
        self._kept: dict[tuple[RunKind, str, str], tuple[float, list[float]]] = {}
        self._labs: dict[str, deque[float]] = {}
        self._ending: dict[str, datetime] = {}
        self._ends = deque[float](maxlen=PAST)
        services.cache.on_change(Session, self._changed)

    async def lasting(self, kind: RunKind, namespace: str, family: str, most: float) -> Lasting:
        """Return how long a run lasts; raises what the store raises."""
        key, now = (kind, namespace, family), asyncio.get_running_loop().time()
        until, past = self._kept.get(key, (0.0, []))
        if until <= now:
            runs = await self._services.history.newest_runs(
                kind=kind, family=family, namespace=namespace, limit=PAST
            )
            past = [
                each.run.duration_seconds for each in runs
                if each.run.duration_seconds is not None
                and (kind is not RunKind.BOOT or not each.run.censored)
            ]  # fmt: skip
            self._kept.pop(key, None)
            self._kept[key] = now + KEPT_SECONDS, past
            if len(self._kept) > FAMILIES:
                del self._kept[next(iter(self._kept))]
        return learned(past, most)

    async def of_session(self, definition: Definition | None, session: Session) -> Lasting:
        """Return how long a session runs, by those of its definition's family."""
        name = session.spec.definition
        family = name if definition is None else family_of(definition)
        most = float(budget.of(session, definition).duration)
        return await self.lasting(RunKind.SESSION, session.namespace, family, most)

    async def boot(
        self, worker: Worker, machine: Machine, now: datetime
    ) -> tuple[Lasting, datetime]:
        """Return how long a worker boots, and since when; a start of a stopped one is no launch."""
        status = worker.status
        begun = status.provisioning_started_at
        resumed = status.idle.last_resumed_at
        if begun is None or (resumed is not None and resumed > begun):
            return Lasting(most=_limit(machine)), resumed or status.phase_since or now
        family = worker.spec.template or status.machine.type or "none"
        return await self.of_boot(family, machine, worker.namespace), begun

    def of_lab(self, definition: Definition) -> Lasting:
        """Return how long labs of a definition take from their import to their start."""
        most = float(definition.status.boot_seconds + budget.HEAD_START_SECONDS)
        return learned(self._labs.get(definition.key.path, ()), most)

    def of_clearing(self) -> Lasting:
        """Return how long a lab holds its room once its session has ended."""
        return learned(self._ends, TEARDOWN.total_seconds())

    def _changed(self, old: Resource | None, new: Resource | None) -> None:
        """Note how long a lab took that is up now, or that has gone."""
        if not isinstance(old, Session) or not isinstance(new, Session):
            self._ending.pop("" if old is None else old.metadata.uid, None)
            return
        self._up(old, new)
        uid, status = new.metadata.uid, new.status
        if status.phase in _ENDING and old.status.phase is SessionPhase.RUNNING:
            self._ending[uid] = status.phase_since or self._services.clock.now()
        elif status.phase not in _ENDING and uid in self._ending:
            since = self._ending.pop(uid)
            if status.ended_at is not None:
                self._ends.append((status.ended_at - since).total_seconds())

    def _up(self, old: Session, new: Session) -> None:
        since, up = old.status.phase_since, new.status.ready_at
        begun = old.status.phase is SessionPhase.INSTANTIATING
        if not begun or since is None or up is None or old.status.ready_at is not None:
            return
        name = refs.definition_of(new).key.path
        kept = self._labs.pop(name, None) or deque(maxlen=PAST)
        kept.append((up - since).total_seconds())
        self._labs[name] = kept
        if len(self._labs) > FAMILIES:
            del self._labs[next(iter(self._labs))]

    async def of_boot(self, family: str, machine: Machine, namespace: str) -> Lasting:
        """Return how long a worker boots, by those of its template, which is the family."""
        return await self.lasting(RunKind.BOOT, namespace, family, _limit(machine))


def due(services: ServiceContext, namespace: str, now: datetime) -> list[Session]:
    """Return the sessions for which a worker is looked for now, in the scheduler's order."""
    found, leads = [], Leads(services.cache)
    for value in services.cache.values(indices.SESSIONS_WAITING):
        if value[0] != namespace:
            continue
        for each in services.cache.by(indices.SESSIONS_WAITING, value):
            start, looked_for = each.spec.slot.start, leads.looked_for(each)
            ahead = looked_for is not None and looked_for > now
            if not ahead and not session_phases.end_asked(each):
                begin = start or each.metadata.creation_timestamp or now
                found.append((-each.spec.priority, begin, each.key, each))
    return [each[3] for each in sorted(found, key=lambda each: each[:3])]


async def read(services: ServiceContext, namespace: str, past: PastRuns, ahead: int) -> Reading:
    """Return what there is to play; `ahead` are the waiting sessions that are looked at closely."""
    now = services.clock.now()
    waiting = due(services, namespace, now)
    waiters = []
    for session in waiting[:ahead]:
        definition = services.cache.find(refs.definition_of(session))
        if definition is None:
            continue
        waiters.append(
            Waiter(
                uid=session.metadata.uid,
                request=asked(session, definition, now),
                lab=past.of_lab(definition),
                lasts=await past.of_session(definition, session),
                begins=session.spec.slot.start,
            )
        )
    look = _Look(services, namespace, past, now)
    hosts = await look.hosts() if waiters else ()
    growths = await look.growths() if waiters else ()
    fleet = Fleet(
        now=now, hosts=hosts, growths=growths, waiters=tuple(waiters), clearing=past.of_clearing()
    )
    return Reading(fleet, tuple(waiting), _lines(services, namespace, waiting))


def _lines(services: ServiceContext, namespace: str, waiting: Sequence[Session]) -> dict[str, Line]:
    """Return where each session stands among those of its track."""
    tracks: dict[str | None, list[Session]] = {}
    for each in waiting:
        definition = services.cache.find(refs.definition_of(each))
        track = each.spec.track or (None if definition is None else definition.spec.track)
        tracks.setdefault(track, []).append(each)
    pools = services.cache.by(indices.POOLS_IN, namespace)
    found = {}
    for track, members in tracks.items():
        serving = [each.name for each in pools if track in {None, each.spec.track}]
        name = serving[0] if len(serving) == 1 else "any track" if track is None else track
        for place, each in enumerate(members, 1):
            found[each.metadata.uid] = Line(name, place, len(members))
    return found


class _Look:
    """One look at the workers and pools of a namespace."""

    def __init__(
        self, services: ServiceContext, namespace: str, past: PastRuns, now: datetime
    ) -> None:
        self._services = services
        self._cache = services.cache
        self._namespace = namespace
        self._past = past
        self._now = now
        self._unserved: dict[str, int] = {}
        self._living: dict[str, list[Worker]] = {}

    async def hosts(self) -> tuple[Host, ...]:
        """Return the workers that take sessions or will, those that serve first."""
        found = []
        for number, worker in enumerate(self._cache.by(indices.WORKERS_LIVING, True)):
            if number % YIELD_EVERY == YIELD_EVERY - 1:
                await asyncio.sleep(0)
            if worker.namespace != self._namespace:
                continue
            self._living.setdefault(worker.spec.pool or "", []).append(worker)
            host = await self._host(worker)
            if host is not None:
                found.append(host)
        found.sort(key=lambda each: (each.boot is not None, each.name))
        promised = {each.name: each for each in found}
        for pool in self._cache.by(indices.POOLS_IN, self._namespace):
            await self._promise(pool, promised)
        return tuple(promised.values())

    async def _host(self, worker: Worker) -> Host | None:
        phase, machine = worker.status.phase, worker.spec.machine
        if phase in phases.HOSTING:
            stays = [
                await self._stay(each)
                for each in self._cache.by(indices.SESSIONS_HERE, worker.key.path)
                if each.status.reservation is not None and not _later(each, self._now)
            ]
            candidate = placement.Candidate(
                name=worker.name,
                track=worker.spec.track,
                pool=worker.spec.pool,
                closed=phases.closed_word(worker),
                closes_at=phases.closes_at(worker),
                licensed=bool(worker.status.licence.licensed),
                product=worker.status.licence.product,
                unlicensed_nodes=5 if machine is None else machine.cml.max_nodes_unlicensed,
                capacity=worker.status.capacity,
                has=catalogues.of_worker(self._cache, worker),
            )
            return Host(worker=candidate, stays=tuple(stays), booked=tuple(self._booked(worker)))
        if phase not in phases.BOOTING or machine is None or phases.provider_trouble(worker):
            return None
        shape = placement.shape(worker.name, worker.spec.track, machine)
        candidate = placement.Candidate(
            name=worker.name,
            track=worker.spec.track,
            pool=worker.spec.pool,
            licensed=shape.product is not None,
            product=shape.product,
            unlicensed_nodes=shape.capacity.nodes,
            capacity=worker.status.capacity or shape.capacity,
            has=catalogues.of_worker(self._cache, worker),
        )
        boot, since = await self._past.boot(worker, machine, self._now)
        return Host(worker=candidate, boot=boot, since=since)

    async def _stay(self, session: Session) -> Stay:
        status, held = session.status, learned_demand.held(session)
        assert held is not None  # noqa: S101 - the caller has looked
        row, uid = vector(held.amounts), session.metadata.uid
        if status.phase in _ENDING or session_phases.end_asked(session):
            since = status.phase_since if status.phase in _ENDING else self._now
            began = since or self._now
            lasts = self._past.of_clearing()
            return Stay(uid=uid, row=row, began=began, lasts=lasts, ends=None, until=held.end)
        definition = self._cache.find(refs.definition_of(session))
        lasts = await self._past.of_session(definition, session)
        ends = status.end or (None if held.end is None else held.end - TEARDOWN)
        began = status.started_at or self._now
        if ends is None:
            ends = began + timedelta(seconds=lasts.most)
        return Stay(uid=uid, row=row, began=began, lasts=lasts, ends=ends, until=held.end)

    def _booked(self, worker: Worker) -> Iterable[Booked]:
        for each in self._cache.by(indices.SESSIONS_HERE, worker.key.path):
            held = learned_demand.held(each)
            if held is not None and held.end is not None and _later(each, self._now):
                yield Booked(
                    uid=each.metadata.uid, row=vector(held.amounts), start=held.start, end=held.end
                )

    async def _promise(self, pool: Pool, hosts: dict[str, Host]) -> None:
        """Book what a pool has promised for today and tomorrow on the workers of its places."""
        day = in_utc(self._now).toordinal()
        claiming = {
            each.metadata.uid: each
            for at in (day, day + 1)
            for each in self._cache.by(indices.SESSIONS_CLAIMING, (pool.key.path, at))
        }
        homes, places = dict[int, str](), dict[int, list[Booked]]()
        for number, each in enumerate(claiming.values()):
            if number % YIELD_EVERY == YIELD_EVERY - 1:
                await asyncio.sleep(0)
            claim, worker = each.status.claim, each.status.worker
            if claim is None:
                continue
            if each.status.reservation is not None and worker is not None:
                homes.setdefault(claim.place, worker)
            elif claim.end > self._now and each.status.phase is SessionPhase.PENDING:
                booked = Booked(
                    uid=each.metadata.uid, row=vector(claim.amounts), start=claim.start,
                    end=claim.end,
                )  # fmt: skip
                places.setdefault(claim.place, []).append(booked)
        free = [
            each.name for each in hosts.values()
            if each.worker.pool == pool.name and each.name not in homes.values()
        ]  # fmt: skip
        for place in sorted(places):
            name = homes.get(place) or (free.pop(0) if free else None)
            host = None if name is None else hosts.get(name)
            if host is None or name is None:
                self._unserved[pool.name] = self._unserved.get(pool.name, 0) + 1
                continue
            booked_there = (*host.booked, *places[place])
            hosts[name] = Host(
                worker=host.worker, boot=host.boot, since=host.since, stays=host.stays,
                booked=booked_there,
            )  # fmt: skip

    async def growths(self) -> tuple[Growth, ...]:
        """Return the pools that add workers for what waits; none while that is paused.

        Workers that a pool still has to make for its promises are not there for others.
        """
        if self._services.settings.now().automation.paused:
            return ()
        found = []
        for full in (False, True):
            for pool in self._cache.by(indices.POOLS_GROWING, (self._namespace, None, full)):
                growth = None if pool.spec.paused else await self._growth(pool)
                if growth is not None:
                    found.append(growth)
        return tuple(found)

    async def _growth(self, pool: Pool) -> Growth | None:
        template = self._cache.find(refs.template_of(pool))
        shape = catalogues.shape_of(pool, template, self._cache)
        here = self._living.get(pool.name, [])
        troubled = any(
            phases.provider_trouble(each) for each in here
            if each.status.phase not in phases.HOSTING
        )  # fmt: skip
        if shape is None or template is None or troubled:
            return None
        scaling, last = pool.spec.scaling, pool.status.last_scale_up
        pause = timedelta(seconds=scaling.cooldown_up_seconds)
        boot = await self._past.of_boot(pool.spec.template, template.spec.machine, pool.namespace)
        return Growth(
            pool=pool.name,
            shape=shape,
            room=scaling.max_workers - len(here) - self._unserved.get(pool.name, 0),
            boot=boot,
            after=None if last is None else last + pause,
            pause=pause.total_seconds(),
        )


def _limit(machine: Machine) -> float:
    """Return the seconds that a boot may take at most."""
    limits = machine.limits
    return float(limits.launch + limits.boot + limits.licence)


def _later(session: Session, now: datetime) -> bool:
    """Tell whether what a session holds is for a slot that has not begun."""
    held = session.status.reservation
    return held is not None and held.start > now
