"""What clusters have, may be filled to, have promised and really use, as bars with their words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from labfleet.decisions import ledger
from labfleet.decisions.admission.targets import targets
from labfleet.kernel import clock
from labfleet.resources import conditions
from labfleet.resources.cluster import Cluster, as_seen, capacity_of, others_of
from labfleet.resources.cluster_conditions import ClusterCondition
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import cluster_mode, indices
from labfleet.service.reads.usage import Usage
from labfleet.web import bars, values
from labfleet.web.bars import Bar
from labfleet.web.values import Cell

_SHOWN = ("cpu_milli", "memory_mib", "network_kbps")
_MODES = {
    "measured": Cell("state", "measured", tone="good", shape="●"),
    "safe": Cell("state", "safe mode", tone="warn", shape="▲"),
    "unmeasured": Cell("state", "not measured", tone="calm", shape="○"),
}
_BYTES_OF_KBIT = 125.0


@dataclass(frozen=True, slots=True)
class ClusterBars:
    """One cluster: where its page is, how it is decided on and why, its bars by dimension.

    `live` says of what age the measured use is, or why it is unknown.
    """

    name: str
    href: str
    mode: Cell
    why: str
    runs: int
    waiting: int
    bars: tuple[tuple[str, Bar | None], ...]
    live: Cell


def of(services: ServiceContext, cluster: Cluster, usage: Usage | None) -> ClusterBars:
    """Return the bars of a cluster; `usage` is what was measured of it, None when nothing was."""
    cache, path = services.cache, cluster.key.path
    holding = cache.by(indices.SIMULATIONS_HOLDING, path)
    reserved = [each.status.reservation for each in holding]
    held = ledger.promised([each for each in reserved if each], services.clock.now())
    found = conditions.find(cluster.status.conditions, ClusterCondition.SAFE_MODE)
    mode = cluster_mode.mode_of(cluster)
    used = measured(usage)
    shown = list[tuple[str, Bar | None]]()
    for name in _SHOWN:
        title = bars.TITLES[name]
        if not getattr(capacity_of(cluster), name):
            shown.append((title, None))
            continue
        shown.append((title, _bar(cluster, name, getattr(held, name), used)))
    return ClusterBars(
        name=cluster.key.label,
        href=values.address("clusters", cluster.name, cluster.namespace),
        mode=_MODES[mode],
        why=found.message if mode == "safe" and found is not None else "",
        runs=len(holding),
        waiting=cache.count(indices.SIMULATIONS_QUEUED, path),
        bars=tuple(shown),
        live=_live(services, usage),
    )


def _bar(cluster: Cluster, name: str, held: int, used: Mapping[str, float]) -> Bar:
    """Return the bar of one dimension; what nobody looked at is said to be unknown."""
    whole, most = getattr(capacity_of(cluster), name), getattr(targets(as_seen(cluster)), name)
    parts: list[tuple[str, str, float]] = []
    more = [f"of {bars.short(name, whole)}"]
    if cluster.status.seen is None:
        more.append("what pods of no run take is unknown")
    else:
        parts.append(("others", "taken by pods of no run", getattr(others_of(cluster), name)))
    parts.append(("held", "predicted for runs", held))
    if name in used:
        parts.append(("used", "really used", used[name]))
    percent = getattr(cluster.spec, name.partition("_")[0] + "_percent")
    marks = [(f"target {percent} %:", most)]
    return bars.bar(name, whole, parts, marks=marks, more=more, limit=most)


def measured(usage: Usage | None) -> Mapping[str, float]:
    """Return what was measured, by dimension of amounts; what nobody measured is absent."""
    if usage is None or usage.minute is None:
        return {}
    numbers, found = usage.numbers, dict[str, float]()
    for name, metric in (("cpu_milli", "cpu"), ("memory_mib", "memory")):
        if metric in numbers:
            found[name] = numbers[metric]
    network = [numbers[each] for each in ("networkIn", "networkOut") if each in numbers]
    if network:
        found["network_kbps"] = max(network) / _BYTES_OF_KBIT
    return found


def _live(services: ServiceContext, usage: Usage | None) -> Cell:
    if usage is None or usage.minute is None:
        return Cell("unknown", "unknown", why="not measured in the last minutes")
    shown = values.instant(usage.minute, services.clock.now())
    return Cell("time", f"measured {shown.text}", at=clock.format_instant(usage.minute),
                exact=shown.exact)  # fmt: skip
