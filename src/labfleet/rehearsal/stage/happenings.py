"""Makes the plan's happenings happen: one function for each word."""

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
from labfleet.interfaces.compute import Leftover
from labfleet.kernel import errors
from labfleet.rehearsal.faults import Happening, Window
from labfleet.rehearsal.people import people
from labfleet.rehearsal.replicas.replica import INSTALLATION
from labfleet.rehearsal.stage import picking
from labfleet.rehearsal.stage.stage import Stage
from labfleet.rehearsal.time.dice import EPOCH
from labfleet.rehearsal.worlds.ec2 import ZONES
from labfleet.resources.worker import ScheduledEvent

T = TypeVar("T")
LAUNCH_SECONDS = 7200.0
"""How long what strikes launches waits for one: there are few of them."""


async def play(stage: Stage, happening: Happening) -> None:
    """Wait for the time of a happening and let it happen; do nothing once faults are over.

    It is counted when it struck something of ours; a window counts itself at its first hit.
    """
    await asyncio.sleep(happening.at)
    if not stage.luck.over and await ACTS[happening.word](stage, happening):
        stage.luck.counts[happening.word] += 1


async def _window(
    stage: Stage,
    happening: Happening,
    who: object,
    *,
    hinders: bool = True,
    patience: float = 0.0,
) -> bool:
    """Let a fault hold for its span; it counts itself, and waits so long for its first hit."""
    window = Window(happening.word)
    ends = [stage.luck.begin(happening.word, who, window)]
    if hinders and (who is None or isinstance(who, str)):
        ends.append(stage.invariants.excuses.begin(happening.word, who))
    until = stage.loop.time() + max(happening.span, patience)
    await asyncio.sleep(happening.span)
    while stage.loop.time() < until and not window.met:
        await asyncio.sleep(60)
        if stage.luck.over:
            break
    for end in ends:
        end()
    return False


# --- the product's own processes ---------------------------------------------------------


async def _process_killed(stage: Stage, happening: Happening) -> bool:
    replica = picking.picked(stage.living(), happening)
    if replica is None:
        return False
    stage.kill(replica)
    await asyncio.sleep(happening.span)
    stage.begin(replica.name.partition(".")[0])
    return True


async def _leader_paused(stage: Stage, happening: Happening) -> bool:
    leaders = [each for each in stage.living() if each.leads]
    replica = picking.picked(leaders, happening)
    if replica is None:
        return False
    stage.loop.pause(replica.around.process)
    await asyncio.sleep(happening.span)
    stage.loop.resume(replica.around.process)
    return True


async def _clock_jump(stage: Stage, happening: Happening) -> bool:
    replica = picking.picked(stage.living(), happening)
    if replica is None:
        return False
    jump = (happening.pick - 0.5) * 240.0
    replica.around.clock.skew += jump
    await asyncio.sleep(happening.span)
    replica.around.clock.skew -= jump
    return True


async def _cache_stale(stage: Stage, happening: Happening) -> bool:
    replica = picking.picked(stage.living(), happening)
    if replica is None:
        return False
    return await _window(stage, happening, replica.around.process)


# --- machines ----------------------------------------------------------------------------


async def _instance_death(stage: Stage, happening: Happening) -> bool:
    thing = await picking.machine(stage, happening, "pending", "running")
    if thing is None:
        return False
    stage.invariants.excuses.ever(happening.word, thing.id)
    stage.cloud.begin_end(thing, "fault", "Server.InternalError")
    return picking.ours(stage, thing)


async def _boot_hangs(stage: Stage, happening: Happening) -> bool:
    """Let a machine's next boot hang; counted when it does."""
    thing = await picking.machine(stage, happening, "pending", "stopped")
    if thing is None:
        return False
    stage.invariants.excuses.ever(happening.word, thing.id)
    thing.hangs = True
    while thing.hangs and thing.live:
        await asyncio.sleep(20)
        if stage.luck.over:
            break
    return not thing.hangs and picking.ours(stage, thing)


async def _check_impaired(stage: Stage, happening: Happening) -> bool:
    """Fail a check of EC2's for a while; nobody may stop or end the machine for it."""
    thing = await picking.machine(stage, happening, "running")
    if thing is None:
        return False
    name = "system_check" if happening.pick < 0.5 else "instance_check"
    setattr(thing, name, "impaired")
    stage.invariants.impairment.machines.add(thing.id)
    await asyncio.sleep(happening.span)
    setattr(thing, name, "ok")
    stage.invariants.impairment.machines.discard(thing.id)
    return picking.ours(stage, thing)


async def _event_scheduled(stage: Stage, happening: Happening) -> bool:
    """Announce a retirement or reboot, and call it off when its time has come."""
    thing = await picking.machine(stage, happening, "running")
    if thing is None:
        return False
    at = EPOCH + timedelta(seconds=stage.loop.time() + happening.span)
    code = "instance-retirement" if happening.pick < 0.5 else "system-reboot"
    thing.events = (ScheduledEvent(code=code, not_before=at),)
    await asyncio.sleep(happening.span)
    thing.events = ()
    return picking.ours(stage, thing)


