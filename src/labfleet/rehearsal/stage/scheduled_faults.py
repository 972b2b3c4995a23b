"""Makes the plan's scheduled faults happen: one function for each word."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TypeVar

from cml_simulator.core import builder, lifecycle, topology
from cml_simulator.core import fleet as servers
from cml_simulator.core.errors import CmlError
from cml_simulator.core.licensing import Stage as Registration
from cml_simulator.core.world import ADMIN_ID, Server
from labfleet.adapters.aws.launches import OWNER
from labfleet.decisions import port_numbers
from labfleet.interfaces.compute import Leftover
from labfleet.kernel import errors
from labfleet.rehearsal.faults import ScheduledFault, Window
from labfleet.rehearsal.people import people
from labfleet.rehearsal.replicas.replica import INSTALLATION
from labfleet.rehearsal.stage import (
    cluster_faults,
    fault_targets,
    provider_faults,
    unfit_faults,
)
from labfleet.rehearsal.stage.stage import Stage
from labfleet.rehearsal.time.virtual_host import EPOCH
from labfleet.resources.held_ports import FIRST, LAST
from labfleet.resources.machine import ScheduledEvent

T = TypeVar("T")
ANSWER_SECONDS = 1800.0
"""How long a kill waits for a call that changes something."""
MIDDLE_SECONDS = 3600.0
MOMENT_SECONDS = 0.2
"""A lead is lost at most this long after a call began, and waits so long for one that begins."""


async def play(stage: Stage, fault: ScheduledFault) -> None:
    """Wait for the time of a scheduled fault and let it happen; do nothing once faults are over.

    It is counted when it struck something of ours; a window is counted at its first hit.
    """
    await asyncio.sleep(fault.at)
    if not stage.injector.over and await ACTS[fault.word](stage, fault):
        stage.injector.counts[fault.word] += 1


# --- the product's own processes ---------------------------------------------------------


async def _process_killed(stage: Stage, fault: ScheduledFault) -> bool:
    replica = fault_targets.picked(stage.living(), fault)
    if replica is None:
        return False
    stage.kill(replica)
    await asyncio.sleep(fault.span)
    stage.begin(replica.name.partition(".")[0])
    return True


async def _killed_at_answer(stage: Stage, fault: ScheduledFault) -> bool:
    """Kill a leader between the answer to a change in the world and the record of that answer."""
    leaders = [each for each in stage.living() if each.leads]
    replica = fault_targets.picked(leaders, fault)
    if replica is None:
        return False
    process, answered = replica.around.process, asyncio.Event()
    stage.awaited[process] = answered
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await answered.wait()
    except TimeoutError:
        stage.awaited.pop(process, None)
        return False
    await asyncio.sleep(fault.span)
    stage.begin(replica.name.partition(".")[0])
    return True


async def _killed_at_decision(stage: Stage, fault: ScheduledFault) -> bool:
    """Kill a leader when a decision of it is durable, before anybody has read the answer."""
    leaders = [each for each in stage.living() if each.leads]
    replica = fault_targets.picked(leaders, fault)
    if replica is None:
        return False
    process, decided = replica.around.process, asyncio.Event()
    stage.deciding[process] = decided
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await decided.wait()
    except TimeoutError:
        stage.deciding.pop(process, None)
        return False
    await asyncio.sleep(fault.span)
    stage.begin(replica.name.partition(".")[0])
    return True


async def _leader_paused(stage: Stage, fault: ScheduledFault) -> bool:
    leaders = [each for each in stage.living() if each.leads]
    replica = fault_targets.picked(leaders, fault)
    if replica is None:
        return False
    stage.loop.pause(replica.around.process)
    await asyncio.sleep(fault.span)
    stage.loop.resume(replica.around.process)
    return True


async def _lead_lost(stage: Stage, fault: ScheduledFault) -> bool:
    """Cut a leader from its leases, or kill it, while a launch or an import of it is under way."""
    leaders = [each for each in stage.living() if each.leads]
    replica = fault_targets.picked(leaders, fault)
    if replica is None:
        return False
    until = stage.loop.time() + MIDDLE_SECONDS
    while not stage.invariants.operations.under_way(replica.name):
        await asyncio.sleep(MOMENT_SECONDS)
        if stage.injector.over or replica not in stage.living() or stage.loop.time() > until:
            return False
    if fault.number % 2:
        return await provider_faults.window(stage, fault, replica.around.process)
    stage.kill(replica)
    await asyncio.sleep(fault.span)
    stage.begin(replica.name.partition(".")[0])
    return True


async def _clock_jump(stage: Stage, fault: ScheduledFault) -> bool:
    replica = fault_targets.picked(stage.living(), fault)
    if replica is None:
        return False
    jump = (fault.pick - 0.5) * 240.0
    replica.around.clock.skew += jump
    await asyncio.sleep(fault.span)
    replica.around.clock.skew -= jump
    return True


async def _cache_stale(stage: Stage, fault: ScheduledFault) -> bool:
    replica = fault_targets.picked(stage.living(), fault)
    if replica is None:
        return False
    return await provider_faults.window(stage, fault, replica.around.process)


# --- machines ----------------------------------------------------------------------------


async def _instance_death(stage: Stage, fault: ScheduledFault) -> bool:
    vm = await fault_targets.machine(stage, fault, "booting", "running")
    if vm is None:
        return False
    stage.invariants.fault_record.ever(fault.word, vm.id)
    stage.cloud.begin_end(vm, "fault", "Server.InternalError")
    return fault_targets.ours(stage, vm)


async def _boot_hangs(stage: Stage, fault: ScheduledFault) -> bool:
    """Let a machine's next boot hang; counted when it does."""
    vm = await fault_targets.machine(stage, fault, "booting", "stopped")
    if vm is None:
        return False
    stage.invariants.fault_record.ever(fault.word, vm.id)
    vm.hangs = True
    while vm.hangs and vm.live:
        await asyncio.sleep(20)
        if stage.injector.over:
            break
    return not vm.hangs and fault_targets.ours(stage, vm)


