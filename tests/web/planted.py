"""A fleet of many workers with facts that somebody has to see: for tests of operators' pages."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
from browser import Browser
from fleet_world import MACHINE

from labfleet.interfaces import store as stores
from labfleet.resources import series
from labfleet.resources.amounts import Amounts, Reservation
from labfleet.resources.conditions import Condition, Measured
from labfleet.resources.decision import Decision
from labfleet.resources.group import Group, GroupSpec, GroupStatus
from labfleet.resources.held_ports import HeldPorts
from labfleet.resources.machine import Machine, MachineStatus
from labfleet.resources.meta import Metadata, Resource
from labfleet.resources.paid_time import PaidTime
from labfleet.resources.session import (
    PortAllocation,
    PortChange,
    Session,
    SessionPhase,
    SessionSpec,
)
from labfleet.resources.telemetry import (
    ComputeHealth,
    ComputeStats,
    ControllerHealth,
    Feature,
    Licensing,
    Room,
    Sample,
    SystemHealth,
    SystemStats,
)
from labfleet.resources.worker import (
    CmlStatus,
    Health,
    LicenceStatus,
    Worker,
    WorkerPhase,
    WorkerSpec,
    WorkerStatus,
)
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

GIB = 2**30
CAPACITY = Amounts(
    cpu_milli=48_000, memory_mib=188 * 1024, storage_mib=400 * 1024, nodes=200, labs=20, ports=6000
)


async def store(browser: Browser, *objects: Resource) -> None:
    """Write objects at once, as controllers would, and wait until the cache has them."""
    cause = stores.Cause("test", browser.world.clock.now(), reason="Made")
    for start in range(0, len(objects), stores.COMMIT_LIMIT):
        await browser.world.services.objects.save(
            *objects[start : start + stores.COMMIT_LIMIT], cause=cause
        )
    await browser.world.services.fresh()


def meta(browser: Browser, name: str) -> Metadata:
    """Return the metadata of a new object."""
    return Metadata(
        name=name, uid=browser.world.ids.uid(), creation_timestamp=browser.world.clock.now()
    )


def worker(browser: Browser, name: str, **status: Any) -> Worker:
    """Return a worker that is up, in a pool, on a machine whose price is known."""
    now = browser.world.clock.now()
    begun = now - timedelta(hours=4)
    machine = f"i-{browser.world.ids.count:017x}"
    known: dict[str, Any] = {
        "paid": PaidTime(machine=machine, disk_since=begun, running_since=begun, ready_at=begun),
        "phase": WorkerPhase.READY,
        "phase_since": now - timedelta(hours=3),
        "health": Health.HEALTHY,
        "capacity": CAPACITY,
        "machine": MachineStatus(
            id=machine,
            state="running",
            type="m5zn.metal",
            image="ami-1",
            zone="us-east-1a",
            public_address="203.0.113.7",
            private_address="10.0.0.7",
            launched=begun,
            volume="vol-1",
            host_check="ok",
            machine_check="ok",
        ),
        "cml": CmlStatus(version="2.9.0", ready=True, stage="ready", labs=2, running_nodes=7),
        "licence": LicenceStatus(
            registration="COMPLETED",
            authorization="IN_COMPLIANCE",
            registered=True,
            licensed=True,
            node_capacity=200,
            expires=(now + timedelta(days=90)).isoformat(),
        ),
    }
    return Worker(
        metadata=meta(browser, name),
        spec=WorkerSpec(pool="exam", template="metal", machine=msgspec.convert(MACHINE, Machine)),
        status=WorkerStatus(**(known | status)),
    )


def session(browser: Browser, name: str, on: str | None = None, **status: Any) -> Session:
    """Return a session that runs on a worker, or waits for one."""
    now = browser.world.clock.now()
    amounts = Amounts(cpu_milli=4000, memory_mib=16 * 1024, nodes=4, labs=1, ports=2)
    known: dict[str, Any] = {"phase": SessionPhase.PENDING, "phase_since": now}
    if on is None:
        why = "no worker has room: the nearest is short of 4 CPU"
        known["decision"] = Decision(
            outcome="waiting", reason="NoCapacityAvailable", message=why, at=now
        )
    else:
        known |= {
            "phase": SessionPhase.RUNNING,
            "worker": on,
            "hosted_since": now,
            "reservation": Reservation(holder=on, amounts=amounts, start=now),
            "ports": (PortAllocation(name="r1", node="r1", kind="serial", number=2001),),
        }
    made = Session(metadata=meta(browser, name), spec=SessionSpec(definition="two", owner="kim"))
    return msgspec.structs.replace(
        made, status=msgspec.structs.replace(made.status, **known | status)
    )


def fact(name: WorkerCondition, reason: WorkerReason, message: str, at: datetime) -> Condition:
    """Return a condition that is raised."""
    return Condition(
        type=name, status="True", reason=reason, message=message, last_transition_time=at
    )


def measure(browser: Browser, name: str, percent: float = 37.5) -> None:
    """Measure a worker now, in this process."""
    stats = SystemStats(
        cpu_count=48, cpu_percent=percent, memory=Room(total=192 * GIB, used=72 * GIB)
    )
    at = browser.world.clock.now()
    sample = Sample(worker=name, at=at, boot="i-1", stats=stats, licence=Licensing(licensed=True))
    browser.world.services.samples.put(sample)


async def fleet(browser: Browser, workers: int = 40, waiting: int = 30) -> None:
    """Plant workers, sessions that wait, and five facts that the first page has to tell.

    A licence that ends in two days, a drifted port, a stuck phase, a class that does not fit; the
    figure of costs is that of the workers: each costs 4.3605 US dollars an hour, and
    its disk 712.50 a month.
    """
    now = browser.world.clock.now()
    await browser.world.make("Template", "metal", {"machine": MACHINE})
    await browser.world.make("Pool", "exam", {"template": "metal", "scaling": {"maxWorkers": 50}})
    await browser.world.definition()
    ends = LicenceStatus(
        registered=True, licensed=True, expires=(now + timedelta(days=2)).isoformat()
    )
    drift = fact(
        WorkerCondition.PORT_DRIFT, WorkerReason.PORTS_DIFFER, "lab two names tcp/5041 unasked", now
    )
    stuck = fact(
        WorkerCondition.PHASE_STUCK, WorkerReason.OVER_LIMIT, "STARTING for 2 h, limit 25 min", now
    )
    stuck = msgspec.structs.replace(stuck, measured=Measured(value=120, unit="minutes", limit=25))
    made = [worker(browser, f"w-{number:03d}") for number in range(workers - 3)]
    made += [
        worker(browser, "w-licence", licence=ends),
        worker(browser, "w-drift", conditions=(drift,)),
        worker(browser, "w-stuck", phase=WorkerPhase.STARTING, conditions=(stuck,)),
    ]
    here = [
        session(browser, f"run-{number:03d}-{part}", f"w-{number:03d}")
        for number in range(0, workers - 3, 2)
        for part in range(3)
    ]
    waits = [session(browser, f"wait-{number:03d}") for number in range(waiting)]
    start = now + timedelta(hours=20)
    group = Group(
        metadata=meta(browser, "ccnp-monday"),
        spec=GroupSpec(definition="two", owner="ines", size=30),
        status=GroupStatus(start=start, end=start + timedelta(hours=4), asked=30, booked=18),
    )
    await store(browser, *made, *here, *waits, group)
    for number in range(0, workers - 3, 3):
        measure(browser, f"w-{number:03d}")


def sample_of(name: str, now: datetime) -> Sample:
    """Return what CML told of a worker with one compute: much of it, and not all."""
    compute = ComputeStats(
        hostname="compute-1", is_controller=True, cpu_count=48, cpu_percent=40.0, load=(3.5, 3.25, 3.0),
        memory=Room(total=192 * GIB, used=72 * GIB, free=120 * GIB), allocated_cpus=12,
        allocated_memory_mib=49_152, total_nodes=9, running_nodes=7,
    )  # fmt: skip
    health = ComputeHealth(
        hostname="compute-1", is_controller=True, admission_state="READY", valid=False,
        kvm_vmx_enabled=True, libvirt=True, fabric=False, memory_overload=False,
    )  # fmt: skip
    stats = SystemStats(
        cpu_count=48, cpu_percent=40.0, memory=compute.memory, running_nodes=7, total_nodes=9,
        computes={"c-1": compute}, gaps={"controller_disk": "the account is no admin"},
    )  # fmt: skip
    licence = Licensing(
        registration="COMPLETED", authorization="IN_COMPLIANCE", licensed=True, registered=True,
        smart_account="Exam School", authorization_expires="2027-02-01 10:00:00",
        features={"f-1": Feature(id="f-1", name="CML node expansion", in_use=50, max=300)},
    )  # fmt: skip
    system = SystemHealth(
        valid=False, computes={"c-1": health}, controller=ControllerHealth(valid=True)
    )
    return Sample(
        worker=name,
        at=now,
        boot="i-1",
        version="2.9.0",
        ready=True,
        uptime_seconds=3600,
        stats=stats,
        health=system,
        licence=licence,
    )


async def detailed(browser: Browser, name: str = "w-000") -> Worker:
    """Plant a worker of which CML and the provider told much, some of it unknown, with its history.

    Its CPU was measured for an hour, then not for an hour, then for an hour again.
    """
    now, services = browser.world.clock.now(), browser.world.services
    made = worker(browser, name)
    held = HeldPorts(
        transport="tcp", first=5041, last=5043, lab="lab-9", owner="mallory", since=now
    )
    status = msgspec.structs.replace(made.status, held_ports=(held,))
    made = msgspec.structs.replace(made, status=status)
    ran = session(browser, "ran-1", name)
    changed = (PortChange(name="r1", allocated=2001, observed=2099),)
    ran = msgspec.structs.replace(
        ran,
        status=msgspec.structs.replace(
            ran.status, observed_ports={"r1": 2099}, port_changes=changed
        ),
    )
    over = session(browser, "over-1", name, phase=SessionPhase.COMPLETED, ended_at=now)
    over = msgspec.structs.replace(
        over, status=msgspec.structs.replace(over.status, reservation=None, ports=())
    )
    await store(browser, made, ran, over)
    services.samples.put(sample_of(name, now))
    owner = series.Owner("Worker", made.metadata.uid)
    minutes = [each for each in range(1, 181) if not 60 < each <= 120]
    await services.series.merge_series(
        [
            stores.SeriesRow(
                owner, 60, series.bucket_start(now - timedelta(minutes=minute), 60),
                series.pack("Worker", series.single("Worker", {"cpu": 20.0 + minute % 7})),
            )
            for minute in minutes
        ]
    )  # fmt: skip
    return made
