"""Builds the controllers and maps changes of objects to the controllers that they wake.

Returns plain controllers; a composition root gives them leadership and runs them. The handlers
only add keys: losing one costs the time until the next resync.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from labfleet.controllers import pacing
from labfleet.controllers.admission import KEY as ADMISSION
from labfleet.controllers.admission import AdmissionController
from labfleet.controllers.catalogues import KEY as CATALOGUES
from labfleet.controllers.catalogues import CatalogueController
from labfleet.controllers.clusters import ClusterController
from labfleet.controllers.context import Context
from labfleet.controllers.definitions import KEY as DEFINITIONS
from labfleet.controllers.definitions import DefinitionController
from labfleet.controllers.discovery import KEY as DISCOVERY
from labfleet.controllers.discovery import DiscoveryController
from labfleet.controllers.garbage import KEY as GARBAGE
from labfleet.controllers.garbage import GarbageController
from labfleet.controllers.lab_reviews import GATHER_SECONDS as REVIEW_GATHER_SECONDS
from labfleet.controllers.lab_reviews import ROUND_SECONDS as REVIEW_ROUND_SECONDS
from labfleet.controllers.lab_reviews import LabReviews, key_of
from labfleet.controllers.pool import PoolController
from labfleet.controllers.scheduler import KEY as SCHEDULER
from labfleet.controllers.scheduler import Decided, Scheduler
from labfleet.controllers.series import KEY as SERIES
from labfleet.controllers.series import SeriesController
from labfleet.controllers.session.lab_keeper import LabKeeper
from labfleet.controllers.session.lab_samples import LabSamples
from labfleet.controllers.session.reconcile import SessionController
from labfleet.controllers.upkeep import KEY as UPKEEP
from labfleet.controllers.upkeep import Upkeep
from labfleet.controllers.webhooks import TURNS, WebhookController
from labfleet.controllers.worker.idle import IdleController
from labfleet.controllers.worker.idle_findings import IdleFindings
from labfleet.controllers.worker.inventory import Inventory
from labfleet.controllers.worker.reconcile import WorkerController
from labfleet.decisions.lifecycle.session import keeping
from labfleet.decisions.lifecycle.session import phases as session_phases
from labfleet.decisions.lifecycle.worker import phases as worker_phases
from labfleet.engine.controller import Controller, Reconcile, ReconcileObserver
from labfleet.engine.queue import EVENT, USER, KeyQueue
from labfleet.interfaces import store as stores
from labfleet.interfaces.cluster_meter import ClusterMeter, NoMeter
from labfleet.interfaces.cluster_view import ClusterViewer, NoViewer
from labfleet.kernel.rng import Rng
from labfleet.resources import kinds
from labfleet.resources.cluster import Cluster
from labfleet.resources.definition import Definition
from labfleet.resources.fleet_settings import Settings
from labfleet.resources.image import Image
from labfleet.resources.meta import Key, Ref, Resource
from labfleet.resources.pool import Pool
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.simulation import Simulation
from labfleet.resources.template import Template
from labfleet.resources.webhook import Webhook
from labfleet.resources.worker import Worker
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import indices

RESYNC_SECONDS = 300.0
ROUND_RESYNC_SECONDS = 7200.0
"""Longer than any interval between rounds, since each round requests the next one itself."""
GATHER_SECONDS = 0.5
"""How long changes are collected before webhooks read the log (fleet seconds)."""
CONCURRENCY = 32
ROLES = ("scheduler", "worker-controller", "lab-controller")


class ControllerStore(
    stores.EventLog,
    stores.PortStore,
    stores.SeriesStore,
    stores.SampleStore,
    stores.HistoryStore,
    stores.KeptStore,
    stores.UpkeepStore,
    Protocol,
):
    """What controllers use of the store beside objects; each gets the part that it uses."""


@dataclass(frozen=True, slots=True)
class Assembly:
    """Builds one role's controllers.

    `decided` is told of each decision on a session. `pace` is how many fleet seconds apart steady objects are reconciled (`pacing`); with None,
    as in every server, the decisions set the interval. `meter` measures clusters, `viewer`
    sees their nodes and pods.
    """

    rng: Rng
    services: ServiceContext
    store: ControllerStore
    observer: ReconcileObserver | None = None
    pace: float | None = None
    meter: ClusterMeter = field(default_factory=NoMeter)
    viewer: ClusterViewer = field(default_factory=NoViewer)
    decided: Decided | None = None

    def scheduler(self, context: Context) -> list[Controller]:
        """Return the controllers that place sessions, size pools and do upkeep."""
        scheduler = self._controller(
            context,
            "scheduler",
            Scheduler(context, self.store, self.rng, self.decided).reconcile,
            1,
        )
        rest = pacing.pool_rest(context.cache)
        step = pacing.slower(
            PoolController(context, self.store).reconcile, context, self.pace, rest
        )
        pools = self._controller(context, "pool", step, 4)
        care = Upkeep(context, self.services, self.store).reconcile
        upkeep = self._controller(context, "upkeep", care, 1)
        cache = context.cache
        scheduler.resync(RESYNC_SECONDS, lambda: (SCHEDULER,))
        upkeep.resync(RESYNC_SECONDS, lambda: (UPKEEP,))
        pools.resync(self._resync, lambda: [each.key for each in cache.all(Pool)])

        def session_changed(old: Resource | None, new: Resource | None) -> None:
            if _places(old, new):
                scheduler.queue.add(SCHEDULER, priority=EVENT)
                for namespace in {each.namespace for each in (old, new) if each is not None}:
                    for pool in cache.by(indices.POOLS_IN, namespace):
                        pools.queue.add(pool.key, priority=EVENT)

        def worker_changed(old: Resource | None, new: Resource | None) -> None:
            if _phase(old) != _phase(new) or _asked(old, new):
                scheduler.queue.add(SCHEDULER, priority=EVENT)
                named = new or old
                if named is not None and named.spec.pool is not None:
                    pool = Ref(Pool, named.namespace, named.spec.pool)
                    pools.queue.add(pool.key, priority=EVENT)

        cache.on_change(Session, session_changed)
        cache.on_change(Worker, worker_changed)
        cache.on_change(Pool, _on_asked(pools.queue))

        def settings_changed(old: Resource | None, new: Resource | None) -> None:
            del old, new
            for pool in cache.all(Pool):
                pools.queue.add(pool.key, priority=USER)

        cache.on_change(Settings, settings_changed)
        more = (
            self._admission(context),
            self._clusters(context),
            *self._definitions(context),
            *self._webhooks(context),
        )
        return [scheduler, pools, upkeep, *more]

    def _admission(self, context: Context) -> Controller:
        """Return the controller that decides on simulations; a request or a freed place wakes it."""
        cache, holder = context.cache, list[Controller]()

        def wake() -> None:
            holder[0].queue.add(ADMISSION, priority=USER)

        decide = AdmissionController(context, self.services, wake).reconcile
        made = self._controller(context, "admission", decide, 1)
        holder.append(made)
        made.resync(RESYNC_SECONDS, _always(ADMISSION))

        def changed(old: Resource | None, new: Resource | None) -> None:
            del old, new
            if cache.values(indices.SIMULATIONS_QUEUED):
                made.queue.add(ADMISSION, priority=EVENT)

        cache.on_change(Simulation, changed)
        cache.on_change(Cluster, changed)
        return made

    def _clusters(self, context: Context) -> Controller:
        """Return the controller that looks at what clusters really use."""
        cache = context.cache
        look = ClusterController(
            context, self.services, self.store, viewer=self.viewer, meter=self.meter
        ).reconcile
        made = self._controller(context, "cluster", look, 4)
        made.resync(RESYNC_SECONDS, lambda: [each.key for each in cache.all(Cluster)])
        cache.on_change(Cluster, _on_asked(made.queue))
        return made

    def _definitions(self, context: Context) -> list[Controller]:
        """Return the controller that judges definitions; a what-if run sees no images."""
        if self.pace is not None:
            return []
        made = self._controller(context, "definition", DefinitionController(context).reconcile, 1)
        made.resync(RESYNC_SECONDS, _always(DEFINITIONS))

        def changed(old: Resource | None, new: Resource | None) -> None:
            del old, new
            made.queue.add(DEFINITIONS, after=GATHER_SECONDS, priority=EVENT)

        context.cache.on_change(Image, changed)
        context.cache.on_change(Template, changed)
        context.cache.on_change(Pool, _wakes(made.queue, DEFINITIONS))
        return [made, self._reviews(context)]

    def _reviews(self, context: Context) -> Controller:
        """Return the controller that judges what definitions ask for; ended sessions wake it."""
        reviews, cache = LabReviews(context, self.services), context.cache
        made = self._controller(context, "review", reviews.reconcile, 1)
        made.resync(REVIEW_ROUND_SECONDS, reviews.all)

        def session_changed(old: Resource | None, new: Resource | None) -> None:
            key = reviews.of_ended(old, new)
            if key is not None:
                made.queue.add(key, after=REVIEW_GATHER_SECONDS, priority=EVENT)

        def definition_changed(old: Resource | None, new: Resource | None) -> None:
            for each in (old, new) if _asked(old, new) else ():
                if isinstance(each, Definition):
                    made.queue.add(key_of(each), after=GATHER_SECONDS, priority=EVENT)

        def settings_changed(old: Resource | None, new: Resource | None) -> None:
            if _asked(old, new):
                for key in reviews.all():
                    made.queue.add(key, after=GATHER_SECONDS, priority=EVENT)

        cache.on_change(Session, session_changed)
        cache.on_change(Definition, definition_changed)
        cache.on_change(Settings, settings_changed)
        return made

    def _webhooks(self, context: Context) -> list[Controller]:
        """Return the controller that delivers events, if there is a way to deliver them."""
        if context.deliveries is None:
            return []
        cache = context.cache
        webhooks = WebhookController(context, context.deliveries, self.rng, self.store)
        hooks = self._controller(context, "webhook", webhooks.reconcile, TURNS)
        hooks.resync(RESYNC_SECONDS, lambda: [each.key for each in cache.all(Webhook)])

        def changed(old: Resource | None, new: Resource | None) -> None:
            for key in webhooks.woken(old, new):
                hooks.queue.add(key, after=GATHER_SECONDS, priority=EVENT)

        for row in kinds.KINDS.values():
            cache.on_change(row.type, _on_asked(hooks.queue) if row.type is Webhook else changed)
        return [hooks]

    def workers(self, context: Context, inventory: Inventory) -> list[Controller]:
        """Return the controllers that manage workers, find orphans and store series.

        A what-if run (`pace`) stores no series: nobody reads them.
        """
        findings = IdleFindings(context)
        reconcile = pacing.slower(
            WorkerController(context, inventory, self.store, findings).reconcile,
            context,
            self.pace,
            pacing.worker_rest,
        )
        workers = self._controller(context, "worker", reconcile, CONCURRENCY)
        cache = context.cache
        workers.resync(self._resync, lambda: [each.key for each in cache.all(Worker)])

        def session_changed(old: Resource | None, new: Resource | None) -> None:
            for key in {*_bound(old), *_bound(new)} if _moved(old, new) else ():
                workers.queue.add(key, priority=EVENT)

        asked = _on_asked(workers.queue)

        def worker_changed(old: Resource | None, new: Resource | None) -> None:
            _notice(context, new)
            asked(old, new)

        cache.on_change(Worker, worker_changed)
        cache.on_change(Session, session_changed)
        rounds = [self._idle(context, findings, workers.queue), *self._rounds(context, inventory)]
        if self.pace is not None:
            return [workers, *rounds]
        fold = SeriesController(context, self.store).reconcile
        numbers = self._controller(context, "series", fold, 1)
        numbers.resync(RESYNC_SECONDS, lambda: (SERIES,))
        return [workers, *rounds, numbers, self._catalogues(context)]

    def _catalogues(self, context: Context) -> Controller:
        """Return the controller that reads what servers have; one that is up now wakes it."""
        look = CatalogueController(context).reconcile
        made = self._controller(context, "catalogue", look, 1)
        made.resync(RESYNC_SECONDS, _always(CATALOGUES))

        def worker_changed(old: Resource | None, new: Resource | None) -> None:
            if _phase(old) != _phase(new) and _phase(new) in worker_phases.HOSTING:
                made.queue.add(CATALOGUES, priority=EVENT)

        context.cache.on_change(Worker, worker_changed)
        return made

    def _rounds(self, context: Context, inventory: Inventory) -> list[Controller]:
        """Return the garbage and discovery controllers; a change of settings wakes them."""
        orphans = GarbageController(context, inventory).reconcile
        scan = DiscoveryController(context, self.services).reconcile
        made = []
        for name, reconcile, key in (("garbage", orphans, GARBAGE), ("discovery", scan, DISCOVERY)):
            controller = self._controller(context, name, reconcile, 1)
            controller.resync(ROUND_RESYNC_SECONDS, _always(key))
            context.cache.on_change(Settings, _wakes(controller.queue, key))
            made.append(controller)
        return made

    def _idle(self, context: Context, findings: IdleFindings, workers: KeyQueue) -> Controller:
        """Return the controller that looks for idle workers and wakes the steps of such."""

        def wake(key: Key) -> None:
            workers.add(key, priority=EVENT)

        look = IdleController(context, self.store, findings, wake).reconcile
        made = self._controller(context, "idle", look, CONCURRENCY)
        cache = context.cache
        made.resync(self._resync, lambda: [each.key for each in cache.all(Worker)])

        def worker_changed(old: Resource | None, new: Resource | None) -> None:
            named = new or old
            if named is not None and (_phase(old) != _phase(new) or _asked(old, new)):
                made.queue.add(named.key, priority=EVENT)

        def settings_changed(old: Resource | None, new: Resource | None) -> None:
            if _asked(old, new):
                for each in cache.all(Worker):
                    made.queue.add(each.key, priority=EVENT)

        cache.on_change(Worker, worker_changed)
        cache.on_change(Settings, settings_changed)
        return made

    def labs(self, context: Context) -> list[Controller]:
        """Return the controller that manages sessions; a what-if run (`pace`) measures no lab."""
        samples = None if self.pace is not None else LabSamples(context, self.store)
        reconcile = pacing.slower(
            SessionController(context, self.services, samples).reconcile,
            context,
            self.pace,
            pacing.session_rest,
        )
        sessions = self._controller(context, "session", reconcile, CONCURRENCY)
        keep = LabKeeper(context, self.services.kept, self.services.aside).reconcile
        keeper = self._controller(context, "lab-keeper", keep, CONCURRENCY)
        cache = context.cache
        keeper.resync(
            self._resync,
            lambda: [each.key for each in cache.by(indices.SESSIONS_OPEN, True) if _keeps(each)],
        )
        sessions.resync(
            self._resync, lambda: [each.key for each in cache.by(indices.SESSIONS_OPEN, True)]
        )

        def worker_changed(old: Resource | None, new: Resource | None) -> None:
            named = new or old
            same = _phase(old) == _phase(new) and _fit(old) == _fit(new)
            if named is None or (same and not _asked(old, new)):
                return
            for session in cache.by(indices.SESSIONS_HERE, named.key.path):
                sessions.queue.add(session.key, priority=EVENT)

        def session_changed(old: Resource | None, new: Resource | None) -> None:
            _notice(context, new)
            if new is None:
                return
            waits, waited = _keeps(new), _keeps(old)
            if waits and not waited:
                keeper.queue.add(new.key, priority=EVENT)
            if _asked(old, new) or _phase(old) != _phase(new) or waited > waits:
                sessions.queue.add(new.key, priority=USER if _asked(old, new) else EVENT)

        cache.on_change(Worker, worker_changed)
        cache.on_change(Session, session_changed)
        return [sessions, keeper]

    @property
    def _resync(self) -> float:
        return max(RESYNC_SECONDS, self.pace or 0.0)

    def _controller(
        self, context: Context, name: str, reconcile: Reconcile, concurrency: int
    ) -> Controller:
        return Controller(
            name,
            reconcile,
            queue=KeyQueue(context.clock, self.rng.stream(name)),
            clock=context.clock,
            concurrency=concurrency,
            observer=self.observer,
        )


def _notice(context: Context, changed: Resource | None) -> None:
    """Count from now how long a call may still take that another process has just recorded."""
    if isinstance(changed, Worker | Session) and changed.status.effect is not None:
        context.effects.noticed(changed.status.effect)


def _on_asked(queue: KeyQueue) -> Callable[[Resource | None, Resource | None], None]:
    """Return a handler that reacts to people's changes, not to the controller's own writes."""

    def changed(old: Resource | None, new: Resource | None) -> None:
        if new is None and old is not None:
            queue.add(old.key, priority=EVENT)
        elif new is not None and _asked(old, new):
            queue.add(new.key, priority=USER)

    return changed


def _always(key: Key) -> Callable[[], Iterable[Key]]:
    """Return a function that yields this one key at each resync."""
    return lambda: (key,)


def _wakes(queue: KeyQueue, key: Key) -> Callable[[Resource | None, Resource | None], None]:
    """Return a handler that requests a round when people change something."""

    def changed(old: Resource | None, new: Resource | None) -> None:
        if _asked(old, new):
            queue.add(key, priority=USER)

    return changed


def _asked(old: Resource | None, new: Resource | None) -> bool:
    """Tell whether the spec or another request of people changed."""
    if old is None or new is None:
        return True
    before, after = old.metadata, new.metadata
    return (before.generation, before.deletion_timestamp) != (
        after.generation,
        after.deletion_timestamp,
    )


def _phase(obj: Resource | None) -> str | None:
    return None if obj is None else obj.status.phase


def _keeps(obj: Resource | None) -> bool:
    """Tell whether it is a session that waits for its lab to be kept."""
    return isinstance(obj, Session) and keeping.is_waiting(obj)


def _fit(obj: Resource | None) -> bool:
    """Tell whether a lab would start on a worker: what is only booked there moves when not."""
    return isinstance(obj, Worker) and not worker_phases.unfit(obj)


def _bound(obj: Resource | None) -> tuple[Key, ...]:
    if obj is None or obj.status.worker is None or obj.status.phase not in session_phases.BOUND:
        return ()
    return (Ref(Worker, obj.namespace, obj.status.worker).key,)


def _moved(old: Resource | None, new: Resource | None) -> bool:
    return _bound(old) != _bound(new)


def _places(old: Resource | None, new: Resource | None) -> bool:
    """Tell whether a session began to wait or released capacity."""
    if _phase(new) == SessionPhase.PENDING and (_phase(old) != SessionPhase.PENDING):
        return True
    return _bound(old) != _bound(new) or (_asked(old, new) and _phase(new) == "PENDING")
