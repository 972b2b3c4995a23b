"""What latest-state frames are filled from: measured samples, raised alerts, places in the queue.

A source notes what changed while somebody subscribes, and works out only that. What nobody tells of
by itself (the store's minutes, the server's own troubles, a value that lapses) is looked at again
after some seconds, once for all clients.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from datetime import datetime, timedelta

from labfleet.api.streams.latest_state import LatestState, Row
from labfleet.kernel import errors
from labfleet.resources import alerts, fleet_alerts
from labfleet.resources.alerts import Raised
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Key, Record, Resource
from labfleet.resources.session import Session
from labfleet.resources.simulation import Simulation, SimulationPhase
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.service.core import access
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import indices, session_outlook
from labfleet.service.reads import measured, places, raised
from labfleet.service.reads.measured import Measured
from labfleet.service.reads.places import QueuePlace

USED_SECONDS = 15.0
"""Machine seconds between two looks at the store's minutes, or at starts of simulations."""
STORE_SECONDS = 2.0
"""Machine seconds for the store's answer: what workers measure waits for it."""
SERVER_SECONDS = 5.0
"""Machine seconds between two looks at what is the matter with the server itself."""
ALERTS = 1000
"""Alerts that are told; how many more there are is a number."""
LEAST_LIFE = timedelta(seconds=1)
"""A value is not looked at again sooner, whatever two clocks say of it."""
LEAST_RATE = 1e-6
"""A clock that stands still is taken to run so slowly."""
PLACES = 5000
"""Places in queues that are told; how many more there are is a number."""


class Named(Record, frozen=True, kw_only=True):
    """An object of which nothing is told any more.

    kind: Kind of the object.
    namespace: Namespace of the object.
    name: Name of the object.
    uid: Identity of the object.
    """

    kind: str
    namespace: str
    name: str
    uid: str


class Cleared(Record, frozen=True, kw_only=True):
    """An alert that is raised no more.

    object: The object as a command takes it.
    namespace: Namespace of the object.
    condition: Condition that had raised it.
    """

    object: str
    namespace: str
    condition: str


class Source(ABC):
    """Where the rows of one kind of frame come from."""

    def __init__(self, services: ServiceContext) -> None:
        self.services = services
        self.wanted = False
        self._changed = asyncio.Event()
        self._follows = False

    def begin(self) -> None:
        """Follow changes: somebody subscribes."""
        self.wanted = True
        self._changed.set()
        if not self._follows:
            self._follows = True
            self.follow()

    def end(self) -> None:
        """Follow none: nobody subscribes any more."""
        self.wanted = False
        self._changed.clear()

    @abstractmethod
    def follow(self) -> None:
        """Ask to be told of changes; called once, so what is called then looks at `wanted` first."""

    @abstractmethod
    async def fill(self, state: LatestState) -> None:
        """Bring the rows up to date."""

    @abstractmethod
    def again(self) -> float | None:
        """Return after how many machine seconds to look although nothing has changed; None: never."""

    def note(self) -> None:
        """Say that something has changed."""
        self._changed.set()

    async def changed(self) -> None:
        """Return once something has changed, or it is time to look again."""
        try:
            async with asyncio.timeout(self.again()):
                await self._changed.wait()
        except TimeoutError:
            return

    def _taken(self) -> None:
        self._changed.clear()