async def _event_scheduled(stage: Stage, fault: ScheduledFault) -> bool:
    """Announce a retirement or reboot, and call it off when its time has come."""
    vm = await fault_targets.machine(stage, fault, "running")
    if vm is None:
        return False
    at = EPOCH + timedelta(seconds=stage.loop.time() + fault.span)
    code = "instance-retirement" if fault.pick < 0.5 else "system-reboot"
    vm.events = (ScheduledEvent(code=code, not_before=at),)
    await asyncio.sleep(fault.span)
    vm.events = ()
    return fault_targets.ours(stage, vm)


async def _console_stop(stage: Stage, fault: ScheduledFault) -> bool:
    vm = await fault_targets.machine(stage, fault, "running")
    if vm is None:
        return False
    stage.invariants.fault_record.once(fault.word, vm.id)
    stage.cloud.begin_stop(vm, "console")
    return fault_targets.ours(stage, vm)


async def _console_start(stage: Stage, fault: ScheduledFault) -> bool:
    vm = await fault_targets.machine(stage, fault, "stopped")
    if vm is None:
        return False
    try:
        stage.cloud.begin_start(vm)
    except errors.QuotaExceeded:
        return False  # a person at the console is refused like anybody else
    return fault_targets.ours(stage, vm)


async def _console_terminate(stage: Stage, fault: ScheduledFault) -> bool:
    vm = await fault_targets.machine(stage, fault, "running", "stopped")
    if vm is None:
        return False
    stage.invariants.fault_record.ever(fault.word, vm.id)
    stage.cloud.begin_end(vm, "console", "Client.UserInitiatedShutdown")
    return fault_targets.ours(stage, vm)


async def _tag_taken(stage: Stage, fault: ScheduledFault) -> bool:
    """Take name and owner tag from one of our machines, as people do; they put them back."""
    vm = await fault_targets.one(
        stage,
        fault,
        lambda each: each.state == "running" and each.tags.get(OWNER) == INSTALLATION,
    )
    if vm is None:
        return False
    end = stage.invariants.fault_record.begin(fault.word, vm.id)
    taken = {key: vm.tags.pop(key) for key in (OWNER, "Name") if key in vm.tags}
    stage.invariants.untagged[vm.id] = stage.loop.time()
    await asyncio.sleep(fault.span)
    vm.tags |= taken
    end()
    del stage.invariants.untagged[vm.id]
    return True