async def _console_stop(stage: Stage, happening: Happening) -> bool:
    thing = await picking.machine(stage, happening, "running")
    if thing is None:
        return False
    stage.invariants.excuses.once(happening.word, thing.id)
    stage.cloud.begin_stop(thing, "console")
    return picking.ours(stage, thing)


async def _console_start(stage: Stage, happening: Happening) -> bool:
    thing = await picking.machine(stage, happening, "stopped")
    if thing is None:
        return False
    try:
        stage.cloud.begin_start(thing)
    except errors.QuotaExceeded:
        return False  # a person at the console is refused like anybody else
    return picking.ours(stage, thing)


async def _console_terminate(stage: Stage, happening: Happening) -> bool:
    thing = await picking.machine(stage, happening, "running", "stopped")
    if thing is None:
        return False
    stage.invariants.excuses.ever(happening.word, thing.id)
    stage.cloud.begin_end(thing, "console", "Client.UserInitiatedShutdown")
    return picking.ours(stage, thing)


async def _tag_taken(stage: Stage, happening: Happening) -> bool:
    """Take name and owner tag from one of our machines, as people do; they put them back."""
    thing = await picking.one(
        stage,
        happening,
        lambda each: each.state == "running" and each.tags.get(OWNER) == INSTALLATION,
    )
    if thing is None:
        return False
    end = stage.invariants.excuses.begin(happening.word, thing.id)
    taken = {key: thing.tags.pop(key) for key in (OWNER, "Name") if key in thing.tags}
    stage.invariants.untagged[thing.id] = stage.loop.time()
    await asyncio.sleep(happening.span)
    thing.tags |= taken
    end()
    del stage.invariants.untagged[thing.id]
    return True


async def _left_behind(stage: Stage, happening: Happening) -> bool:
    """Leave a volume or an address attached to nothing: ours, kept by a tag, or of others."""
    number = len(stage.cloud.waste) + len(stage.invariants.spared) + happening.number
    tags = {OWNER: "somebody-else" if happening.pick > 0.8 else INSTALLATION, "Name": "left"}
    if happening.pick < 0.2:
        tags["keep"] = "until the audit"
    now = EPOCH + timedelta(seconds=stage.loop.time())
    found = Leftover("volume", "", f"vol-{number:017x}", now, tags)
    if number % 2:
        found = Leftover("address", "", f"eipalloc-{number:017x}", None, tags)
    if not 0.2 <= happening.pick <= 0.8:
        stage.invariants.spared.add(found.id)
    stage.cloud.waste.append(found)
    return True


async def _cleaner(stage: Stage, happening: Happening) -> bool:
    """Let a clean-up job of somebody's end every machine of ours soon after it is up."""
    ended = False
    until = stage.loop.time() + happening.span
    while stage.loop.time() < until and not stage.luck.over:
        for thing in picking.things(stage, "running"):
            if thing.tags.get(OWNER) == INSTALLATION:
                stage.invariants.excuses.ever(happening.word, thing.id)
                stage.cloud.begin_end(thing, "console", "Client.UserInitiatedShutdown")
                ended = True
        await asyncio.sleep(120)
    return ended


# --- CML servers -------------------------------------------------------------------------


def _standing(stage: Stage) -> list[Server]:
    """Return the servers whose disk is still there."""
    return [each for each in stage.racks.fleet.servers.values() if not each.power.destroyed]


async def _lab_deleted(stage: Stage, happening: Happening) -> bool:
    labs = [(server, lab) for server in _standing(stage) for lab in server.labs.values()]
    found = picking.picked(labs, happening)
    if found is None:
        return False
    servers.delete_lab(found[0], found[1].id, stage.racks.now())
    return True


async def _lab_at_cordon(stage: Stage, happening: Happening) -> bool:
    """Start a lab of somebody else's at the moment in which the idle rule cordons a worker.

    A person who is told that their server is about to go comes back and uses it. It stands
    there for a while and is then deleted, as its owner would.
    """
    found: list[tuple[Server, str]] = []
    came = asyncio.Event()

    def begin(worker: str) -> None:
        if found or stage.luck.over:
            return
        things = [
            each for each in picking.things(stage, "running") if each.request.worker == worker
        ]
        for thing in things[:1]:
            server, now = stage.racks.server(thing.server_id), stage.racks.now()
            with contextlib.suppress(CmlError):
                drawing = topology.load_text(people.topology("theirs", ["alpine"]).encode())
                parsed = topology.parse(drawing, server.config.profile)
                lab, _ = builder.import_topology(server, parsed, "theirs", ADMIN_ID, now)
                lifecycle.start_lab(server, lab, now)
                found.append((server, lab.id))
                stage.invariants.theirs.add((worker, lab.id))
                came.set()

    stage.invariants.at_cordon.append(begin)
    while not came.is_set() and not stage.luck.over:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(20):
                await came.wait()
    stage.invariants.at_cordon.remove(begin)
    await asyncio.sleep(happening.span)
    for server, lab_id in found:
        if lab_id in server.labs:
            servers.delete_lab(server, lab_id, stage.racks.now())
    return bool(found)


