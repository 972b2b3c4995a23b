"""When will a waiting simulation start? Worked out from what is stored, when somebody asks.

By the same line as the decider's, with the sum of bounds as room: so it is the same in every
process, and rather late than early where a cluster admits by chance. Nothing of it is stored.
"""

from __future__ import annotations

import asyncio
from datetime import datetime

from labfleet.decisions.admission.targets import targets
from labfleet.decisions.queueing.line import Line
from labfleet.decisions.queueing.requests import Request, terms
from labfleet.decisions.queueing.room import SumRoom
from labfleet.decisions.queueing.starts import StartRange, start_ranges
from labfleet.kernel import errors
from labfleet.kernel.clock import utc_text
from labfleet.resources import refs
from labfleet.resources.amounts import Amounts, vector
from labfleet.resources.cluster import Cluster, as_seen, others_of
from labfleet.resources.meta import Record
from labfleet.resources.simulation import Simulation, SimulationPhase
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import indices
from labfleet.service.kinds.cluster_mode import denies


class Outlook(Record, frozen=True, kw_only=True):
    """Where a waiting request stands, and between when and when it starts.

    position: Its place in its queue, 1 for the next one.
    earliest: Not before this; null when it starts in no future that was played.
    latest: Not after this; null when it does not start in each of them.
    coverage: Share of such ranges that hold the start; null when durations are only declared.
    """

    position: int
    earliest: datetime | None = None
    latest: datetime | None = None
    coverage: float | None = None


AHEAD = 50
"""Requests of a cluster whose starts are played; those behind are told their place alone."""
COVERAGE = 0.8
REQUEST_BYTES = 2048
"""What a waiting request weighs beside texts that are parsed: playing it forward takes as long."""
KEPT_SECONDS = 2.0
"""Machine seconds for which one answer serves all who ask of a cluster."""


async def of(services: ServiceContext, run: Simulation) -> Outlook | None:
    """Return the outlook of a request; None when it does not wait in a line.

    Played aside from the loop, once for all who ask within two seconds: who came since then is told
    at the next one, None until then.
    """
    if run.status.phase is not SimulationPhase.QUEUED or run.status.decision is None:
        return None
    cluster = services.cache.find(refs.cluster_of(run))
    if cluster is None:
        return None
    uid, path = run.metadata.uid, cluster.key.path
    kept = services.outlooks.get(path)
    if kept is None or kept[0] <= asyncio.get_running_loop().time():
        line, room = _line(services, cluster)
        now = services.clock.now()

        def play() -> dict[str, StartRange]:
            return start_ranges(line, room, now, ahead=AHEAD, coverage=COVERAGE)

        try:
            ranges = await services.aside.run(len(line.requests) * REQUEST_BYTES, play)
        except errors.Temporary:
            return None  # Others keep the thread busy: what was asked is answered without it.
        places = {each: line.position(each) for each in line.requests}
        found = {
            each: _outlook(place, ranges.get(each))
            for each, place in places.items()
            if place is not None
        }
        until = asyncio.get_running_loop().time() + KEPT_SECONDS
        kept = services.outlooks[path] = (until, found)
    told = kept[1].get(uid)
    if not isinstance(told, Outlook):
        return None
    # In safe mode nothing starts, and nobody knows until when.
    return Outlook(position=told.position) if denies(cluster) else told


def _outlook(place: int, found: StartRange | None) -> Outlook:
    if found is None:
        return Outlook(position=place)
    return Outlook(
        position=place, earliest=found.earliest, latest=found.latest, coverage=found.coverage
    )


def words(found: Outlook) -> str:
    """Return an outlook in a sentence."""
    said = f"place {found.position} in its queue"
    if found.earliest is None:
        return said
    if found.latest is None:
        return f"{said}; it starts at {utc_text(found.earliest)} or later"
    between = f"between {utc_text(found.earliest)} and {utc_text(found.latest)}"
    if utc_text(found.earliest) == utc_text(found.latest):
        between = f"at {utc_text(found.latest)}"
    sure = "" if found.coverage is None else f", in {found.coverage:.0%} of such cases"
    return f"{said}; it starts {between}{sure}"


def _line(services: ServiceContext, cluster: Cluster) -> tuple[Line, SumRoom]:
    """Return the line of a cluster and its room, from what is stored."""
    cache, path = services.cache, cluster.key.path
    queues = cache.by(indices.QUEUES_OF_CLUSTER, path)
    named = {queue.key.path for queue in queues}
    target = targets(as_seen(cluster))
    left = tuple(map(_left, vector(target), vector(others_of(cluster))))
    line, room = Line([terms(queue) for queue in queues], target), SumRoom(left)
    for run in cache.by(indices.SIMULATIONS_HOLDING, path):
        held = run.status.reservation
        if held is not None:
            request = _request(services, run, named, held.amounts)
            line.start(request, held.start, held.end)
            room.add(request)
    for run in cache.by(indices.SIMULATIONS_QUEUED, path):
        if run.status.decision is not None:
            line.wait(_request(services, run, named, run.status.decision.requested))
    return line, room


def _left(may: int, others: int) -> int:
    return max(0, may - others)


def _request(
    services: ServiceContext, run: Simulation, named: set[str], amounts: Amounts
) -> Request:
    status, queue = run.status, f"{run.namespace}/{run.spec.queue}"
    lasts = None if status.prediction is None else status.prediction.of("duration_seconds")
    default = services.settings.now().admission.default_duration_seconds
    return Request(
        uid=run.metadata.uid,
        queue=queue if queue in named else "",
        owner=run.spec.owner,
        amounts=amounts,
        seconds=run.spec.duration_seconds or (default if lasts is None else lasts.bound),
        priority=run.spec.priority,
        since=status.asked_at or services.clock.now(),
        spread=() if lasts is None else lasts.spread,
    )