async def _left_behind(stage: Stage, fault: ScheduledFault) -> bool:
    """Leave a volume or an address attached to nothing: ours, kept by a tag, or of others."""
    number = len(stage.cloud.waste) + len(stage.invariants.spared) + fault.number
    tags = {OWNER: "somebody-else" if fault.pick > 0.8 else INSTALLATION, "Name": "left"}
    if fault.pick < 0.2:
        tags["keep"] = "until the audit"
    now = EPOCH + timedelta(seconds=stage.loop.time())
    found = Leftover("volume", "", f"vol-{number:017x}", now, tags)
    if number % 2:
        found = Leftover("address", "", f"eipalloc-{number:017x}", None, tags)
    if not 0.2 <= fault.pick <= 0.8:
        stage.invariants.spared.add(found.id)
    stage.cloud.waste.append(found)
    return True


async def _cleaner(stage: Stage, fault: ScheduledFault) -> bool:
    """Let a clean-up job of somebody's end every machine of ours soon after it is up."""
    ended = False
    until = stage.loop.time() + fault.span
    while stage.loop.time() < until and not stage.injector.over:
        for vm in fault_targets.vms(stage, "running"):
            if vm.tags.get(OWNER) == INSTALLATION:
                stage.invariants.fault_record.ever(fault.word, vm.id)
                stage.cloud.begin_end(vm, "console", "Client.UserInitiatedShutdown")
                ended = True
        await asyncio.sleep(120)
    return ended


# --- CML servers -------------------------------------------------------------------------


def _standing(stage: Stage) -> list[Server]:
    """Return the servers whose disk is still there."""
    return [each for each in stage.cml_servers.fleet.servers.values() if not each.power.destroyed]


async def _lab_deleted(stage: Stage, fault: ScheduledFault) -> bool:
    labs = [(server, lab) for server in _standing(stage) for lab in server.labs.values()]
    found = fault_targets.picked(labs, fault)
    if found is None:
        return False
    servers.delete_lab(found[0], found[1].id, stage.cml_servers.now())
    return True


async def _lab_at_cordon(stage: Stage, fault: ScheduledFault) -> bool:
    """Start a lab of somebody else's at the moment in which the idle rule cordons a worker.

    It stands for a person who is told that their server is about to stop and comes back to use
    it. The lab runs for a while and is then deleted, as its owner would do.
    """
    found: list[tuple[Server, str]] = []
    came = asyncio.Event()

    def begin(worker: str) -> None:
        if found or stage.injector.over:
            return
        vms = [
            each for each in fault_targets.vms(stage, "running") if each.request.worker == worker
        ]
        for vm in vms[:1]:
            server, now = stage.cml_servers.server(vm.server_id), stage.cml_servers.now()
            with contextlib.suppress(CmlError):
                drawing = topology.load_text(people.topology("theirs", ["alpine"]).encode())
                parsed = topology.parse(drawing, server.config.profile)
                lab, _ = builder.import_topology(server, parsed, "theirs", ADMIN_ID, now)
                lifecycle.start_lab(server, lab, now)
                found.append((server, lab.id))
                stage.invariants.theirs.add((worker, lab.id))
                came.set()

    stage.invariants.at_cordon.append(begin)
    while not came.is_set() and not stage.injector.over:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(20):
                await came.wait()
    stage.invariants.at_cordon.remove(begin)
    await asyncio.sleep(fault.span)
    for server, lab_id in found:
        if lab_id in server.labs:
            servers.delete_lab(server, lab_id, stage.cml_servers.now())
    return bool(found)


async def _port_added(stage: Stage, fault: ScheduledFault) -> bool:
    nodes = [
        (server, node)
        for server in _standing(stage)
        for node in server.nodes.values()
        if node.kind.serial
    ]
    found = fault_targets.picked(nodes, fault)
    if found is None:
        return False
    server, node = found
    # Beside a number that a lab there has: those are the next to be given out.
    known = sorted(number for _, number in port_numbers.claims(server.nodes.values()))
    spread = int(fault.pick * 997)
    number = (known[spread % len(known)] if known else FIRST) + spread % 8
    servers.add_tag(server, node.id, f"serial:{min(number, LAST)}", stage.cml_servers.now())
    return True


async def _licence_unreachable(stage: Stage, fault: ScheduledFault) -> bool:
    vm = await fault_targets.machine(stage, fault, "booting", "running", "stopped")
    if vm is None:
        return False
    licence = stage.cml_servers.server(vm.server_id).licence
    licence.reachable = False
    end = stage.invariants.fault_record.begin(fault.word, vm.id)
    await asyncio.sleep(fault.span)
    licence.reachable = True
    end()
    return fault_targets.ours(stage, vm)