class SampleSource(Source):
    """The newest numbers of workers as they come, and of labs, runs and clusters by the minute."""

    def __init__(self, services: ServiceContext) -> None:
        super().__init__(services)
        self._touched: set[Key] = set()
        self._lapses: dict[Key, datetime] = {}
        self._used_at = 0.0
        self._left_out = 0
        self._unknown = ""
        self._begun = False

    def begin(self) -> None:
        """Follow changes, with everything to be read first."""
        self._used_at, self._left_out, self._unknown, self._begun = 0.0, 0, "", False
        living = self.services.cache.by(indices.WORKERS_LIVING, True)
        self._touched.update(worker.key for worker in living)
        self.services.samples.listen(self._touch)
        super().begin()

    def end(self) -> None:
        """Follow none."""
        super().end()
        self.services.samples.leave(self._touch)
        self._touched.clear()
        self._lapses.clear()

    def follow(self) -> None:
        """Follow workers, and whose sessions and simulations are."""
        cache = self.services.cache
        cache.on_change(Worker, self._worker)
        cache.on_change(Session, self._owned)
        cache.on_change(Simulation, self._owned)

    def _touch(self, key: Key) -> None:
        self._touched.add(key)
        self.note()

    def _worker(self, old: Resource | None, new: Resource | None) -> None:
        """Look at a worker that came, went or moved on; its other changes measure nothing."""
        if self.wanted and _phase(old) is not _phase(new):
            self._touch(_either(old, new).key)

    def _owned(self, old: Resource | None, new: Resource | None) -> None:
        """Look at what went, or is somebody else's now."""
        if self.wanted and old is not None and _given_away(old, new):
            self._touch(old.key)

    def again(self) -> float | None:
        """Return when the store's minutes are to be read, or the first value lapses."""
        services, due = self.services, list[float]()
        if measured.are_used(services):
            due.append(self._used_at - asyncio.get_running_loop().time())
        if self._lapses:
            left = (min(self._lapses.values()) - services.clock.now()).total_seconds()
            due.append(left / max(services.clock.rate, LEAST_RATE))
        return max(0.0, min(due)) if due else None

    async def fill(self, state: LatestState) -> None:
        """Read what was measured since the last time, and what has lapsed meanwhile."""
        self._taken()
        now = self.services.clock.now()
        self._touched.update(key for key, at in self._lapses.items() if at < now)
        if not self._begun:  # rows of before a defect may be of what is gone
            self._begun = True
            self._touched.update(key for key, _ in state.names())
        touched = sorted(self._touched)
        self._touched.clear()
        for key in touched:
            self._refresh(state, key)
        loop = asyncio.get_running_loop()
        if self._used_at <= loop.time() and measured.are_used(self.services):
            await self._read_used(state)
            minute = 60.0 / max(self.services.clock.rate, LEAST_RATE)
            self._used_at = loop.time() + max(1.0, min(USED_SECONDS, minute))
        state.say(left_out=self._left_out, unknown=self._unknown)

    def _refresh(self, state: LatestState, key: Key) -> None:
        self._lapses.pop(key, None)
        found = self.services.cache.at(key)
        if found is None or _phase(found) is WorkerPhase.TERMINATED:
            state.drop((key, ""))
        elif isinstance(found, Worker):
            told = measured.of_worker(self.services, found)
            until = [each.until for each in told.values.values() if each.until is not None]
            if until:
                self._lapses[key] = max(min(until), self.services.clock.now() + LEAST_LIFE)
            state.put(_row(found, told))
        else:
            state.see((key, ""), found)

    async def _read_used(self, state: LatestState) -> None:
        """Read the store's minutes; what it cannot tell now stays as it was, and is said."""
        try:
            async with asyncio.timeout(STORE_SECONDS):
                found, self._left_out = await measured.used(self.services)
        except (errors.Temporary, TimeoutError):
            self._unknown = "labs, runs and clusters are as they were: the store does not answer"
            return
        self._unknown = ""
        rows = (_row(obj, told) for obj, told in found)
        state.replace(rows, lambda name: name[0].kind != Worker.__name__)


