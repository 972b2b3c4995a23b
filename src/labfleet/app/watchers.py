"""Observers of the engine: log and count every reconcile and every change of a role."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from labfleet.app import logs
from labfleet.app.metrics import Metrics, Sample
from labfleet.engine.cache import Cache
from labfleet.engine.controller import Controller, Outcome
from labfleet.engine.supervisor import State
from labfleet.resources.decision import Decision
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Key
from labfleet.service.core.fleet_settings import SettingsReader

_USUAL = frozenset({Outcome.DONE, Outcome.AGAIN, Outcome.CANCELLED})
_ON_ITS_WAY = frozenset({State.WAITING, State.RUNNING})
_EXPECTED = frozenset({Outcome.CONFLICT, Outcome.FENCED, Outcome.GONE})


class Watcher:
    """A ReconcileObserver, a SupervisorObserver and an ElectionObserver."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._log = logs.get("engine")
        self._lost = False

    def reconciled(
        self,
        controller: str,
        key: Key,
        outcome: Outcome,
        seconds: float,
        error: BaseException | None,
    ) -> None:
        """Count and log one reconcile, at level debug unless it went wrong."""
        self._metrics.reconciles.labels(controller, outcome.value).inc()
        self._metrics.reconcile_seconds.labels(controller).observe(seconds)
        said = {"controller": controller, "object": str(key), "outcome": outcome.value}
        if outcome in _USUAL:
            self._log.debug("reconcile", **said, seconds=round(seconds, 4))
        elif outcome is Outcome.BUG:
            self._log.error("reconcile.bug", **said, exc_info=error)
        elif outcome in _EXPECTED:
            self._log.info("reconcile.retry", **said, error=str(error))
        else:
            self._log.warning("reconcile.trouble", **said, error=str(error))

    def decided(self, decision: Decision) -> None:
        """Count one decision of the scheduler: outcome, reason, candidates, how long it took."""
        metrics = self._metrics
        labels = (decision.outcome, decision.reason, str(decision.strategy))
        metrics.placement_decisions.labels(*labels).inc()
        if decision.latency_ms is not None:
            metrics.placement_seconds.observe(decision.latency_ms / 1e3)
            metrics.placement_candidates.observe(decision.evaluated)

    def role_changed(
        self, role: str, state: State, error: BaseException | None, wait: float
    ) -> None:
        """Count and log one change of a role."""
        if error is not None:
            self._metrics.role_restarts.labels(role).inc()
            self._log.error("role.failed", role=role, wait=round(wait, 2), exc_info=error)
        elif state in _ON_ITS_WAY or (state is State.STANDBY and not self._lost):
            # A start at which all is well would be twenty lines; before a lead was lost, to stand
            # by is how every role begins.
            self._log.debug("role", role=role, state=state.value)
        else:
            self._log.info("role", role=role, state=state.value)

    def lead_taken(self, name: str, token: int) -> None:
        """Count and log that this process leads a role now."""
        self._log.info("lead.taken", role=name, term=token)

    def lead_lost(self, name: str, token: int) -> None:
        """Count and log a lost lead: one line, and no error, for the next process goes on."""
        self._lost = True
        self._metrics.leads_lost.labels(name).inc()
        self._log.warning(
            "lead.lost",
            role=name,
            term=token,
            detail="this process stands by; what it had begun is looked up by the one that leads",
        )


def add_gauges(metrics: Metrics, cache: Cache, controllers: list[Controller]) -> None:
    """Add what is read from cache and queues at each scrape."""

    def objects() -> Iterable[Sample]:
        for name, row in KINDS.items():
            counts: Counter[tuple[str, str]] = Counter()
            for obj in cache.all(row.type):
                counts[obj.namespace, str(getattr(obj.status, "phase", "")) or "-"] += 1
            for (namespace, phase), count in sorted(counts.items()):
                yield (name, namespace, phase), float(count)

    def depths() -> Iterable[Sample]:
        for controller in controllers:
            yield (controller.name,), float(len(controller.queue))

    def unreadable() -> Iterable[Sample]:
        for name in KINDS:
            count = sum(key.kind == name for key in cache.quarantined)
            yield (name,), float(count)

    metrics.gauge(
        "labfleet_objects",
        "Objects by kind, namespace and phase.",
        ("kind", "namespace", "phase"),
        objects,
    )
    metrics.gauge(
        "labfleet_unreadable_objects",
        "Stored objects that cannot be read: nothing acts on them until they are mended.",
        ("kind",),
        unreadable,
    )
    metrics.gauge("labfleet_queue_depth", "Keys in a controller's queue.", ("controller",), depths)


def add_pauses(metrics: Metrics, settings: SettingsReader) -> None:
    """Add what is paused: one row for everything, one for each pool that is paused alone."""

    def paused() -> Iterable[Sample]:
        pauses = settings.pauses()
        yield ("*", "*"), float(any(each.pool is None for each in pauses))
        for each in pauses:
            if each.pool is not None:
                yield (each.namespace, each.pool), 1.0

    metrics.gauge(
        "labfleet_paused",
        "1 while automatic actions are paused; pool * is everything.",
        ("namespace", "pool"),
        paused,
    )
