"""The place in the queue of each session and simulation that waits, and when each is to start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from labfleet.resources.cluster import Cluster
from labfleet.resources.meta import Key, Record, Resource
from labfleet.resources.session import Session
from labfleet.resources.simulation import Simulation
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import indices, outlook, session_outlook


class QueuePlace(Record, frozen=True, kw_only=True):
    """Where one session or simulation stands that waits, and between when and when it starts.

    kind: Session or Simulation.
    namespace: Namespace of the object.
    name: Name of the object.
    uid: Identity of the object.
    line: What it waits in: a pool or track of a session, a queue of a simulation.
    position: Its place there, 1 for the next one.
    waiting: How many wait there.
    earliest: It starts not before this; null when nobody can tell.
    latest: Not after this; null when it does not start in each future that was played.
    coverage: Share of such ranges that hold the start; null when something is only declared.
    because: What its start depends on, or why nobody can tell; empty of a simulation.
    words: Place and range in a few words.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    line: str
    position: int
    waiting: int
    earliest: datetime | None = None
    latest: datetime | None = None
    coverage: float | None = None
    because: str = ""
    words: str = ""


def of_sessions(services: ServiceContext) -> Iterator[tuple[Resource, QueuePlace]]:
    """Yield the places of sessions, as they were last worked out; who came since has none yet."""
    for value in services.cache.values(indices.SESSIONS_WAITING):
        for session in services.cache.by(indices.SESSIONS_WAITING, value):
            uid = session.metadata.uid
            found = services.starts.of(session.namespace, uid)
            if found is None:
                continue
            yield (
                session,
                QueuePlace(
                    kind=Session.__name__,
                    namespace=session.namespace,
                    name=session.name,
                    uid=uid,
                    line=found.line,
                    position=found.position,
                    waiting=found.waiting,
                    earliest=found.earliest,
                    latest=found.latest,
                    coverage=found.coverage,
                    because=found.because,
                    words=found.words,
                ),
            )


async def of_simulations(services: ServiceContext) -> list[tuple[Resource, QueuePlace]]:
    """Return the places of simulations; instants by the full minute, so that they do not flicker."""
    made: list[tuple[Resource, QueuePlace]] = []
    for path in services.cache.values(indices.SIMULATIONS_QUEUED):
        cluster = services.cache.at(Key(Cluster.__name__, *path.split("/", 1)))
        if not isinstance(cluster, Cluster):
            continue
        found = await outlook.of_all(services, cluster)
        waiting = Counter(_line(run) for run, _ in found)
        made += [(run, _place(run, each, waiting[_line(run)])) for run, each in found]
    return made


def _line(run: Simulation) -> str:
    return run.spec.queue or run.spec.cluster


def _place(run: Simulation, found: outlook.Outlook, waiting: int) -> QueuePlace:
    early, late = found.earliest, found.latest
    return QueuePlace(
        kind=Simulation.__name__,
        namespace=run.namespace,
        name=run.name,
        uid=run.metadata.uid,
        line=_line(run),
        position=found.position,
        waiting=waiting,
        earliest=None if early is None else session_outlook.minute(early),
        latest=None if late is None else session_outlook.minute(late, up=True),
        coverage=found.coverage,
        words=outlook.words(found),
    )
