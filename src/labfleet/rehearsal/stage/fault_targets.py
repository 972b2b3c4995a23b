"""Chooses the target of a scheduled fault: mostly machines of ours, where it tests most.

Only chooses, by the number that the plan drew; `scheduled_faults` makes the fault happen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from labfleet.rehearsal.faults import ScheduledFault
from labfleet.rehearsal.stage.stage import Stage
from labfleet.rehearsal.time.virtual_host import EPOCH
from labfleet.rehearsal.worlds.ec2 import FakeInstance
from labfleet.resources.session import SessionPhase

T = TypeVar("T")
STRANGERS = 0.1
"""The share of machine faults whose target is any machine, ours or not."""
ENDING_SECONDS, TEARDOWN_SECONDS = 900.0, 600.0
"""How soon a slot ends whose server then becomes unreachable; how long its teardown may take."""


def picked(items: list[T], fault: ScheduledFault) -> T | None:
    """Return one of the items; None when there are none."""
    return items[min(int(fault.pick * len(items)), len(items) - 1)] if items else None


def other(fault: ScheduledFault, number: float) -> float:
    """Return another number in [0, 1) that the plan drew with the same scheduled fault."""
    return fault.pick * number % 1


def vms(stage: Stage, *states: str) -> list[FakeInstance]:
    """Return the machines in one of the states."""
    return [each for each in stage.cloud.vms.values() if each.state in states]


def ours(stage: Stage, vm: FakeInstance) -> bool:
    """Tell whether a machine was launched or adopted by us."""
    return bool(vm.request.worker) or vm.id in stage.invariants.adopted


async def machine(stage: Stage, fault: ScheduledFault, *states: str) -> FakeInstance | None:
    """Return a machine in one of the states, waiting for one of ours as long as faults last.

    One in ten strikes any machine, as in production.
    """
    anybody = other(fault, 1009) < STRANGERS
    return await one(
        stage, fault, lambda each: each.state in states and (anybody or ours(stage, each))
    )


async def one(
    stage: Stage, fault: ScheduledFault, fits: Callable[[FakeInstance], bool]
) -> FakeInstance | None:
    """Return a machine that fits, waiting for one as long as faults last."""
    while not stage.injector.over:
        found = picked([each for each in stage.cloud.vms.values() if fits(each)], fault)
        if found is not None:
            return found
        await asyncio.sleep(20)
    return None


async def ending(stage: Stage, fault: ScheduledFault) -> FakeInstance | None:
    """Wait, for some hours at most, for the end of a running lab's slot; return its machine.

    Prefers one whose room another session uses next.
    """
    until = stage.loop.time() + ENDING_SECONDS * 8
    while stage.loop.time() < until and not stage.injector.over:
        found = _endings(stage)
        best = [each for each in found if each[0]]
        chosen = picked(best or found, fault)
        if chosen is not None and (best or stage.loop.time() > until - ENDING_SECONDS * 4):
            await asyncio.sleep(max(chosen[1] - 10, 0))
            return chosen[2] if chosen[2].state == "running" else None
        await asyncio.sleep(60)
    return None


def _endings(stage: Stage) -> list[tuple[bool, float, FakeInstance]]:
    """Return for every slot that ends soon: whether another follows, seconds left, its machine."""
    now = EPOCH + timedelta(seconds=stage.loop.time())
    running = {each.request.worker: each for each in vms(stage, "running")}
    found = []
    for name, sessions in sorted(stage.invariants.held.items()):
        booked = [each for each in sessions.values() if each.status.phase is SessionPhase.SCHEDULED]
        for each in sessions.values():
            end = each.status.end
            if name not in running or end is None or each.status.phase is not SessionPhase.RUNNING:
                continue
            left = (end - now).total_seconds()
            if 0 < left < ENDING_SECONDS:
                found.append((bool(booked), left, running[name]))
    return found
