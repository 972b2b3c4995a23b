"""When will a waiting simulation start? Worked out from what is stored, when somebody asks.

By the same line as the decider's, with the sum of bounds as room: so it is the same in every
process, and rather late than early where a cluster admits by chance. Nothing of it is stored; the
line is kept in memory while people ask, so that an answer costs the same however many wait.
"""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import datetime

from labfleet.decisions.admission.targets import NEVER_FITS, targets
from labfleet.decisions.queueing.line import Line
from labfleet.decisions.queueing.requests import Request, terms
from labfleet.decisions.queueing.room import SumRoom
from labfleet.decisions.queueing.starts import StartRange, nearest, start_ranges
from labfleet.kernel import errors
from labfleet.kernel.clock import utc_text
from labfleet.resources import refs
from labfleet.resources.amounts import Amounts, vector
from labfleet.resources.cluster import Cluster, as_seen, others_of
from labfleet.resources.meta import Record, Resource
from labfleet.resources.queue import Queue
from labfleet.resources.simulation import HOLDING, Simulation, SimulationPhase
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
"""What a request or run weighs beside texts that are parsed: playing it forward takes as long."""
KEPT_SECONDS = 2.0
"""Machine seconds for which one answer serves all who ask of a cluster."""
KEPT_TIMES = 10
"""An answer is kept at least so many times as long as it took, however much runs and waits."""
UNASKED_SECONDS = 60.0
"""Machine seconds after which a line that nobody asks about is no longer kept."""


class Followed:
    """The line of one cluster by what is stored; each change of a run costs the same."""

    def __init__(
        self, services: ServiceContext, cluster: Cluster, queues: tuple[Queue, ...]
    ) -> None:
        cache, path = services.cache, cluster.key.path
        self.services, self.cluster, self.queues = services, cluster, queues
        self.made_for = _made_for(services, cluster, queues)
        self.asked_at = 0.0
        self._named = {queue.key.path for queue in queues}
        self._line = Line([terms(queue) for queue in queues], targets(as_seen(cluster)))
        self._found: dict[str, StartRange] = {}
        self._until = 0.0
        self._playing = False
        for run in cache.by(indices.SIMULATIONS_HOLDING, path):
            self.follow(run)
        for run in cache.by(indices.SIMULATIONS_QUEUED, path):
            self.follow(run)

    def follow(self, run: Simulation) -> None:
        """Count a run as it is stored."""
        status, uid = run.status, run.metadata.uid
        held, decision = status.reservation, status.decision
        if status.phase in HOLDING and held is not None:
            request = _request(self.services, run, self._named, held.amounts)
            self._line.start(request, held.start, held.end)
        elif status.phase is SimulationPhase.QUEUED and decision is not None:
            self._line.wait(_request(self.services, run, self._named, decision.requested))
        else:
            self.leave(uid)

    def leave(self, uid: str) -> None:
        """Count a run no longer; no error for one that is not counted."""
        self._line.withdraw(uid)
        self._line.end(uid)

    def position(self, uid: str) -> int | None:
        """Return a request's place in its queue, from 1; None when it does not wait here."""
        return self._line.position(uid)

    async def ranges(self) -> dict[str, StartRange]:
        """Return when the requests nearest to their turn start, by uid.

        Played aside from the loop by who asks first; who asks meanwhile, or soon after, is told
        what was found before, perhaps nothing.
        """
        loop = asyncio.get_running_loop()
        begun = loop.time()
        if self._playing or begun < self._until:
            return self._found
        self._playing = True
        try:
            self._found = await self._played(nearest(self._line, AHEAD))
        except errors.Temporary:
            return self._found  # Others keep the thread busy: what was asked is answered without.
        finally:
            self._playing = False
        self._until = loop.time() + max(KEPT_SECONDS, KEPT_TIMES * (loop.time() - begun))
        return self._found

    async def again(self, run: Simulation, amounts: Amounts) -> StartRange | None:
        """Return when a run would start if it were asked for now; None when nobody can tell.

        With more requests before it than are played nobody can. Temporary when others keep the
        thread busy.
        """
        if len(self._line.requests) >= AHEAD:
            return None
        near = nearest(self._line, AHEAD)
        asked = _request(self.services, run, self._named, amounts)
        near.wait(dataclasses.replace(asked, since=self.services.clock.now()))
        return (await self._played(near)).get(run.metadata.uid)

    async def _played(self, near: Line) -> dict[str, StartRange]:
        """Return the starts of all that wait in a line of its own, played aside from the loop."""
        now, ahead = self.services.clock.now(), len(near.requests) * len(near.queues)
        left = tuple(map(_left, near.quotas.capacity, vector(others_of(self.cluster))))
        room = SumRoom(left)
        for run in near.runs.of.values():
            room.add(run.request)

        def play() -> dict[str, StartRange]:
            return start_ranges(near, room, now, ahead=ahead, coverage=COVERAGE)

        size = (len(near.requests) + len(near.runs.of)) * REQUEST_BYTES
        return await self.services.aside.run(size, play)


