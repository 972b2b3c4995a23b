"""Metrics of the store's health and of refused writes, and its lines in the log."""

from __future__ import annotations

from collections.abc import Iterable

from labfleet.app import logs
from labfleet.app.metrics import Metrics, Sample
from labfleet.engine.store_health import StoreHealth, StoreState, StoreTrouble
from labfleet.kernel import clock


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
