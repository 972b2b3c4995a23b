"""What a pool has up, what comes up and when: read for its explanation and for its alert."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from labfleet.decisions import parking
from labfleet.decisions.claims import lead
from labfleet.decisions.claims.arrivals import Fleet, up_by
from labfleet.decisions.lifecycle.worker import phases
from labfleet.decisions.pools import policy_kinds
from labfleet.resources.pool import Pool
from labfleet.resources.worker import Worker


def fleet(pool: Pool, workers: Iterable[Worker], now: datetime, *, paused: bool) -> Fleet:
    """Return a pool's workers as its promises need them, by the lead that its record says.

    What takes no session now (cordoned, silent, on an impaired host) is not up, as for its growth.
    """
    boot = lead.boot_of(pool)
    ready, coming = set[str](), dict[str, datetime | None]()
    for each in workers:
        if phases.leaving(each):
            continue
        closed = each.spec.cordoned and not parking.cordoned(each)
        if each.status.phase in phases.HOSTING:
            if not (closed or phases.sick(each) is not None or phases.host_ill(each)):
                ready.add(each.name)
        elif each.status.phase in phases.BOOTING:
            coming[each.name] = up_by(each.status.provisioning_started_at, boot, now)
    grows = not policy_kinds.resting(pool.spec.scaling)
    return Fleet(
        ready=ready, coming=coming, early=lead.of(pool), boot=boot, makes=grows and not paused
    )
