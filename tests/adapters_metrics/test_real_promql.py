"""The built-in queries, asked of real Prometheus and real VictoriaMetrics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from promql_servers import serving
from real_meter import measured

from labfleet.resources.cluster_access import Figure

pytestmark = pytest.mark.real
MIB = 2**20
STEP = 5
LABEL = "label_labfleet_simulation_id"


def series(name: str, labels: str, values: list[tuple[int, float]]) -> Iterator[str]:
    for at, value in values:
        text = "NaN" if value != value else repr(value)
        yield f"{name}{{{labels}}} {text} {at * 1000}"


def grows(begin: int, end: int, rate: float, reset: int | None = None) -> list[tuple[int, float]]:
    """A counter; at `reset` it begins anew."""
    return [
        (at, rate * (at - (begin if reset is None or at < reset else reset)))
        for at in range(begin, end, STEP)
    ]


def pod_lines(
    where: str, name: str, begin: int, end: int, cpu: float, reset: int | None
) -> list[str]:
    """A pod as cAdvisor shows it: its container, its sandbox, and its cgroup, which has both."""
    of = f'{where}, namespace="lab", pod="{name}"'
    lines: list[str] = []
    for inside in (
        'container="c", image="i"',
        'container="POD", image="pause"',
        'container="", image=""',
    ):
        lines += series(
            "container_cpu_usage_seconds_total", f"{of}, {inside}", grows(begin, end, cpu, reset)
        )
        steady = [(at, 100.0 * MIB) for at in range(begin, end, STEP)]
        lines += series("container_memory_working_set_bytes", f"{of}, {inside}", steady)
        lines += series("container_fs_usage_bytes", f'{of}, {inside}, device="/dev/a"', steady)
    net = f'{of}, container="POD", image="pause", interface="eth0"'
    lines += series("container_network_receive_bytes_total", net, grows(begin, end, 1000.0))
    lines += series("container_network_transmit_bytes_total", net, grows(begin, end, 250.0))
    return lines


def young_lines(began: int, end: int) -> list[str]:
    """A pod that began within the window: a container's second life, and the network of its node."""
    of = 'cluster="a", namespace="lab", pod="y-0", container="c", image="i"'
    cpu = "container_cpu_usage_seconds_total"
    lives = (("first", began - 60, began - 5, 4.0), ("second", began, end, 0.5))
    lines: list[str] = []
    for life, first, last, rate in lives:
        lines += series(cpu, f'{of}, id="{life}", cpu="total"', grows(first, last, rate))
    lines += series(
        "container_start_time_seconds", f'{of}, id="second"', [(at, float(began)) for at in range(began, end, STEP)]
    )  # fmt: skip
    box = 'cluster="a", namespace="lab", pod="y-0", container="", image=""'
    lines += series(
        "container_start_time_seconds", box, [(at, float(began)) for at in range(began, end, STEP)]
    )
    node = [(at, 1e12 + 1000.0 * (at - began)) for at in range(began, end, STEP)]
    lines += series("container_network_receive_bytes_total", f'{box}, interface="eth0"', node)
    return lines


def node_lines(where: str, name: str, begin: int, end: int, cpu: float) -> list[str]:
    of = f'{where}, node="{name}", instance="{name}:10250", id="/"'
    steady = [(at, 2048.0 * MIB) for at in range(begin, end, STEP)]
    lines = [
        *series("container_cpu_usage_seconds_total", of, grows(begin, end, cpu)),
        *series("container_memory_working_set_bytes", of, steady),
        *series("container_fs_usage_bytes", f'{of}, device="/dev/sda1"', steady),
        *series("container_fs_usage_bytes", f'{of}, device="tmpfs"', steady),
    ]
    for card in ("eth0", "cali1", "cni0", "lo"):
        wire = f'{of}, interface="{card}"'
        lines += series("container_network_receive_bytes_total", wire, grows(begin, end, 5000.0))
        lines += series("container_network_transmit_bytes_total", wire, grows(begin, end, 1000.0))
    return lines


