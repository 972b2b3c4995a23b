"""The pace of a what-if: idle looks come further apart, everything else as decided."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from labfleet.controllers import pacing
from labfleet.engine.controller import Again, Done
from labfleet.resources.meta import Key, Metadata
from labfleet.resources.session import Session, SessionPhase, SessionSpec, SessionStatus
from labfleet.resources.worker import Worker, WorkerPhase, WorkerSpec, WorkerStatus

NOW = datetime(2026, 11, 27, 9, tzinfo=UTC)
KEY = Key("Session", "default", "s")


def _session(phase: SessionPhase, minutes: int) -> Session:
    return Session(
        metadata=Metadata(name="s"),
        spec=SessionSpec(definition="pod"),
        status=SessionStatus(phase=phase, end=NOW + timedelta(minutes=minutes)),
    )


def _worker(phase: WorkerPhase, failed: int = 0) -> Worker:
    return Worker(
        metadata=Metadata(name="w"),
        spec=WorkerSpec(),
        status=WorkerStatus(phase=phase, failed_checks=failed),
    )


async def _after(before: Any, after: Any, asked: float, rest: pacing.Rest) -> float:
    seen = iter((before, after))
    context: Any = SimpleNamespace(
        cache=SimpleNamespace(at=lambda _: next(seen)), clock=SimpleNamespace(now=lambda: NOW)
    )

    async def reconcile(key: Key) -> Done | Again:
        del key
        return Again(asked)

    result = await pacing.slower(reconcile, context, 600.0, rest)(KEY)
    assert isinstance(result, Again)
    return result.after


@pytest.mark.asyncio
async def test_a_running_session_is_left_alone_until_its_end_at_most() -> None:
    """The next look at a running session is at the pace, or at its end if that is sooner."""
    long, short = _session(SessionPhase.RUNNING, 60), _session(SessionPhase.RUNNING, 3)
    assert await _after(long, long, 20.0, pacing.session_rest) == 600.0
    assert await _after(short, short, 20.0, pacing.session_rest) == 180.0


@pytest.mark.asyncio
async def test_what_is_on_its_way_keeps_its_pace() -> None:
    """A booting lab, a fresh phase, a sick worker and a soon due look are as decided."""
    boots = _session(SessionPhase.INSTANTIATING, 60)
    runs = _session(SessionPhase.RUNNING, 60)
    assert await _after(boots, boots, 20.0, pacing.session_rest) == 20.0
    assert await _after(boots, runs, 20.0, pacing.session_rest) == 20.0
    assert await _after(runs, runs, 2.0, pacing.session_rest) == 2.0
    sick = _worker(WorkerPhase.ACTIVE, failed=1)
    assert await _after(sick, sick, 30.0, pacing.worker_rest) == 30.0


@pytest.mark.asyncio
async def test_a_healthy_host_is_looked_at_at_the_pace() -> None:
    """A worker that hosts in good health is looked at every so many seconds."""
    host = _worker(WorkerPhase.READY)
    assert await _after(host, host, 30.0, pacing.worker_rest) == 600.0


def test_without_a_pace_nothing_is_wrapped() -> None:
    """A server's reconcile is the very function it would be without this module."""

    async def reconcile(key: Key) -> Done | Again:
        del key
        return Done()

    context: Any = None
    assert pacing.slower(reconcile, context, None, pacing.worker_rest) is reconcile
