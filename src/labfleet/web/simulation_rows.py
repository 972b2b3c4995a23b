"""Rows of simulations: those that wait, those that run, those that have ended.

For the page of all and for tabs of clusters and queues. Read from the cache and the newest measured
minutes, with the caller's rights.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from labfleet.engine.index import Index
from labfleet.resources import history, refs
from labfleet.resources.history import Use
from labfleet.resources.meta import Key
from labfleet.resources.simulation import Simulation
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices
from labfleet.service.reads import places, usage
from labfleet.service.reads.places import QueuePlace
from labfleet.service.reads.usage import Usage
from labfleet.web import cluster_bars, values, words
from labfleet.web.addresses import changed
from labfleet.web.bars import short
from labfleet.web.overview import Row
from labfleet.web.part_of_rows import PartOfRows, number, part
from labfleet.web.values import Cell
from labfleet.web.view import Asked

_UNKNOWN = Cell("unknown", "unknown", why="not measured")
_NOT_YET = Cell("absent", "being decided")


@dataclass(frozen=True, slots=True)
class Chosen:
    """Of which simulations rows are made: of one cluster or queue by its label; "" is of any."""

    cluster: str = ""
    queue: str = ""

    def has(self, run: Simulation) -> bool:
        """Tell whether a run is one of them."""
        if self.cluster not in {"", refs.cluster_of(run).key.label}:
            return False
        queue = Key("Queue", run.namespace, run.spec.queue or "")
        return self.queue in {"", queue.label}


@dataclass(frozen=True, slots=True)
class Ended:
    """Runs that are over, the newest first, and the addresses of those before and after them."""

    rows: tuple[Row, ...]
    earlier: str
    later: str


@dataclass(frozen=True, slots=True)
class SimulationRows:
    """All rows."""

    waiting: PartOfRows[Row]
    active: PartOfRows[Row]
    ended: Ended


async def of(
    services: ServiceContext, caller: Caller, asked: Asked, chosen: Chosen
) -> SimulationRows:
    """Return the rows that the query asks for; Denied for callers who may read no simulation."""
    access.demand(caller.principal, "read", "Simulation")
    await services.fresh()
    placed = [
        (run, place)
        for run, place in await places.of_simulations(services)
        if isinstance(run, Simulation) and _shown(caller, run, chosen)
    ]
    undecided = [
        run
        for run in _of(services, indices.SIMULATIONS_QUEUED, caller, chosen)
        if run.status.decision is None
    ]
    active = sorted(
        _of(services, indices.SIMULATIONS_HOLDING, caller, chosen),
        key=lambda each: (each.status.decided_at is None, each.status.decided_at, each.key),
    )
    return SimulationRows(
        waiting=_waiting(services, caller, placed, undecided, asked),
        active=await _active(services, caller, active, asked),
        ended=_ended(services, caller, chosen, asked),
    )


def _shown(caller: Caller, run: Simulation, chosen: Chosen) -> bool:
    return access.sees(caller.principal, run) and chosen.has(run)


def _of(
    services: ServiceContext, index: Index[Simulation, str], caller: Caller, chosen: Chosen
) -> Iterator[Simulation]:
    """Yield the runs of an index by cluster that the caller sees."""
    for path in services.cache.values(index):
        for run in services.cache.by(index, path):
            if _shown(caller, run, chosen):
                yield run


def _waiting(
    services: ServiceContext,
    caller: Caller,
    placed: Sequence[tuple[Simulation, QueuePlace]],
    undecided: Sequence[Simulation],
    asked: Asked,
) -> PartOfRows[Row]:
    """Return those that wait by their place in each line, then those that nobody has decided yet."""
    placed = sorted(placed, key=lambda each: (each[1].line, each[1].position, each[0].key))
    rows: list[tuple[Simulation, QueuePlace | None]] = [*placed]
    rows += [(run, None) for run in sorted(undecided, key=lambda each: each.key)]
    found = part(rows, asked, "waiting")
    now = services.clock.now()
    return found.of(tuple(_waits(services, caller, run, place, now) for run, place in found.rows))


def _waits(
    services: ServiceContext, caller: Caller, run: Simulation, place: QueuePlace | None,
    now: datetime,
) -> Row:  # fmt: skip
    decision, asked_at = run.status.decision, run.status.asked_at
    where = "being decided" if place is None else f"{place.position} of {place.waiting}"
    return _line(
        run,
        Cell("text", where, exact="" if place is None else f"in {place.line}"),
        _start(place, now),
        Cell("text", "" if decision is None else values.gist(decision.message),
             exact="" if decision is None else decision.message),
        Cell("text", _parameters(run)),
        *_predicted(run),
        Cell("text", run.spec.queue or "none"),
        _cluster(services, caller, run),
        _owner(run),
        Cell("absent", "not told") if asked_at is None else values.instant(asked_at, now),
    )  # fmt: skip


def _start(place: QueuePlace | None, now: datetime) -> Cell:
    """Return between when and when it starts; the whole sentence stands behind it."""
    if place is None or place.earliest is None:
        return Cell("unknown", "unknown", why="nobody can tell yet")
    early = values.relative((place.earliest - now).total_seconds())
    if place.latest is None:
        return Cell("text", f"{early} or later", exact=place.words)
    late = values.relative((place.latest - now).total_seconds())
    return Cell(
        "text",
        late if early == late else f"{early} to {late.removeprefix('in ')}",
        exact=place.words,
    )


async def _active(
    services: ServiceContext, caller: Caller, runs: Sequence[Simulation], asked: Asked
) -> PartOfRows[Row]:
    """Return those that hold something, with what was predicted and what is really used."""
    found = part(runs, asked, "active")
    rows, _ = await usage.simulations(services, caller) if found.rows else ((), 0)
    newest = {(each.namespace, each.name): each for each in rows}
    now = services.clock.now()
    return found.of(
        tuple(
            _runs(services, caller, run, newest.get((run.namespace, run.name)), now)
            for run in found.rows
        )
    )


def _runs(
    services: ServiceContext, caller: Caller, run: Simulation, live: Usage | None, now: datetime
) -> Row:
    status = run.status
    end = None if status.reservation is None else status.reservation.end
    used = cluster_bars.measured(live)
    cells = [values.state("Simulation", status.phase)]
    for name, predicted in zip(_SHOWN, _predicted(run), strict=True):
        cells.append(predicted)
        cells.append(_now(name, used.get(name), live, now))
        cells.append(_figures(name, status.used.get(name)))
    cells += [
        Cell("text", _parameters(run)),
        _cluster(services, caller, run),
        _owner(run),
        Cell("absent", "not yet") if status.started_at is None
        else values.instant(status.started_at, now),
        Cell("absent", "open") if end is None else values.instant(end, now),
    ]  # fmt: skip
    return _line(run, *cells)


_SHOWN = ("cpu_milli", "memory_mib")
"""Of which dimensions a row tells predicted and used amounts; its page has all."""


def _predicted(run: Simulation) -> list[Cell]:
    return [_one_predicted(run, name) for name in _SHOWN]


def _one_predicted(run: Simulation, name: str) -> Cell:
    """Return what a run is expected to need of a dimension, and the bound that it is held to."""
    status = run.status
    found = None if status.prediction is None else status.prediction.of(name)
    if found is not None:
        told = f"{short(name, found.expected)}, at most {short(name, found.bound)}"
        return Cell("text", told, exact=f"{told}: {found.sentence}")
    if status.decision is None:
        return _NOT_YET
    asked = getattr(status.decision.requested, name)
    return Cell("text", f"at most {short(name, asked)}", exact="as declared")


def _now(name: str, used: float | None, live: Usage | None, now: datetime) -> Cell:
    if used is None or live is None or live.minute is None:
        return _UNKNOWN
    shown = values.instant(live.minute, now)
    return Cell("used", short(name, used), at=shown.at, exact=shown.exact, age=shown.text)


def _figures(name: str, found: Use | None) -> Cell:
    """Return average, peak and median of what was used so far."""
    if found is None:
        return _UNKNOWN
    told = [
        "?" if each is None else short(name, each)
        for each in (found.mean, found.peak, found.median)
    ]
    return Cell("text", " / ".join(told), exact="average, peak, median so far")


def _ended(services: ServiceContext, caller: Caller, chosen: Chosen, asked: Asked) -> Ended:
    """Return the newest runs that are over; days are read only as far as the rows reach."""
    first, found = number(asked.last("ended")), list[Simulation]()
    index, cache = indices.SIMULATIONS_ENDED, services.cache
    for day in sorted(cache.values(index), reverse=True):
        rows = [run for run in cache.by(index, day) if _shown(caller, run, chosen)]
        found += sorted(rows, key=_over_at, reverse=True)
        if len(found) > first + words.ROWS:
            break
    now = services.clock.now()
    rows = found[first : first + words.ROWS]
    size = words.ROWS
    later = changed(asked, "ended", ended=first + size) if len(found) > first + size else ""
    earlier = changed(asked, "ended", ended=max(0, first - size) or None) if first else ""
    return Ended(tuple(_over(services, caller, run, now) for run in rows), earlier, later)


def _over_at(run: Simulation) -> tuple[float, str]:
    at = run.status.completed_at or run.status.decided_at
    return (0.0 if at is None else at.timestamp()), run.name


def _over(services: ServiceContext, caller: Caller, run: Simulation, now: datetime) -> Row:
    status = run.status
    ended = status.completed_at or status.decided_at
    cells = [values.state("Simulation", status.phase)]
    for name, predicted in zip(_SHOWN, _predicted(run), strict=True):
        peak = history.peak(status.used or status.observed, name)
        cells += [predicted, _UNKNOWN if peak is None else Cell("text", short(name, peak))]
    cells += [
        _cluster(services, caller, run),
        _owner(run),
        Cell("absent", "not told") if ended is None else values.instant(ended, now),
        Cell("text", status.note or ("" if status.decision is None else status.decision.message)),
    ]
    return _line(run, *cells, over=True)


def _line(run: Simulation, *cells: Cell, over: bool = False) -> Row:
    href = values.address("simulations", run.name, run.namespace)
    key = f"{run.kind}/{run.namespace}/{run.name}"
    return Row(key, (Cell("link", run.key.label, href=href), *cells), over)


def _cluster(services: ServiceContext, caller: Caller, run: Simulation) -> Cell:
    ref = refs.cluster_of(run)
    if not access.may(caller.principal, "read", "Cluster") or services.cache.find(ref) is None:
        return Cell("text", run.spec.cluster)
    return Cell("link", run.spec.cluster, href=values.address("clusters", ref.name, ref.namespace))


def _owner(run: Simulation) -> Cell:
    return Cell("text", run.spec.owner) if run.spec.owner else Cell("absent", "none given")


PARAMETERS = 160
"""Characters of a run's parameters that a row shows."""


def _parameters(run: Simulation) -> str:
    """Return what makes a run what it is, in one line."""
    given = history.compared(run.spec.params)
    said = ", ".join(f"{name}={_plain(value)}" for name, value in given.items())
    return said if len(said) <= PARAMETERS else said[: PARAMETERS - 1] + "…"


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