async def _licence_revoked(stage: Stage, fault: ScheduledFault) -> bool:
    vm = await fault_targets.machine(stage, fault, "running")
    if vm is None:
        return False
    server = stage.cml_servers.server(vm.server_id)
    if server.licence.stage is not Registration.COMPLETED:
        return False
    server.licence.compliant = False
    server.revision += 1
    end = stage.invariants.fault_record.begin(fault.word, vm.id)
    await asyncio.sleep(fault.span)
    server.licence.compliant = True
    server.revision += 1
    end()
    return fault_targets.ours(stage, vm)


async def _server_unreachable(stage: Stage, fault: ScheduledFault) -> bool:
    """Make a server unreachable; half of the time one whose slot ends, until after its teardown."""
    vm, more = None, 0.0
    if fault_targets.other(fault, 613) < 0.5:
        vm, more = await fault_targets.ending(stage, fault), fault_targets.TEARDOWN_SECONDS
    if vm is None:
        vm, more = await fault_targets.machine(stage, fault, "running"), 0.0
    if vm is None or vm.public_ip is None:
        return False
    window = Window(fault.word, met=not fault_targets.ours(stage, vm))
    ends = (
        unfit_faults.hide(stage, vm, window),
        stage.invariants.fault_record.begin(fault.word, vm.id),
    )
    await asyncio.sleep(fault.span + more)
    for end in ends:
        end()
    return False


async def _zone_down(stage: Stage, fault: ScheduledFault) -> bool:
    """Take a zone away: nothing starts there, what runs there is out of reach and fails checks."""
    one = await fault_targets.one(
        stage, fault, lambda each: each.state == "running" and each.zone != "any"
    )
    if one is None:
        return False
    struck = [each for each in fault_targets.vms(stage, "running") if each.zone == one.zone]
    window = Window(fault.word)
    ends = [
        stage.injector.begin("no_stock", one.zone, window),
        stage.invariants.fault_record.begin(fault.word, one.zone),
    ]
    for vm in struck:
        ends.append(unfit_faults.impair(stage, vm, "system_check"))
        ends.append(unfit_faults.hide(stage, vm, window))
    await asyncio.sleep(fault.span)
    for end in ends:
        end()
    return False


ACTS: dict[str, Callable[[Stage, ScheduledFault], Awaitable[bool]]] = {
    "process_killed": _process_killed,
    "killed_at_answer": _killed_at_answer,
    "killed_at_decision": _killed_at_decision,
    "leader_paused": _leader_paused,
    "lead_lost": _lead_lost,
    "clock_jump": _clock_jump,
    "cache_stale": _cache_stale,
    "instance_death": _instance_death,
    "boot_hangs": _boot_hangs,
    "wall_clock_jump": unfit_faults.wall_clock_jump,
    "check_impaired": unfit_faults.check_impaired,
    "host_impaired": unfit_faults.host_impaired,
    "core_down": unfit_faults.core_down,
    "cut_before_import": unfit_faults.cut_before_import,
    "event_scheduled": _event_scheduled,
    "console_stop": _console_stop,
    "console_start": _console_start,
    "console_terminate": _console_terminate,
    "cleaner": _cleaner,
    "lab_deleted": _lab_deleted,
    "port_added": _port_added,
    "lab_at_cordon": _lab_at_cordon,
    "licence_unreachable": _licence_unreachable,
    "licence_revoked": _licence_revoked,
    "server_unreachable": _server_unreachable,
    "no_stock": provider_faults.no_stock,
    "quota_full": provider_faults.metal,
    "slow_metal": provider_faults.metal,
    "ec2_down": provider_faults.ec2_down,
    "credentials_expired": provider_faults.for_all,
    "zone_down": _zone_down,
    "tag_taken": _tag_taken,
    "left_behind": _left_behind,
    "disk_full": provider_faults.for_all,
    "metrics_stopped": cluster_faults.metrics_stopped,
    "metrics_wrong": cluster_faults.metrics_wrong,
    "source_clock": cluster_faults.source_clock,
    "api_silent": cluster_faults.api_silent,
    "watch_lost": cluster_faults.watch_lost,
    "pod_ended": cluster_faults.pod_ended,
    "node_lost": cluster_faults.node_lost,
}