def history(now: int) -> str:
    """Two clusters of one name each, of which a has what tests ask about."""
    begin, end = now - 300, now + 1
    lines = []
    for place, factor in (("a", 1.0), ("b", 7.0)):
        where = f'cluster="{place}"'
        lines += pod_lines(where, "a-0", begin, end, 0.5 * factor, None)
        lines += pod_lines(where, "a-1", begin, end, 0.5 * factor, now - 60)
        lines += pod_lines(where, "x-0", begin, end, 0.25 * factor, None)
        lines += node_lines(where, "n1", begin, end, 1.5 * factor)
        labels = {"a-0": "run-a", "a-1": "run-a", "x-0": "", "s-0": "run-s", "z-0": "run-z",
                  "y-0": "run-y"}  # fmt: skip
        for name, run in labels.items():
            told = f', {LABEL}="{run}"' if run else ""
            of = f'{where}, namespace="lab", pod="{name}", uid="u"{told}'
            lines += series("kube_pod_labels", of, [(at, 1.0) for at in range(begin, end, STEP)])
        for run, until in (("run-r2", end), ("run-r1", now - 20)):
            of = f'{where}, namespace="lab", pod="r-0", uid="{run}", {LABEL}="{run}"'
            lines += series("kube_pod_labels", of, [(at, 1.0) for at in range(begin, until, STEP)])
    lines += pod_lines('cluster="a"', "s-0", begin, now - 150, 1.0, None)
    lines += pod_lines('cluster="a"', "r-0", begin, end, 1.0, None)
    lines += young_lines(now - 50, end)
    of = 'cluster="a", namespace="lab", pod="z-0", container="c", image="i"'
    nothing = [(at, float("nan")) for at in range(begin, end, STEP)]
    lines += series("container_memory_working_set_bytes", of, nothing)
    # A family stands together, as OpenMetrics wants it.
    return "\n".join(sorted(lines, key=lambda each: each.partition("{")[0])) + "\n"


def test_built_in_queries_give_what_a_history_says(name: str, tmp_path: Path) -> None:
    """Resets, NaN, stale series, sandboxes, pods young or made anew, two clusters on one server."""
    with serving(name, tmp_path, history(int(time.time()))) as (url, _):
        found = measured(url, matchers='cluster="a"')
        other = measured(url, matchers='cluster="b"')
    run = found.now["run-a"]
    assert run["cpu_milli"] == pytest.approx(1000, rel=0.05)
    assert run["memory_mib"] == run["storage_mib"] == 200.0
    assert run["network_in_kbps"] == pytest.approx(16.0, rel=0.05)
    assert run["network_out_kbps"] == pytest.approx(4.0, rel=0.05)
    assert found.others["cpu_milli"] == pytest.approx(250, rel=0.05)
    assert found.others["memory_mib"] == 100.0
    assert "run-s" not in found.now
    assert "run-s: its oldest sample is 15" in found.gaps[Figure.RUN_STORAGE]
    assert "run-z" not in found.now
    assert Figure.RUN_MEMORY in found.gaps
    assert "run-r1" not in found.now
    assert found.now["run-r2"]["cpu_milli"] == pytest.approx(1000, rel=0.05)
    # Its container's first life counts no more; of the node's network what it grew by does.
    assert found.now["run-y"]["cpu_milli"] == pytest.approx(500, rel=0.05)
    assert found.now["run-y"]["network_in_kbps"] == pytest.approx(8.0, rel=0.15)
    assert found.load["cpu_milli"] == pytest.approx(1500, rel=0.05)
    assert found.load["memory_mib"] == found.load["storage_mib"] == 2048.0
    assert found.load["network_kbps"] == pytest.approx(40.0, rel=0.05)
    assert other.now["run-a"]["cpu_milli"] == pytest.approx(7000, rel=0.05)
    assert other.load["cpu_milli"] == pytest.approx(10500, rel=0.05)
