"""The workers as the scheduler places on them, kept up by the cache's changes.

A change of a worker, of a session that holds something there, or of what its image has marks the
worker; before a cycle the marked ones are read again, from the cache and the store's ports. After a
restart all are marked. So a cycle reads what changed, not the fleet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import chain

from labfleet.controllers import requests
from labfleet.controllers.context import Context
from labfleet.controllers.preferences import Preferences, changed_workers
from labfleet.decisions import parking, placement, port_holders, strategies
from labfleet.decisions.catalogues import Names
from labfleet.decisions.lifecycle.worker import phases as worker_phases
from labfleet.decisions.placement_index import PlacementIndex
from labfleet.interfaces import store as stores
from labfleet.kernel.rng import Rng
from labfleet.resources import refs
from labfleet.resources.amounts import Reservation
from labfleet.resources.held_ports import FIRST, LAST
from labfleet.resources.image import Image
from labfleet.resources.meta import Key, Resource
from labfleet.resources.pool import Pool
from labfleet.resources.scheduling import Scheduling
from labfleet.resources.session import Session
from labfleet.resources.strategy import Strategy
from labfleet.resources.template import Template
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.service.kinds import catalogues, indices

ONE_BY_ONE = 64
"""Marked workers whose ports are read one by one; of more, the ports of all are read at once."""
YIELD_EVERY = 20
Taken = set[tuple[str, int]]
Preferred = tuple[Strategy, strategies.Rank, int]


class PlaceableWorkers:
    """An index for each namespace, and beside it the ports, possible shapes and troubles."""

    def __init__(self, context: Context, ports: stores.PortStore, rng: Rng | None = None) -> None:
        self._context = context
        self._rng = rng
        self._preferences = Preferences(context.cache, context.prices)
        self._scheduling = Scheduling()
        self._ports = ports
        self._fleets: dict[str, PlacementIndex] = {}
        self._shapes: dict[str, dict[Key, placement.WorkerShape]] = {}
        self._troubles: dict[Key, tuple[str, str]] = {}
        self.taken: dict[Key, Taken] = {}
        self._known: set[Key] = set()
        self._marked: set[Key] = set()
        self._all = True
        cache = context.cache
        cache.on_change(Worker, self._worker_changed)
        cache.on_change(Session, self._session_changed)
        cache.on_change(Image, self._all_changed)
        cache.on_change(Template, self._all_changed)
        cache.on_change(Pool, self._pool_changed)

    def _worker_changed(self, old: Resource | None, new: Resource | None) -> None:
        changed = new or old
        if isinstance(changed, Worker) and (_lives(changed) or changed.key in self._known):
            self._marked.add(changed.key)

    def _pool_changed(self, old: Resource | None, new: Resource | None) -> None:
        self._marked.update(changed_workers(self._context.cache, old, new))

    def _session_changed(self, old: Resource | None, new: Resource | None) -> None:
        self._preferences.session_changed(new)
        for each in (old, new):
            if isinstance(each, Session) and tuple(indices.SESSIONS_HERE.values(each)):
                worker = refs.worker_of(each)
                if worker is not None:
                    self._marked.add(worker.key)

    def _all_changed(self, old: Resource | None, new: Resource | None) -> None:
        """Have all workers read again: once what is said of images or prices has changed."""
        if old is None or new is None or old.status != new.status or old.spec != new.spec:
            self._all = True

    def mark(self, key: Key) -> None:
        """Have a worker read again before the next cycle: something was placed on it, or not."""
        self._marked.add(key)

    def fleet(self, namespace: str) -> PlacementIndex:
        """Return the index of a namespace's workers."""
        found = self._fleets.get(namespace)
        if found is None:
            now = self._context.clock.now()
            found = self._fleets[namespace] = PlacementIndex(now, rng=self._rng)
        return found

    def shapes(self, namespace: str) -> Iterable[placement.WorkerShape]:
        """Yield the possible empty workers: of live pools' templates, and the workers there are."""
        return chain(self._of_pools(namespace), self._shapes.get(namespace, {}).values())

    def _of_pools(self, namespace: str) -> Iterable[placement.WorkerShape]:
        cache = self._context.cache
        for pool in cache.by(indices.POOLS_IN, namespace):
            if pool.deleting or pool.spec.desired != "Ready":
                continue
            template = cache.find(refs.template_of(pool))
            shape = catalogues.shape_of(pool, template, cache)
            if shape is not None:
                yield shape

    def trouble(self, namespace: str, track: str | None) -> str | None:
        """Return why workers that could take a session of this track do not come up, if so.

        `track` None is of a session that takes any.
        """
        found = [
            key for key in self._troubles
            if key.namespace == namespace and track in {None, self._troubles[key][0]}
        ]  # fmt: skip
        return self._troubles[max(found)][1] if found else None

    async def refresh(self) -> None:
        """Read the marked workers again, with pauses.

        A change that comes meanwhile marks its worker for the next time: each worker is as of the
        cache's revision at the call, or newer.
        """
        scheduling = self._context.settings.now().scheduling
        if self._all or scheduling != self._scheduling:
            self._scheduling = scheduling
            living = self._context.cache.by(indices.WORKERS_LIVING, True)
            self._marked |= self._known | {each.key for each in living}
            self._all = False
        await self._preferences.begin(scheduling)
        todo, self._marked = sorted(self._marked), set()
        try:
            held = await self._held(todo)
            for count in range(len(todo), 0, -1):
                self._read(todo[-1], held.get(todo[-1].path, ()))
                todo.pop()
                if count % YIELD_EVERY == 0:
                    await asyncio.sleep(0)
        finally:
            self._marked.update(todo)

    async def _held(self, keys: list[Key]) -> dict[str, list[tuple[str, int]]]:
        """Return the ports given out on these workers, by the worker's path."""
        found: dict[str, list[tuple[str, int]]] = {key.path: [] for key in keys}
        if len(keys) > ONE_BY_ONE:
            rows = list(await self._ports.ports())
        else:
            rows = [row for key in keys for row in await self._ports.ports(key.path)]
        for row in rows:
            if row.worker in found:
                found[row.worker].append((row.transport, row.number))
        return found

    def _read(self, key: Key, ports: Iterable[tuple[str, int]]) -> None:
        cache = self._context.cache
        worker = cache.get(Worker, key.name, key.namespace)
        shapes = self._shapes.setdefault(key.namespace, {})
        shapes.pop(key, None)
        self._troubles.pop(key, None)
        self._known.discard(key)
        if worker is None or worker.status.phase not in worker_phases.HOSTING:
            self.fleet(key.namespace).drop(key.name)
            self.taken.pop(key, None)
        if worker is None or not _lives(worker):
            self._preferences.forget(key)
            return
        self._known.add(key)
        shape = _shape(worker)
        if shape is not None:
            shapes[key] = shape
        if worker.status.phase in worker_phases.HOSTING:
            taken = {*_foreign(worker), *ports}
            self.taken[key] = taken
            here = cache.by(indices.SESSIONS_HERE, key.path)
            has = catalogues.of_worker(cache, worker)
            made = _candidate(
                worker, requests.reserved(here), _free(taken), has, self._preferred(worker)
            )
            self.fleet(key.namespace).put(made)
            return
        cause = worker_phases.provider_trouble(worker)
        if cause:
            self._troubles[key] = (worker.spec.track, cause)

    def _preferred(self, worker: Worker) -> Preferred:
        """Return what a worker is preferred by."""
        strategy, rank = self._preferences.standing(worker, self._scheduling)
        placed = self._preferences.placed(worker) if strategy is Strategy.ROUND_ROBIN else 0
        return strategy, rank, placed


