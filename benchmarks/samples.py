"""What several benchmarks need: an opened store, and objects of a true size."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from labfleet.app.system import SystemClock, SystemIds
from labfleet.interfaces import store as stores
from labfleet.resources import kinds
from labfleet.resources.amounts import Amounts, Reservation
from labfleet.resources.decision import Decision, Verdict
from labfleet.resources.meta import Metadata
from labfleet.resources.session import (
    PortAllocation,
    Session,
    SessionPhase,
    SessionSpec,
    SessionStatus,
    Slot,
)
from labfleet.stores.opening import open_store
from labfleet.stores.runners import Threads

START = datetime(2026, 11, 27, 9, 0, tzinfo=UTC)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[stores.Store]:
    """Open a store as the server does, with threads and the real clock."""
    store = await open_store(url, runner=Threads(readers=3), ids=SystemIds(), clock=SystemClock())
    try:
        yield store
    finally:
        await store.close()


def session(number: int) -> Session:
    """Return a session that is placed and has ports, a reservation and a decision."""
    amounts = Amounts(cpu_milli=6000, memory_mib=8192, storage_mib=20480, nodes=6, labs=1, ports=8)
    end = START + timedelta(hours=2)
    worker = f"worker-{number % 50:03d}"
    return Session(
        metadata=Metadata(
            name=f"session-{number:06d}",
            uid=f"{number:08x}-0000-4000-8000-000000000000",
            labels={"course": f"ccna-{number % 7}", "room": f"r{number % 13}"},
            generation=1,
            finalizers=("labfleet.dev/lab",),
            creation_timestamp=START,
        ),
        spec=SessionSpec(
            definition="ccna-lab-1", owner=f"user-{number % 200}", slot=Slot(start=START, end=end)
        ),
        status=SessionStatus(
            phase=SessionPhase.RUNNING,
            phase_since=START,
            start=START,
            end=end,
            worker=worker,
            reservation=Reservation(holder=worker, amounts=amounts, start=START, end=end),
            ports=tuple(
                PortAllocation(
                    name=f"r{index}-console", node=f"r{index}", kind="serial", number=2000 + index
                )
                for index in range(8)
            ),
            decision=Decision(
                outcome="assigned",
                reason="Fits",
                message=f"placed on {worker}",
                at=START,
                revision=number,
                requested=amounts,
                chosen=worker,
                candidates=(Verdict(name=worker, fits=True, score=0.5),),
                evaluated=50,
            ),
            scheduled_at=START,
            ready_at=START,
            started_at=START,
            reason="Running",
        ),
    )


def session_document() -> bytes:
    """Return the stored form of such a session."""
    return kinds.encode(session(1))
