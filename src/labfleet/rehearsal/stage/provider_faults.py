"""Makes the scheduled faults happen that hold for a while: of the provider, and of whatever else.

`scheduled_faults.ACTS` has them by their words, beside all others. One in four of `no_stock` is
everywhere and one in four of `ec2_down` outlasts every patience; both end, and then all goes on.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from labfleet.rehearsal.faults import ScheduledFault, Window
from labfleet.rehearsal.stage import fault_targets
from labfleet.rehearsal.stage.stage import Stage
from labfleet.rehearsal.worlds.ec2 import ZONES

LAUNCH_SECONDS = 7200.0
"""How long a fault of launches waits for a launch: there are few of them."""
LONG = 0.25
"""The share of faults that are everywhere, or long."""
DRY_SECONDS = 1500.0
"""By how much longer no zone has room: with a boot it is more than a launch may take."""
DOWN_SECONDS = 1900.0
"""By how much longer EC2 is down: longer than people may have to wait for its name."""


async def window(
    stage: Stage,
    fault: ScheduledFault,
    who: object,
    *,
    hinders: bool = True,
    patience: float = 0.0,
) -> bool:
    """Let a fault hold for its span, counted at its first hit; wait so long for that hit."""
    met = Window(fault.word)
    ends = [stage.injector.begin(fault.word, who, met)]
    if hinders and (who is None or isinstance(who, str)):
        ends.append(stage.invariants.fault_record.begin(fault.word, who))
    if who is None:
        ends.append(stage.invariants.provider.begin(fault.word))
    until = stage.loop.time() + max(fault.span, patience)
    await asyncio.sleep(fault.span)
    while stage.loop.time() < until and not met.met:
        await asyncio.sleep(60)
        if stage.injector.over:
            break
    for end in ends:
        end()
    return False


async def no_stock(stage: Stage, fault: ScheduledFault) -> bool:
    """Let nothing start in one zone, or anywhere for longer than a launch may take."""
    zone: str | None = f"subnet-{ZONES[int(fault.pick * 3) % 3]}"
    if fault_targets.other(fault, 1327) < LONG:
        zone, fault = None, replace(fault, span=fault.span + DRY_SECONDS)
    return await window(stage, fault, zone, patience=LAUNCH_SECONDS)


async def ec2_down(stage: Stage, fault: ScheduledFault) -> bool:
    """Let no call reach EC2, for minutes or for the better part of an hour."""
    if fault_targets.other(fault, 1327) < LONG:
        fault = replace(fault, span=fault.span * 4 + DOWN_SECONDS)
    return await window(stage, fault, None)


async def for_all(stage: Stage, fault: ScheduledFault) -> bool:
    """Let a fault of the whole account or store hold."""
    return await window(stage, fault, None)


async def metal(stage: Stage, fault: ScheduledFault) -> bool:
    """Slow or refuse every start; too short to prevent the return of a licence."""
    return await window(stage, fault, None, hinders=False, patience=LAUNCH_SECONDS)
