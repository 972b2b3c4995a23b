"""The built-in PromQL, by figure: cAdvisor's series joined with kube-state-metrics' labels. Pure.

Both Prometheus and VictoriaMetrics take them. Values come in cores, bytes and bytes per second; what a
run's query gives without a label's value is what all pods of no run use. What a figure's oldest sample
is, a query of its own tells: the sum itself has the time of its evaluation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from labfleet.resources.cluster_access import Figure, MetricsSource

SCRAPES = 4
"""A window of rates is so many scrapes long, so that one may be missing."""
START = "container_start_time_seconds"
MATCHERS = "$matchers"
LABEL = "$label"
_ODD = re.compile(r"[^a-zA-Z0-9_]")
_HUMP = re.compile(r"([a-z0-9])([A-Z])")
_CONTAINERS = 'container!="", container!="POD", image!=""'
# A pod's network belongs to its sandbox, which some runtimes show as a container and some do not.
_PODS = 'pod!=""'
_MACHINE = 'id="/"'
_CARDS = (
    'id="/", interface!~"(lo|veth|cali|cni|docker|flannel|vxlan|tunl|br-|lxc|cilium|kube-|weave|gke|'
    'dummy|virbr|ifb|nodelocaldns).*"'
)
"""Interfaces of the machine itself: through the others the same bytes pass again."""
_DISKS = 'id="/", device=~"/dev/.*"'


@dataclass(frozen=True, slots=True)
class Series:
    """What a figure is made of.

    name: Of the metric.
    only: Matchers that choose its series.
    counter: Whether its rate counts.
    scale: From the query's unit to ours: milli-CPU, MiB, kbit/s.
    """

    name: str
    only: str
    counter: bool
    scale: float


_CPU = ("container_cpu_usage_seconds_total", True, 1000.0)
_MEMORY = ("container_memory_working_set_bytes", False, 1 / 2**20)
_IN = ("container_network_receive_bytes_total", True, 8 / 1000)
_OUT = ("container_network_transmit_bytes_total", True, 8 / 1000)
_STORAGE = ("container_fs_usage_bytes", False, 1 / 2**20)


def _series(of: tuple[str, bool, float], only: str) -> Series:
    name, counter, scale = of
    return Series(name, only, counter, scale)


SERIES: dict[Figure, Series] = {
    Figure.RUN_CPU: _series(_CPU, _CONTAINERS),
    Figure.RUN_MEMORY: _series(_MEMORY, _CONTAINERS),
    Figure.RUN_NETWORK_IN: _series(_IN, _PODS),
    Figure.RUN_NETWORK_OUT: _series(_OUT, _PODS),
    Figure.RUN_STORAGE: _series(_STORAGE, _CONTAINERS),
    Figure.NODE_CPU: _series(_CPU, _MACHINE),
    Figure.NODE_MEMORY: _series(_MEMORY, _MACHINE),
    Figure.NODE_NETWORK_IN: _series(_IN, _CARDS),
    Figure.NODE_NETWORK_OUT: _series(_OUT, _CARDS),
    Figure.NODE_STORAGE: _series(_STORAGE, _DISKS),
}
OF_RUNS = frozenset(each for each in Figure if each.value.startswith("run"))


def label_name(label: str) -> str:
    """Return how kube-state-metrics calls a pod's label: `label_labfleet_simulation_id`."""
    snake = _HUMP.sub(r"\1_\2", _ODD.sub("_", label))
    return f"label_{snake.lower()}"


def value_query(figure: Figure, source: MetricsSource, label: str) -> str:
    """Return what is asked for the values of a figure."""
    own = source.queries.get(figure)
    if own is not None:
        return own.replace(MATCHERS, source.matchers).replace(LABEL, label_name(label))
    series = SERIES[figure]
    chosen = _chosen(series, source)
    each = f"rate({chosen}[{source.window_seconds}s])" if series.counter else chosen
    if figure not in OF_RUNS:
        return f"sum by (node, instance) ({each})"
    if series.counter:
        each = f"{_young(figure, source)} or on (namespace, pod, container) {each}"
    return _joined(f"sum by (namespace, pod) ({each})", source, label, "sum")


def age_query(figure: Figure, source: MetricsSource, label: str) -> str | None:
    """Return what is asked for the instant of the oldest sample; None for a query of the user's own."""
    if figure in source.queries:
        return None
    stamps = f"timestamp({_chosen(SERIES[figure], source)})"
    if figure not in OF_RUNS:
        return f"min by (node, instance) ({stamps})"
    return _joined(f"min by (namespace, pod) ({stamps})", source, label, "min")


def _young(figure: Figure, source: MetricsSource) -> str:
    """Return the mean since their start of containers that began within the window.

    A rate over the whole window would tell less than they take. What one has counted since its start is the
    counter itself; the network's may be the node's own, which began long before, so that of it only
    what it grew by counts. Of a container younger than one scrape the mean over a scrape counts: what
    it takes in its first moments is no use that lasts. What the name's last container took before
    does not count any more.
    """
    series, window = SERIES[figure], source.window_seconds
    chosen = _chosen(series, source)
    began = f"{START}{{{_with(series.only, source)}}}"
    age = f"(timestamp({chosen}) - ignoring (cpu, interface) group_left () {began})"
    counted = chosen if series.name == _CPU[0] else f"increase({chosen}[{window}s])"
    return f"{counted} / clamp_min({age} < {window}, {window / SCRAPES:g})"


def _chosen(series: Series, source: MetricsSource) -> str:
    return f"{series.name}{{{_with(series.only, source)}}}"


def _with(only: str, source: MetricsSource) -> str:
    return ", ".join(filter(None, (only, source.matchers)))


def _joined(pods: str, source: MetricsSource, label: str, total: str) -> str:
    """Return the pods' values by run.

    topk: a pod that was made anew under its name has two rows of labels until the old one is stale,
    and a join with both is an error; the one seen last holds, whose instant ^ 0 makes 1.
    """
    name = label_name(label)
    rows = f"timestamp(kube_pod_labels{{{_with('', source)}}})"
    newest = f"topk by (namespace, pod) (1, max by (namespace, pod, {name}) ({rows})) ^ 0"
    return f"{total} by ({name}) ({pods} * on (namespace, pod) group_left ({name}) ({newest}))"