def _lives(worker: Worker) -> bool:
    return worker.status.phase is not WorkerPhase.TERMINATED


def _foreign(worker: Worker) -> Taken:
    """Return the ports that labs on a worker name unasked.

    What an earlier release recorded names the numbers alone, until the next look.
    """
    parts = [each.partition("/") for each in worker.status.foreign_ports]
    named = {(transport, int(number)) for transport, _, number in parts}
    return named | port_holders.numbers(worker.status.held_ports)


def _free(taken: Taken) -> int:
    used = sum(transport == "tcp" and FIRST <= number <= LAST for transport, number in taken)
    return LAST - FIRST + 1 - used


def _shape(worker: Worker) -> placement.WorkerShape | None:
    """Return the worker as if it were empty; None when it does not host and will not soon."""
    live = worker.status.phase in worker_phases.HOSTING | worker_phases.BOOTING
    if not (live or parking.auto_stopped(worker)) or worker.status.capacity is None:
        return None
    return placement.WorkerShape(
        name=worker.name,
        track=worker.spec.track,
        capacity=worker.status.capacity,
        product=worker.status.licence.product,
        version=worker.status.cml.version or None,
    )


def _candidate(
    worker: Worker,
    held: tuple[Reservation, ...],
    free_ports: int,
    has: Names | None,
    preferred: Preferred,
) -> placement.Candidate:
    strategy, rank, placed = preferred
    licence, machine = worker.status.licence, worker.spec.machine
    return placement.Candidate(
        name=worker.name,
        track=worker.spec.track,
        pool=worker.spec.pool,
        closed=worker_phases.closed_word(worker),
        closes_at=worker_phases.closes_at(worker),
        licensed=bool(licence.licensed),
        product=licence.product,
        unlicensed_nodes=5 if machine is None else machine.cml.max_nodes_unlicensed,
        capacity=worker.status.capacity,
        reservations=held,
        sessions=len(held),
        free_ports=free_ports,
        has=has,
        version=worker.status.cml.version or None,
        strategy=strategy,
        rank=rank,
        placed=placed,
    )
