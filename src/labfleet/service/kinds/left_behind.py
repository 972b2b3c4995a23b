"""What seems left behind, of all regions or of one: for reads, explanations and metrics.

Suspects of garbage collection stand in their region's record. Of a worker whose machine the
provider does not show, the record is the suspect, until it is confirmed that others ended it.
Labs of ours that are no session's stand in the record of the worker on whose server they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from labfleet.decisions import garbage, stray_labs
from labfleet.engine.cache import Cache
from labfleet.kernel import ids
from labfleet.resources import conditions
from labfleet.resources.meta import Record
from labfleet.resources.region import Region, Suspect
from labfleet.resources.worker import Worker
from labfleet.resources.worker_conditions import WorkerCondition
from labfleet.service.kinds import indices


class LeftBehind(Record, frozen=True, kw_only=True):
    """One suspect with its region and age (seconds).

    region: Region in which it was seen.
    suspect: What seems left behind.
    age_seconds: For how long it has been seen.
    """

    region: str
    suspect: Suspect
    age_seconds: int


def suspects(cache: Cache, now: datetime) -> tuple[LeftBehind, ...]:
    """Return every suspect: by region what garbage collection found, then workers' records."""
    found = [
        LeftBehind(region=each.name, suspect=suspect, age_seconds=_age(suspect, now))
        for each in sorted(cache.all(Region), key=_name)
        for suspect in each.status.suspects
    ]
    found += [
        _absent(each, now)
        for each in cache.by(indices.WORKERS_ABSENT, True)
        if not garbage.vanished(each)
    ]
    found += [
        LeftBehind(region=_region(each), suspect=suspect, age_seconds=_age(suspect, now))
        for each in cache.by(indices.WORKERS_STRAY, True)
        for suspect in _labs(each)
    ]
    return tuple(found)


def _name(region: Region) -> str:
    return region.name


def _age(suspect: Suspect, now: datetime) -> int:
    return max(0, int((now - suspect.since).total_seconds()))


def _absent(worker: Worker, now: datetime) -> LeftBehind:
    since = worker.status.machine.absent_since or now
    told = conditions.find(worker.status.conditions, WorkerCondition.CML_READY)
    answers = told is not None and told.status == "True" and worker.status.cml.ready is True
    suspect = Suspect(
        kind="worker",
        id=ids.slug(worker.name),
        name=worker.status.machine.id or "",
        since=since,
        why="EC2 does not show its instance",
        next="nothing while its CML answers" if answers else "ended when EC2 says so again",
    )
    return LeftBehind(region=_region(worker), suspect=suspect, age_seconds=_age(suspect, now))


def _labs(worker: Worker) -> Iterator[Suspect]:
    told = conditions.find(worker.status.conditions, WorkerCondition.STRAY_LABS)
    then = "" if told is None else told.message.partition("; ")[2]
    for lab in stray_labs.heeded(worker.status.stray_labs):
        why = f"its session {lab.uid} is not in this store, or has ended"
        yield Suspect(
            kind="lab", id=lab.id, name=worker.key.label, since=lab.since, why=why, next=then
        )


def _region(worker: Worker) -> str:
    machine = worker.spec.machine
    return "" if machine is None else machine.provider.region
