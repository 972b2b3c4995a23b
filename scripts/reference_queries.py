"""The page of the built-in PromQL: reference.py writes it with the others."""

from __future__ import annotations

from labfleet.adapters.kubernetes import readings
from labfleet.adapters.metrics import meter, promql, queries, replies
from labfleet.resources import cluster_access
from labfleet.resources.cluster_access import RUN_LABEL, Figure, MetricsSource

_UNITS = {
    1000.0: ("cores", "milli-CPU"),
    1 / 2**20: ("bytes", "MiB"),
    8 / 1000: ("bytes/s", "kbit/s"),
}
_HEAD = """# Queries for metrics

What a [source of metrics]({kinds}#cluster) of kind `promql` is asked, unless its `queries` say otherwise:
`POST URL/api/v1/query` of Prometheus or VictoriaMetrics, every half minute. How to connect one:
[connect a cluster](../how-to/{connect}).

A query of your own (`spec.metrics[].queries.FIGURE`) gives the same unit, an instant vector of at most
{series} series, and one series for each run or node: of runs with the label `{label}` (that of
`spec.kubernetes.runLabel`, as kube-state-metrics spells it), of nodes with `node` or `instance`. A series of runs without
the label's value is what all pods of no run use. `$matchers` and `$label` in it stand for the source's
matchers and for the label's name.
"""
_RULES = """## What is believed

- **Unit.** cores, bytes and bytes per second are asked for; kept are milli-CPU, MiB and kbit/s. Of a network
  the busier direction counts.
- **Window.** Counters count by their rate over `windowSeconds` ({window}), resets taken into account: at least {scrapes} times
  what is between two scrapes. Of a run's container that began within it the mean since its start counts
  (`container_start_time_seconds`, which cAdvisor has), over a quarter of the window at least. Where nobody tells when it began,
  Prometheus tells less than it uses until the window is full, VictoriaMetrics the rate since then.
- **Staleness.** Beside each value the instant of the oldest sample in it is asked for (the second query). Older than
  `staleSeconds` (120) by the server's own clock, the value is unknown. A query of your own has no such instant: it must
  leave out by itself what is old.
- **Clock.** A server whose clock differs from ours by more than {clock:g} s is not believed at all, and says so (`ClockOff`).
- **Unknown is not 0.** No series, NaN, an infinity, a negative value, two series for one run, an answer with warnings or
  parts missing: the figure is unknown for that run or node, and the reason is told. A load of which one node is
  unknown is unknown.
- **Which source.** The first of `spec.metrics` that knows a figure is believed; the next ones are asked only for what
  is missing.
- **Bounds.** {query:g} s and {size} MiB for an answer, {together} queries to one source at once, {total:g} s for all of one source.

Two clusters on one server: give each source `matchers`, for example `cluster="lab-1"`; they stand in every
selector of every built-in query.

A source of kind `kubernetes` asks metrics.k8s.io through `spec.kubernetes`: it knows {kubernetes}, and nothing else.
"""


def page_queries() -> str:
    """Return the page: rules, and of each figure both queries."""
    limits = promql.Limits()
    source = MetricsSource(name="example")
    known = sorted(each.value for each in (*readings.OF_RUNS, *readings.OF_NODES))
    parts = [
        _HEAD.format(
            series=replies.SERIES,
            label=queries.label_name(RUN_LABEL),
            kinds="kinds.md",
            connect="connect-a-cluster.md",
        ),
        _RULES.format(
            window=source.window_seconds,
            scrapes=queries.SCRAPES,
            clock=limits.clock,
            query=limits.query.total,
            size=limits.reply_bytes // 2**20,
            together=limits.together,
            total=meter.SOURCE_SECONDS,
            kubernetes=", ".join(f"`{each}`" for each in known),
        ),
        f"The label of runs is here `{cluster_access.RUN_LABEL}`.\n",
    ]
    for figure in Figure:
        asked, kept = _UNITS[queries.SERIES[figure].scale]
        value = queries.value_query(figure, source, RUN_LABEL)
        age = queries.age_query(figure, source, RUN_LABEL)
        parts.append(
            f"## {figure.value}\n\nIn {asked}, kept in {kept}.\n\n"
            f"```promql\n{value}\n```\n\n```promql\n{age}\n```\n"
        )
    return "\n".join(parts)