async def _port_added(stage: Stage, happening: Happening) -> bool:
    nodes = [
        (server, node)
        for server in _standing(stage)
        for node in server.nodes.values()
        if node.kind.serial
    ]
    found = picking.picked(nodes, happening)
    if found is None:
        return False
    number = 2000 + int(happening.pick * 997) % 40
    servers.add_tag(found[0], found[1].id, f"serial:{number}", stage.racks.now())
    return True


async def _licence_unreachable(stage: Stage, happening: Happening) -> bool:
    thing = await picking.machine(stage, happening, "pending", "running", "stopped")
    if thing is None:
        return False
    licence = stage.racks.server(thing.server_id).licence
    licence.reachable = False
    end = stage.invariants.excuses.begin(happening.word, thing.id)
    await asyncio.sleep(happening.span)
    licence.reachable = True
    end()
    return picking.ours(stage, thing)


async def _licence_revoked(stage: Stage, happening: Happening) -> bool:
    thing = await picking.machine(stage, happening, "running")
    if thing is None:
        return False
    server = stage.racks.server(thing.server_id)
    if server.licence.stage is not Registration.COMPLETED:
        return False
    server.licence.compliant = False
    server.revision += 1
    end = stage.invariants.excuses.begin(happening.word, thing.id)
    await asyncio.sleep(happening.span)
    server.licence.compliant = True
    server.revision += 1
    end()
    return picking.ours(stage, thing)


async def _server_unreachable(stage: Stage, happening: Happening) -> bool:
    """Take a server out of reach: half of the time one whose slot ends, beyond its teardown."""
    thing, more = None, 0.0
    if picking.other(happening, 613) < 0.5:
        thing, more = await picking.ending(stage, happening), picking.TEARDOWN_SECONDS
    if thing is None:
        thing, more = await picking.machine(stage, happening, "running"), 0.0
    if thing is None or thing.public_ip is None:
        return False
    window = Window(happening.word, met=not picking.ours(stage, thing))
    ends = (
        stage.luck.begin(happening.word, thing.public_ip, window),
        stage.invariants.excuses.begin(happening.word, thing.id),
    )
    await asyncio.sleep(happening.span + more)
    for end in ends:
        end()
    return False


async def _no_stock(stage: Stage, happening: Happening) -> bool:
    zone = f"subnet-{ZONES[int(happening.pick * 3) % 3]}"
    return await _window(stage, happening, zone, patience=LAUNCH_SECONDS)


async def _zone_down(stage: Stage, happening: Happening) -> bool:
    """Take a zone away: nothing starts there, what runs there is out of reach and fails checks."""
    one = await picking.one(
        stage, happening, lambda each: each.state == "running" and each.zone != "any"
    )
    if one is None:
        return False
    struck = [each for each in picking.things(stage, "running") if each.zone == one.zone]
    window, impaired = Window(happening.word), stage.invariants.impairment.machines
    ends = [
        stage.luck.begin("no_stock", one.zone, window),
        stage.invariants.excuses.begin(happening.word, one.zone),
    ]
    for thing in struck:
        thing.system_check = "impaired"
        impaired.add(thing.id)
        ends.append(stage.luck.begin("server_unreachable", thing.public_ip, window))
    await asyncio.sleep(happening.span)
    for end in ends:
        end()
    for thing in struck:
        thing.system_check = "ok"
        impaired.discard(thing.id)
    return False


async def _for_all(stage: Stage, happening: Happening) -> bool:
    return await _window(stage, happening, None)


async def _metal(stage: Stage, happening: Happening) -> bool:
    """Slow or refuse every start; that hinders the return of no licence for long enough."""
    return await _window(stage, happening, None, hinders=False, patience=LAUNCH_SECONDS)


ACTS: dict[str, Callable[[Stage, Happening], Awaitable[bool]]] = {
    "process_killed": _process_killed,
    "leader_paused": _leader_paused,
    "clock_jump": _clock_jump,
    "cache_stale": _cache_stale,
    "instance_death": _instance_death,
    "boot_hangs": _boot_hangs,
    "check_impaired": _check_impaired,
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
    "no_stock": _no_stock,
    "quota_full": _metal,
    "slow_metal": _metal,
    "ec2_down": _for_all,
    "credentials_expired": _for_all,
    "zone_down": _zone_down,
    "tag_taken": _tag_taken,
    "left_behind": _left_behind,
    "disk_full": _for_all,
}
