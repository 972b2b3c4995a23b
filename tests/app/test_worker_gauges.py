"""Gauges of workers: numbers, checks and alerts; what is unknown is absent, never 0."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from labfleet.app.metrics import Metrics
from labfleet.app.worker_gauges import add_worker_gauges
from labfleet.engine.samples import SampleRing
from labfleet.resources import conditions
from labfleet.resources.machine import MachineStatus
from labfleet.resources.meta import Key, Metadata
from labfleet.resources.telemetry import ProviderPoint, Sample, SystemStats
from labfleet.resources.worker import CmlStatus, Worker, WorkerPhase, WorkerStatus

NOW = datetime(2026, 11, 27, 9, 0, tzinfo=UTC)
LIFE = timedelta(seconds=90)


class Still:
    """A clock that stands."""

    def now(self) -> datetime:
        return NOW


class Kept:
    """A cache of two workers."""

    def all(self, _kind: Any) -> list[Worker]:
        facts = conditions.put((), "CpuHigh", "True", "OverThreshold", now=NOW)
        ec2 = MachineStatus(host_check="ok", machine_check="impaired")
        new = MachineStatus(host_check="initializing")
        return [
            Worker(metadata=Metadata(name="w1"),
                   status=WorkerStatus(phase=WorkerPhase.READY, conditions=facts, machine=ec2,
                                       cml=CmlStatus(labs=0))),
            Worker(metadata=Metadata(name="w2"), status=WorkerStatus(machine=new)),
            Worker(metadata=Metadata(name="w3"),
                   status=WorkerStatus(phase=WorkerPhase.TERMINATED, conditions=facts, machine=ec2)),
        ]  # fmt: skip

    def by(self, index: Any, value: Any) -> list[Worker]:
        if index.kind is not Worker:
            return []  # nothing is promised
        return [each for each in self.all(Worker) if value in index.values(each)]


def exposed(*, point_age: float = 400, sample_age: float | None = None) -> list[str]:
    """The exposition's samples of one scrape, of what was measured so many seconds ago."""
    metrics, ring = Metrics(), SampleRing()
    at = NOW - timedelta(seconds=point_age)
    if sample_age is not None:
        stats = SystemStats(cpu_percent=3, running_nodes=2)
        then = NOW - timedelta(seconds=sample_age)
        ring.put(Sample(worker="w1", at=then, boot="i-1", stats=stats))
    ring.put_points(
        Key("Worker", "default", "w1"),
        [ProviderPoint(at=at, seconds=300, cpu_percent=7, network_in_bytes_per_second=10)],
    )
    add_worker_gauges(metrics, ring, Still(), Kept(), lambda: LIFE)  # type: ignore[arg-type]
    lines = metrics.text()[0].decode().splitlines()
    assert 'labfleet_worker_reserved{namespace="default",resource="labs",worker="w1"} 0.0' in lines
    assert not any("labfleet_worker_available" in line for line in lines if "{" in line)
    ports = [line for line in lines if line.startswith("labfleet_worker_ports{")]
    free = (
        'labfleet_worker_ports{namespace="default",state="free",transport="tcp",worker="w1"} 6000.0'
    )
    assert free in ports
    assert not any('worker="w2"' in line for line in ports)
    other = ("labfleet_worker_reserved", "labfleet_worker_ports")
    return [
        line for line in lines if line.startswith("labfleet_worker") and not line.startswith(other)
    ]


def test_checks_alerts_and_cloudwatch_are_gauges() -> None:
    """One line for each known value of a living worker."""
    assert set(exposed()) == {
        'labfleet_worker_cloudwatch_cpu_percent{namespace="default",worker="w1"} 7.0',
        'labfleet_worker_cloudwatch_network_bytes_per_second{direction="in",namespace="default",worker="w1"} 10.0',
        'labfleet_worker_cloudwatch_age_seconds{namespace="default",worker="w1"} 100.0',
        'labfleet_worker_ec2_check{check="system",namespace="default",worker="w1"} 1.0',
        'labfleet_worker_ec2_check{check="instance",namespace="default",worker="w1"} 0.0',
        'labfleet_worker_alert{condition="CpuHigh",namespace="default",severity="warning",worker="w1"} 1.0',
    }


def test_what_was_not_measured_again_in_time_has_only_an_age() -> None:
    """A value that nobody renews is not shown as the present one, neither CML's nor CloudWatch's."""

    def shown(**ages: float) -> set[str]:
        return {
            line for line in exposed(**ages) if "_ec2_check" not in line and "_alert{" not in line
        }

    labels = '{namespace="default",worker="w1"}'
    fresh = shown(sample_age=90)
    assert f"labfleet_worker_cpu_percent{labels} 3.0" in fresh
    assert 'labfleet_worker_nodes{namespace="default",state="running",worker="w1"} 2.0' in fresh
    assert shown(sample_age=91, point_age=1501) == {
        f"labfleet_worker_sample_age_seconds{labels} 91.0",
        f"labfleet_worker_cloudwatch_age_seconds{labels} 1201.0",
    }
