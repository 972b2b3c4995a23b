"""Figures of metrics.k8s.io: CPU and memory of pods and nodes, as the kubelets measured them. Pure.

It tells no network and no storage. A run of which a running pod has no figure is not known: part of
a run would look like all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from labfleet.adapters.kubernetes.objects import NodeFigures, PodFigures
from labfleet.adapters.kubernetes.pods import PodSeen, amounts
from labfleet.interfaces.cluster_meter import OTHERS, Reading
from labfleet.kernel.clock import parse_instant
from labfleet.resources.cluster_access import Figure

OF_RUNS = {Figure.RUN_CPU: "cpu_milli", Figure.RUN_MEMORY: "memory_mib"}
OF_NODES = {Figure.NODE_CPU: "cpu_milli", Figure.NODE_MEMORY: "memory_mib"}
UNTOLD = "metrics.k8s.io does not tell it"


def untold(figures: Sequence[Figure]) -> dict[Figure, str]:
    """Return the figures that this source never knows, with why."""
    return {each: UNTOLD for each in figures if each not in OF_RUNS and each not in OF_NODES}


def of_runs(
    found: Iterable[PodFigures],
    pods: Iterable[PodSeen],
    run_of: Callable[[PodSeen], str],
    fresh: Callable[[datetime], bool],
) -> Reading:
    """Return what runs and others use; ValueError of odd amounts."""
    measured: dict[tuple[str, str], dict[str, int] | None] = {}
    for each in found:
        meta = each.metadata
        total: dict[str, int] = {}
        for part in each.containers or ():
            for name, value in amounts(part.usage).items():
                total[name] = total.get(name, 0) + value
        measured[meta.namespace, meta.name] = total if _fresh(each.timestamp, fresh) else None
    sums: dict[str, dict[str, float]] = {}
    missing: dict[str, str] = {}
    for pod in pods:
        if pod.over or pod.phase == "Pending":
            continue
        run = run_of(pod) or OTHERS
        use = measured.get((pod.namespace, pod.name))
        if not use:
            missing[run] = pod.name
            continue
        into = sums.setdefault(run, {})
        for name, value in use.items():
            into[name] = into.get(name, 0.0) + value
    return _reading(OF_RUNS, sums, missing)


def of_nodes(found: Iterable[NodeFigures], fresh: Callable[[datetime], bool]) -> Reading:
    """Return what nodes use; ValueError of odd amounts."""
    sums: dict[str, dict[str, float]] = {}
    missing: dict[str, str] = {}
    for each in found:
        if _fresh(each.timestamp, fresh):
            sums[each.metadata.name] = dict(amounts(each.usage))
        else:
            missing[each.metadata.name] = each.metadata.name
    return _reading(OF_NODES, sums, missing)


def _reading(
    names: dict[Figure, str], sums: dict[str, dict[str, float]], missing: dict[str, str]
) -> Reading:
    values: dict[Figure, dict[str, float]] = {}
    gaps: dict[Figure, str] = {}
    for figure, name in names.items():
        known = {
            key: each[name] for key, each in sums.items() if key not in missing and name in each
        }
        if known:
            values[figure] = known
        else:
            gaps[figure] = "metrics.k8s.io has no fresh figures of it"
        if missing:
            lost = next(iter(missing.values()))
            gaps[figure] = f"no fresh figures of {lost} and {len(missing) - 1} others"
    return Reading(values, gaps)


def _fresh(text: str, fresh: Callable[[datetime], bool]) -> bool:
    try:
        return fresh(parse_instant(text))
    except ValueError:
        return False
