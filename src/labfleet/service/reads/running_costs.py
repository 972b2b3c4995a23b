"""What the fleet's machines cost an hour now, by the price list; unknown is not 0, disks are apart."""

from __future__ import annotations

from labfleet.resources import prices, providers
from labfleet.resources.meta import Record
from labfleet.resources.prices import PriceList
from labfleet.resources.worker import Worker
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices

NAMED = 5
"""How many workers without a price are named."""
_PAID = frozenset({"booting", "running", "stopping"})


class RunningCosts(Record, frozen=True, kw_only=True):
    """US dollars an hour of the machines that are switched on now.

    usd: All of them together; null when machines run and no price of them is known.
    used: Those with sessions.
    unused: Those without.
    machines: How many are switched on.
    unpriced: How many of those have no known price, and count in no figure.
    unpriced_named: The first few of these workers, by name.
    stopped: Machines that are stopped: their disks are paid for, at a price that is not known here.
    """

    usd: float | None = None
    used: float = 0.0
    unused: float = 0.0
    machines: int = 0
    unpriced: int = 0
    unpriced_named: tuple[str, ...] = ()
    stopped: int = 0


async def read(services: ServiceContext, caller: Caller) -> RunningCosts:
    """Return what runs costs now."""
    access.demand(caller.principal, "read", "Worker")
    await services.fresh()
    used = unused = 0.0
    machines = stopped = 0
    nameless: list[str] = []
    for worker in services.cache.by(indices.WORKERS_LIVING, True):
        state = worker.status.machine.state
        stopped += state == "stopped"
        if state not in _PAID:
            continue
        machines += 1
        price = hourly_usd(worker, services.prices)
        if price is None:
            nameless.append(worker.key.label)
        elif services.cache.by(indices.SESSIONS_HERE, worker.key.path):
            used += price
        else:
            unused += price
    known = machines > len(nameless) or not machines
    return RunningCosts(
        usd=round(used + unused, 4) if known else None,
        used=round(used, 4),
        unused=round(unused, 4),
        machines=machines,
        unpriced=len(nameless),
        unpriced_named=tuple(sorted(nameless)[:NAMED]),
        stopped=stopped,
    )


def hourly_usd(worker: Worker, listed: PriceList) -> float | None:
    """Return US dollars an hour of a worker's machine while it is switched on; None when unknown."""
    machine, seen = worker.spec.machine, worker.status.machine.type
    if machine is None:
        return prices.hourly_usd(seen, listed=listed)
    kind, region = seen or providers.first_type(machine.provider), machine.provider.region
    return prices.hourly_usd(kind, stated=machine.hourly_price_usd, region=region, listed=listed)
