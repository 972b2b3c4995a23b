"""What is raised reaches the log with its value, once per change."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "service"))
from fleet_world import START, World, world

from labfleet.app import logs
from labfleet.app.alert_log import AlertLog
from labfleet.resources import conditions
from labfleet.resources.conditions import Measured
from labfleet.resources.pool_conditions import PoolCondition, PoolReason
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason


class Watched:
    """A fleet with one worker, and the lines of the log since the last look."""

    def __init__(self, w: World, capsys: pytest.CaptureFixture[str]) -> None:
        self.w, self.capsys, self.now = w, capsys, 0.0
        logs.configure(fmt="json", level="info")
        self.log = AlertLog(w.services, machine=lambda: self.now)
        self.worker: Any = None

    async def busy(self, value: float | None) -> None:
        """Raise CpuHigh with a value, or take it back."""
        raised = value is not None
        facts = conditions.put(
            self.worker.status.conditions,
            WorkerCondition.CPU_HIGH,
            "True" if raised else "False",
            WorkerReason.OVER_THRESHOLD if raised else WorkerReason.BELOW_THRESHOLD,
            "CPU at 90 % or over, as CML tells; taken back below 80 %" if raised else "",
            now=self.w.clock.now(),
            measured=Measured(value=value or 0.0, unit="percent", limit=90) if raised else None,
        )
        self.worker = await self.w.status(self.worker, conditions=facts)
        await self.w.services.fresh()

    def look(self, after: float = 5.0) -> list[dict[str, Any]]:
        self.now += after
        self.log.look()
        return [json.loads(line) for line in self.capsys.readouterr().err.splitlines()]


@pytest.mark.asyncio
async def test_an_alert_is_logged_with_its_value_when_raised_and_when_cleared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Seven alerts raised nothing in the log before; now one line each way and none between."""
    async with world() as w:
        await w.template()
        kit = Watched(w, capsys)
        kit.worker = await w.make("Worker", "w1", {"template": "metal"})
        assert kit.look() == []
        await kit.busy(93.4)
        (line,) = kit.look()
        assert {key: line[key] for key in ("event", "level", "object", "condition")} == {
            "event": "alert.raised", "level": "warning", "object": "worker/w1",
            "condition": "CpuHigh",
        }  # fmt: skip
        assert (line["value"], line["unit"], line["limit"]) == (93.4, "percent", 90)
        assert line["detail"].startswith("CPU at 90 % or over")
        assert line["since"] == START.strftime("%Y-%m-%dT%H:%M:%S.000Z")
        assert kit.look() == kit.look() == []
        await kit.busy(None)
        (line,) = kit.look(60)
        assert (line["event"], line["level"], line["object"]) == (
            "alert.cleared", "info", "worker/w1",
        )  # fmt: skip
        assert kit.look() == kit.look(100) == []


@pytest.mark.asyncio
async def test_what_comes_and_goes_is_said_at_most_once_a_minute(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Twelve changes in a minute are two lines; the second says how many had none."""
    async with world() as w:
        await w.template()
        kit = Watched(w, capsys)
        kit.worker = await w.make("Worker", "w1", {"template": "metal"})
        said = []
        for turn in range(12):
            await kit.busy(95.0 if turn % 2 == 0 else None)
            said += kit.look()
        assert [each["event"] for each in said] == ["alert.raised"]
        (line,) = kit.look(60)
        assert (line["event"], line["changes_unsaid"]) == ("alert.cleared", 10)
        assert kit.look(60) == []


@pytest.mark.asyncio
async def test_who_begins_to_lead_says_what_is_raised_already(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What the predecessor saw last is not lost, a pool's want of workers among it."""
    async with world() as w:
        await w.template()
        pool = await w.make("Pool", "p", {"template": "metal", "track": "exam"})
        facts = conditions.put(
            (), PoolCondition.DEMAND_MET, "False", PoolReason.AT_MAXIMUM, "3 sessions wait",
            now=w.clock.now() - timedelta(hours=1),
        )  # fmt: skip
        await w.status(pool, conditions=facts, waiting_sessions=3)
        await w.services.fresh()
        (line,) = Watched(w, capsys).look()
        assert (line["object"], line["value"], line["unit"]) == ("pool/p", 3, "waiting sessions")