async def of(services: ServiceContext, run: Simulation) -> Outlook | None:
    """Return the outlook of a request; None when it does not wait in a line.

    Who came after the last time that starts were played is told its place alone, and its range
    at the next one.
    """
    if run.status.phase is not SimulationPhase.QUEUED or run.status.decision is None:
        return None
    cluster = services.cache.find(refs.cluster_of(run))
    if cluster is None:
        return None
    followed = _followed(services, cluster)
    place = followed.position(run.metadata.uid)
    if place is None:
        return None
    # In safe mode nothing starts, and nobody knows until when.
    ranges = {} if denies(cluster) else await followed.ranges()
    return _outlook(place, ranges.get(run.metadata.uid))


async def of_all(services: ServiceContext, cluster: Cluster) -> list[tuple[Simulation, Outlook]]:
    """Return every request that waits for a cluster, each with its outlook as `of` tells it."""
    followed = _followed(services, cluster)
    ranges = {} if denies(cluster) else await followed.ranges()
    found = []
    for run in services.cache.by(indices.SIMULATIONS_QUEUED, cluster.key.path):
        place = followed.position(run.metadata.uid)
        if place is not None:
            found.append((run, _outlook(place, ranges.get(run.metadata.uid))))
    return found


async def again(services: ServiceContext, run: Simulation) -> str:
    """Return in words when a denied run would start if it were asked for now; "" when unknown."""
    decision, cluster = run.status.decision, services.cache.find(refs.cluster_of(run))
    if decision is None or decision.reason == NEVER_FITS or cluster is None or denies(cluster):
        return ""
    try:
        found = await _followed(services, cluster).again(run, decision.requested)
    except errors.Temporary:
        return ""
    if found is None or found.earliest is None:
        return ""
    if found.latest is not None and found.latest <= services.clock.now():
        return "it fits now"
    return f"with a queue {_between(found.earliest, found.latest, found.coverage)}"


def _followed(services: ServiceContext, cluster: Cluster) -> Followed:
    """Return the line of a cluster, made anew when something about it has changed."""
    lines, path = services.outlooks, cluster.key.path
    queues = services.cache.by(indices.QUEUES_OF_CLUSTER, path)
    kept = lines.of.get(path)
    if not isinstance(kept, Followed) or kept.made_for != _made_for(services, cluster, queues):
        kept = lines.of[path] = Followed(services, cluster, queues)
    kept.cluster, kept.asked_at = cluster, asyncio.get_running_loop().time()
    if not lines.follows:
        lines.follows = True
        services.cache.on_change(Simulation, lambda old, new: _changed(services, old, new))
    return kept


def _changed(services: ServiceContext, old: Resource | None, new: Resource | None) -> None:
    run = new or old
    if not isinstance(run, Simulation):
        return
    lines, path = services.outlooks.of, refs.cluster_path(run)
    kept = lines.get(path)
    if not isinstance(kept, Followed):
        return
    if kept.asked_at + UNASKED_SECONDS < asyncio.get_running_loop().time():
        del lines[path]
    elif new is None:
        kept.leave(run.metadata.uid)
    else:
        kept.follow(run)


def _made_for(
    services: ServiceContext, cluster: Cluster, queues: tuple[Queue, ...]
) -> tuple[object, ...]:
    """Return all that a line depends on beside its runs: another one needs another line."""
    default = services.settings.now().admission.default_duration_seconds
    named = tuple((queue.key.path, queue.spec) for queue in queues)
    return cluster.metadata.uid, targets(as_seen(cluster)), default, named


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
    return f"{said}; {_between(found.earliest, found.latest, found.coverage)}"


def _between(earliest: datetime, latest: datetime | None, coverage: float | None) -> str:
    if latest is None:
        return f"it starts at {utc_text(earliest)} or later"
    between = f"between {utc_text(earliest)} and {utc_text(latest)}"
    if utc_text(earliest) == utc_text(latest):
        between = f"at {utc_text(latest)}"
    sure = "" if coverage is None else f", in {coverage:.0%} of such cases"
    return f"it starts {between}{sure}"


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