class AlertSource(Source):
    """What `service.reads.raised` says is raised, worked out when an object's own alerts change."""

    def __init__(self, services: ServiceContext) -> None:
        super().__init__(services)
        self._server: tuple[Raised, ...] = ()
        self._moved = True

    def begin(self) -> None:
        """Follow changes, with everything to be read first."""
        self._moved = True
        self.services.samples.listen(self._measured)
        super().begin()

    def end(self) -> None:
        """Follow none."""
        super().end()
        self.services.samples.leave(self._measured)

    def follow(self) -> None:
        """Follow what can raise an alert."""
        cache = self.services.cache
        cache.on_change(Worker, self._object)
        for kind in fleet_alerts.kinds():
            cache.on_change(KINDS[kind].type, self._object)

    def _object(self, old: Resource | None, new: Resource | None) -> None:
        if self.wanted and _raised(old) != _raised(new):
            self._move()

    def _measured(self, worker: Key) -> None:
        """Look again when the number behind a raised alert may have moved."""
        found = self.services.cache.at(worker)
        told = () if not isinstance(found, Worker) else _raised(found)
        if any(each.condition in raised.MEASURED_BY for each in told):
            self._move()

    def _move(self) -> None:
        self._moved = True
        self.note()

    def again(self) -> float | None:
        """Look at the server's own troubles now and then: nobody tells of them."""
        return SERVER_SECONDS

    async def fill(self, state: LatestState) -> None:
        """Read what is raised, if any of it has changed."""
        self._taken()
        server = raised.of_server(self.services)
        if not self._moved and server == self._server:
            return
        self._moved, self._server = False, server
        found = raised.standing(self.services)
        state.replace((self._row(each) for each in found[:ALERTS]), lambda _: True)
        state.say(left_out=max(0, len(found) - ALERTS), unknown="")

    def _row(self, told: Raised) -> Row:
        word, _, name = told.object.partition("/")
        kind = next((row.name for row in KINDS.values() if row.name.lower() == word), word)
        key = Key(kind, told.namespace, name)
        found = self.services.cache.at(key) if kind in KINDS else None
        cleared = Cleared(object=told.object, namespace=told.namespace, condition=told.condition)
        return Row(key, found, told, cleared, part=told.condition, narrowed=False)


class QueueSource(Source):
    """The places of sessions as they are worked out for all who look, and those of simulations."""

    def begin(self) -> None:
        """Follow changes, and have the places of sessions kept fresh."""
        self.services.starts.watchers += 1
        super().begin()

    def end(self) -> None:
        """Follow none."""
        super().end()
        self.services.starts.watchers -= 1

    def follow(self) -> None:
        """Follow what waits, and what is told of it."""
        session_outlook.kept(self.services).listen(self._told)
        self.services.cache.on_change(Session, self._session)
        self.services.cache.on_change(Simulation, self._simulation)

    def _told(self) -> None:
        if self.wanted:
            self.note()

    def _session(self, old: Resource | None, new: Resource | None) -> None:
        """Look when one waits no longer, or is somebody else's now; who comes is told of later."""
        if self.wanted and isinstance(old, Session) and indices.SESSIONS_WAITING.values(old):
            waits = isinstance(new, Session) and indices.SESSIONS_WAITING.values(new)
            if not waits or _given_away(old, new):
                self.note()

    def _simulation(self, old: Resource | None, new: Resource | None) -> None:
        """Look when one begins or ends to wait, or another one makes room for it."""
        moved = _phase(old) is not _phase(new)
        if self.wanted and (moved or _phase(new) is SimulationPhase.QUEUED):
            self.note()

    def again(self) -> float | None:
        """Look again while simulations wait: when they start moves with the time."""
        if not self.services.cache.values(indices.SIMULATIONS_QUEUED):
            return None
        return USED_SECONDS

    async def fill(self, state: LatestState) -> None:
        """Read every place."""
        self._taken()
        found = [*places.of_sessions(self.services), *await places.of_simulations(self.services)]
        rows = (_row(obj, told) for obj, told in found[:PLACES])
        state.replace(rows, lambda _: True)
        state.say(left_out=max(0, len(found) - PLACES), unknown="")


def _row(obj: Resource, told: Measured | QueuePlace) -> Row:
    named = Named(kind=obj.kind, namespace=obj.namespace, name=obj.name, uid=obj.metadata.uid)
    return Row(obj.key, obj, told, named)


def _either(old: Resource | None, new: Resource | None) -> Resource:
    found = new if old is None else old
    assert found is not None  # noqa: S101 - a change has one of them, for the type checker
    return found


def _given_away(old: Resource, new: Resource | None) -> bool:
    """Tell whether an object is gone, or somebody else's now."""
    return new is None or access.owners(old) != access.owners(new)


def _phase(obj: Resource | None) -> object:
    return None if obj is None else getattr(obj.status, "phase", None)


def _raised(obj: Resource | None) -> tuple[Raised, ...]:
    """Return what an object raises by itself, as it is stored."""
    if obj is None:
        return ()
    if isinstance(obj, Worker):
        return alerts.raised(obj.key, obj.status.conditions)
    return fleet_alerts.raised(obj)
