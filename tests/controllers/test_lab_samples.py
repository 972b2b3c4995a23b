"""What running labs use is measured once a minute, and known at their end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from fleet_cases import ready
from virtual_time import play
from world import World, world

from cml_simulator.core import use_curves
from cml_simulator.core.use_curves import UseCurve, UsePoint
from labfleet.kernel import errors
from labfleet.resources import series
from labfleet.resources.history import Run, RunKind
from labfleet.resources.series import Owner
from labfleet.resources.session import Session

MINUTE = 60
STEPS = (
    UsePoint(at=0, cpu=90, ram=150, disk=300),
    UsePoint(at=8 * MINUTE, cpu=12, ram=220, disk=320),
    UsePoint(at=17 * MINUTE, cpu=96, ram=400, disk=350),
    UsePoint(at=25 * MINUTE, cpu=30, ram=310, disk=350),
    UsePoint(at=47 * MINUTE, cpu=60, ram=330, disk=360),
)
"""No step is shorter than three minutes."""
FIGURES = {"cpu_milli": ("cpu", 10), "memory_mib": ("ram", 1), "storage_mib": ("disk", 1)}


async def running(w: World, *points: UsePoint, minutes: int = 60) -> Session:
    """A session of an hour whose nodes use what these points say."""
    await ready(w)
    await w.definition("two-h", defaultDurationMinutes=minutes)
    w.hosts.of("w1").use_curves = use_curves.checked([UseCurve(points=points)])
    await w.session("s2", definition="two-h")
    await w.until(w.in_phase("s2", "RUNNING"))
    return w.get_session("s2")


def truth(w: World, session: Session, figure: str) -> list[float]:
    """What the lab's nodes used in each second from its start to the end of its slot."""
    part, factor = FIGURES[figure]
    server = w.hosts.of("w1")
    began = [node.started_at for node in server.nodes.values()]
    started, ended = session.status.started_at, session.status.end
    assert started is not None
    assert ended is not None
    seconds = range(int(started.timestamp()), int(ended.timestamp()))
    told = [
        [use_curves.point(server.use_curves, "n", each - at) for at in began] for each in seconds
    ]
    return [sum(getattr(point, part) * factor for point in now if point) for now in told]


async def past(w: World) -> Run:
    """The one session's row of the history."""
    [run] = [each.run for each in await w.store.history(0) if each.run.kind is RunKind.SESSION]
    return run


def test_peak_mean_and_p95_are_within_a_twentieth_of_the_truth() -> None:
    """Of a lab whose use has no feature shorter than three minutes; its nodes each alike."""

    async def story() -> None:
        async with world() as w:
            await running(w, *STEPS)
            true = {each: sorted(truth(w, w.get_session("s2"), each)) for each in FIGURES}
            await w.until(w.in_phase("s2", "COMPLETED"))
            session = w.get_session("s2")
            used = session.status.used
            for figure, values in true.items():
                found = used[figure]
                assert found.peak == pytest.approx(values[-1], rel=0.05)
                assert found.mean == pytest.approx(sum(values) / len(values), rel=0.05)
                assert found.p95 == pytest.approx(values[len(values) * 95 // 100], rel=0.05)
            assert 55 <= session.status.measured <= 65
            seen = session.status.observed_resources
            assert seen is not None
            assert (seen.used, seen.measured) == (used, session.status.measured)
            for node in seen.nodes:
                assert node.used["memory_mib"].peak == 400
            assert seen.total_memory_mb == sum(node.ram_mb or 0 for node in seen.nodes)
            assert (await past(w)).use == used

    play(story)


def test_its_minutes_are_in_the_series() -> None:
    """Each minute of a running lab has a bucket of what it used, and no event is written for it."""

    async def story() -> None:
        async with world() as w:
            session = await running(w, *STEPS, minutes=30)
            await w.until(w.in_phase("s2", "COMPLETED"))
            owner = Owner("Session", session.metadata.uid)
            rows = await w.store.series(owner, 60, w.clock.now() - timedelta(hours=6))
            told = [series.unpack("Session", row.data)["memory"].high for row in rows]
            assert 28 <= len(told) <= 32
            assert set(told) == {300, 440, 800, 620}
            events = await w.store.events_of(session.key)
            assert len([each for each in events if each.reason == "running"]) <= 8

    play(story)


def test_another_process_goes_on_where_the_one_before_was_killed() -> None:
    """The peak before a kill is still the peak at the end, though nobody else has seen it."""

    async def story() -> None:
        async with world() as w:
            await running(w, UsePoint(at=0, ram=400), UsePoint(at=15 * MINUTE, ram=100))
            await w.let_pass(20 * MINUTE)
            w.process.kill()
            await w.start()
            await w.until(w.in_phase("s2", "COMPLETED"))
            used = w.get_session("s2").status.used["memory_mib"]
            assert used.peak == 800
            assert used.mean is not None
            assert used.mean < 450

    play(story)


def test_what_a_server_does_not_tell_is_unknown_and_ends_nothing() -> None:
    """Statistics that fail leave the use unknown; the session runs and ends as ever."""

    async def story() -> None:
        async with world() as w:
            await running(w, *STEPS, minutes=15)
            w.hosts.refusals = {"lab_use": errors.Temporary("lab_use: 500")}
            await w.until(w.in_phase("s2", "COMPLETED"))
            status = w.get_session("s2").status
            assert status.measured <= 1
            assert (await past(w)).use == status.used

    play(story)


@pytest.mark.parametrize("values", [{"enabled": False}, {"sampleSeconds": 600}])
def test_settings_hold_for_it(values: dict[str, Any]) -> None:
    """Switched off, nothing is asked; every ten minutes is three or four times in half an hour."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.make("Settings", "fleet", {"observation": values})
            await running(w, *STEPS, minutes=30)
            await w.until(w.in_phase("s2", "COMPLETED"))
            status = w.get_session("s2").status
            assert status.measured == 0 if "enabled" in values else 3 <= status.measured <= 5
            assert (status.observed_resources is None) == ("enabled" in values)

    play(story)
