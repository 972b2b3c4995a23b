"""Metrics and lines in the log about the server itself: its store, its clock, the secretRefs, who leads."""

from __future__ import annotations

from collections.abc import Iterable

from labfleet.app import logs
from labfleet.app.metrics import Metrics, Sample
from labfleet.engine.clock_check import ClockTrouble, JudgedClock
from labfleet.engine.leader_watch import LeaderState
from labfleet.engine.secrets_check import Refusals, SecretsCheck
from labfleet.engine.store_health import StoreHealth, StoreState, StoreTrouble
from labfleet.kernel import clock
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.reads import leaders


class StoreLog:
    """Logs what the store cannot do: at its begin, each minute, and when it is over."""

    def __init__(self) -> None:
        self._log = logs.get("store")

    def store_trouble(self, trouble: StoreTrouble, detail: str) -> None:
        """Log a trouble that began or lasts."""
        self._log.error("store.trouble", **_said(trouble), count=trouble.count, detail=detail)

    def store_well(self, trouble: StoreTrouble) -> None:
        """Log the end of a trouble."""
        self._log.warning("store.well", **_said(trouble), count=trouble.count)


class ClockLog:
    """Logs when the clock begins and ceases to be odd."""

    def __init__(self) -> None:
        self._log = logs.get("clock")

    def __call__(self, trouble: ClockTrouble | None) -> None:
        """Log a trouble, or its end."""
        if trouble is None:
            self._log.warning("clock.well")
            return
        said = {"since": clock.format_instant(trouble.since), "detail": trouble.words}
        self._log.error("clock.trouble", reason=trouble.reason, **said)


class ReferenceLog:
    """Logs each secretRef that is refused, once, and when it no longer is."""

    def __init__(self) -> None:
        self._log = logs.get("app")

    def __call__(self, begun: Refusals, ended: Refusals) -> None:
        """Log a change; the words name the reference and never what it leads to."""
        for each in begun:
            said = {"object": str(each.key), "field": each.path, "detail": each.words}
            self._log.error("reference.refused", **said)
        for each in ended:
            self._log.info("reference.allowed", object=str(each.key), field=each.path)


def add_references(metrics: Metrics, check: SecretsCheck) -> None:
    """Add how many references are refused."""
    metrics.gauge(
        "labfleet_refused_references",
        "References to secrets (secretRefs) of stored objects that this server's settings do not allow.",
        (),
        lambda: [((), float(len(check.refused)))],
    )


def add_leaders(metrics: Metrics, services: ServiceContext) -> None:
    """Add who leads each role, and whether this process does."""

    def leads() -> Iterable[Sample]:
        for each in leaders.known(services):
            if each.state == LeaderState.LED:
                yield (each.role, each.holder), 1.0

    def here() -> Iterable[Sample]:
        for each in leaders.known(services):
            yield (each.role,), float(each.here)

    metrics.gauge(
        "labfleet_leader",
        "1 for the process that leads a role, as the store's leases tell; absent when none does.",
        ("role", "holder"),
        leads,
    )
    metrics.gauge(
        "labfleet_leads",
        "1 while this process leads the role, 0 while it stands by.",
        ("role",),
        here,
    )


def add_clock(metrics: Metrics, clock_of: JudgedClock) -> None:
    """Add how far the host's wall clock is from the time that holds."""
    metrics.gauge(
        "labfleet_clock_apart_seconds",
        "How far the host's clock is ahead of the fleet's time while its jump is not followed.",
        (),
        lambda: [((), clock_of.apart)],
    )


def _said(trouble: StoreTrouble) -> dict[str, str]:
    return {
        "state": trouble.state.value,
        "since": clock.format_instant(trouble.since),
        "reason": trouble.reason,
    }


def add_store_health(metrics: Metrics, health: StoreHealth) -> None:
    """Add the store's state and the writes that it refused."""

    def states() -> Iterable[Sample]:
        for each in StoreState:
            yield (each.value,), float(health.state is each)

    def refused() -> Iterable[Sample]:
        for reason, count in sorted(health.refused_writes.items()):
            yield (reason,), float(count)

    metrics.gauge(
        "labfleet_store_state",
        "1 for what this process's store can do now: ok, read-only, behind, unreadable.",
        ("state",),
        states,
    )
    metrics.counted(
        "labfleet_store_refused_writes",
        "Writes that the store could not take, by reason.",
        ("reason",),
        refused,
    )
