"""Makes the scheduled faults happen in which something answers and is wrong: checks, core, clock.

`scheduled_faults.ACTS` has them by their words, beside all others.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable
from dataclasses import replace

from labfleet.rehearsal.faults import ScheduledFault, Window
from labfleet.rehearsal.rules.unfit import CHECK, CORE
from labfleet.rehearsal.stage import fault_targets
from labfleet.rehearsal.stage.stage import Stage
from labfleet.rehearsal.worlds.ec2 import FakeInstance

EVER = 0.4
"""The share of impaired hosts that nobody mends."""
CORES = 0.3
"""The share of servers that lose their core, not the way to them, before an import."""
LOOK_SECONDS = 20.0
JUMPS = (86400.0, 7200.0, 900.0)
"""By how many seconds a wall clock is set wrong, ahead or behind: all more than NTP corrects."""


def impair(stage: Stage, vm: FakeInstance, check: str) -> Callable[[], None]:
    """Fail a check of a machine; return a function that ends it, unless others fail it too."""
    invariants = stage.invariants
    end = invariants.unfit.begin(vm.id, CHECK)
    held = invariants.impairment.held
    held[vm.id, check] += 1
    setattr(vm, check, "impaired")

    def over() -> None:
        end()
        held[vm.id, check] -= 1
        if not held[vm.id, check]:
            setattr(vm, check, "ok")

    return over


async def check_impaired(stage: Stage, fault: ScheduledFault) -> bool:
    """Fail a check of EC2's for a while; nobody may stop or end the machine for it."""
    vm = await fault_targets.machine(stage, fault, "running")
    if vm is None:
        return False
    end = impair(stage, vm, "system_check" if fault.pick < 0.5 else "instance_check")
    await asyncio.sleep(fault.span)
    end()
    return fault_targets.ours(stage, vm)


async def host_impaired(stage: Stage, fault: ScheduledFault) -> bool:
    """Fail the check of the machine under an instance, sometimes for ever; counted as it begins.

    A machine that is stopped and started comes up on another host, whose check passes.
    """
    vm = await fault_targets.machine(stage, fault, "running")
    if vm is None:
        return False
    end = impair(stage, vm, "system_check")
    stage.injector.counts[fault.word] += fault_targets.ours(stage, vm)
    await _while_up(vm, math.inf if _for_ever(fault) else fault.span)
    end()
    return False


def _for_ever(fault: ScheduledFault) -> bool:
    return fault_targets.other(fault, 733) < EVER


async def core_down(stage: Stage, fault: ScheduledFault) -> bool:
    """Kill the core of a CML server: it answers, and starts nothing, until it is mended or boots."""
    vm = await fault_targets.machine(stage, fault, "running")
    if vm is None:
        return False
    end = _kill_core(stage, vm)
    if end is None:
        return False
    await _while_up(vm, fault.span)
    end()
    return fault_targets.ours(stage, vm)


def _kill_core(stage: Stage, vm: FakeInstance) -> Callable[[], None] | None:
    """Kill the core of a machine's server; return what mends it, None when it is dead already."""
    server = stage.cml_servers.server(vm.server_id)
    if not server.server_conditions.core_connected:
        return None
    over = stage.invariants.unfit.begin(vm.id, CORE)

    def become(*, connected: bool) -> None:
        known = server.server_conditions
        server.server_conditions = replace(known, core_connected=connected)
        server.revision += 1

    def end() -> None:
        become(connected=True)
        over()

    become(connected=False)
    return end


def hide(stage: Stage, vm: FakeInstance, window: Window) -> Callable[[], None]:
    """Take away the way to a machine at its present address; return what gives it back."""
    ends = (
        stage.injector.begin("server_unreachable", vm.public_ip, window),
        stage.invariants.silence.begin(vm),
    )

    def end() -> None:
        for each in ends:
            each()

    return end


async def cut_before_import(stage: Stage, fault: ScheduledFault) -> bool:
    """Cut a server off, or kill its core, in the moment in which a session is placed there.

    Nothing of the session is on it yet. It is counted as it begins.
    """
    found: list[FakeInstance] = []
    ends: list[Callable[[], None]] = []
    came = asyncio.Event()

    def begin(vm: FakeInstance) -> None:
        if found or vm.state != "running" or stage.injector.over:
            return
        end = _kill_core(stage, vm) if fault_targets.other(fault, 419) < CORES else None
        if end is None:
            end = hide(stage, vm, Window(fault.word, met=True))
            ends.append(stage.invariants.fault_record.begin(fault.word, vm.id))
        found.append(vm)
        ends.append(end)
        came.set()

    hooks = stage.invariants.silence.at_placement
    hooks.append(begin)
    while not came.is_set() and not stage.injector.over:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await came.wait()
    hooks.remove(begin)
    for vm in found:
        stage.injector.counts[fault.word] += fault_targets.ours(stage, vm)
        await _while_up(vm, fault.span)
    for end in ends:
        end()
    return False


async def wall_clock_jump(stage: Stage, fault: ScheduledFault) -> bool:
    """Set the wall clock of a process's host wrong, by minutes to a day; later it is right again.

    A process that starts meanwhile starts with a right clock: with a wrong one and nobody else who
    writes, nothing could tell it from a fleet that was idle for a day.
    """
    replica = fault_targets.picked(stage.living(), fault)
    if replica is None:
        return False
    jump = JUMPS[int(fault_targets.other(fault, 331) * len(JUMPS))]
    jump = jump if fault_targets.other(fault, 577) < 0.5 else -jump
    replica.around.clock.jump += jump
    await asyncio.sleep(fault.span)
    replica.around.clock.jump -= jump
    return True


async def _while_up(vm: FakeInstance, span: float) -> None:
    """Wait for this long, or until the machine goes down or is another boot's."""
    turn, left = vm.turn, span
    while vm.state == "running" and vm.turn == turn and left > 0:
        await asyncio.sleep(min(LOOK_SECONDS, left))
        left -= LOOK_SECONDS
