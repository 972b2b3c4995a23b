"""Reading the labs on a worker's server: each with its state, whose it is, and since when it was seen.

Of what the worker's own looks found; nothing is asked of the server. What is told depends on who
reads: operators and admins see every lab, programs that report see them without the titles and
owners of other people's labs, and people see the labs of their own sessions and no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from labfleet.kernel import errors
from labfleet.resources import conditions
from labfleet.resources.hosted_labs import HostedLab, IgnoredLab
from labfleet.resources.meta import Record
from labfleet.resources.session import Session
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.resources.worker_conditions import WorkerCondition
from labfleet.service.core import access, lookup
from labfleet.service.core.service_context import Caller, Refused, ServiceContext
from labfleet.service.kinds import indices

REMOVAL = "remove_lab"
LOOKS = 20
"""How many looks back the newest that saw the labs is searched for."""

Whose = Literal["session", "nobody", "ignored", "left-behind", "being-removed"]


class LabOfWorker(Record, frozen=True, kw_only=True):
    """One lab on a worker's server.

    id: CML's name for the lab.
    whose: A session's; nobody's, such as one that somebody made in CML; nobody's and ignored, as a
    person said; left behind by a session that is not in this store, or has ended; or being removed.
    session: Name of its session; empty when there is none.
    owner: Owner of its session; else CML's name for its user, empty when it was not asked.
    title: Its title; empty when it was not asked.
    state: Its state in CML's words; null when it is not known.
    nodes: How many nodes it has; null when they were not seen.
    running: How many of them run, or wait to be started; null when they were not seen.
    since: When a look first saw it there; null when none has yet.
    why: Why it is removed or left alone; empty when there is nothing to say.
    ignored: Who said that it is left alone, when and why; null when nobody did.
    """

    id: str
    whose: Whose
    session: str = ""
    owner: str = ""
    title: str = ""
    state: str | None = None
    nodes: int | None = None
    running: int | None = None
    since: datetime | None = None
    why: str = ""
    ignored: IgnoredLab | None = None


class LabsReading(Record, frozen=True, kw_only=True):
    """The labs of a worker, as far as the caller may see them.

    worker: Name of the worker.
    seen: When a look last saw the labs; null when this process knows of none.
    count: How many labs with nodes the server has; null when they were not seen yet, the worker is
    over, or the caller sees only the labs of their own sessions.
    labs: Those that are listed, by id; null while they are not known.
    more: How many more there are than are listed.
    """

    worker: str
    seen: datetime | None = None
    count: int | None = None
    labs: tuple[LabOfWorker, ...] | None = None
    more: int = 0


async def labs_of_worker(
    services: ServiceContext, caller: Caller, name: str, namespace: str
) -> LabsReading:
    """Return the labs of a worker; Gone when there is no such worker, or nothing there to be seen.

    Somebody who may not read workers sees a worker on which a session of theirs has its lab.
    """
    await services.fresh()
    reader = caller.principal
    all_of_them = access.may(reader, "read", "Worker")
    if not all_of_them:
        access.demand(reader, "read", "Session")
    worker = services.cache.get(Worker, name, namespace)
    if all_of_them:
        worker = await lookup.found(services, caller, Worker, name, namespace)
    here = () if worker is None else services.cache.by(indices.SESSIONS_HERE, worker.key.path)
    mine = [each for each in here if access.sees(reader, each)]
    if worker is None or not (all_of_them or mine):
        raise errors.Gone(f"worker {name[:80]!r} does not exist")
    known = worker.status.hosted_labs
    if known is None or worker.status.phase is WorkerPhase.TERMINATED:
        return LabsReading(worker=worker.name)
    rows = [_of_session(each, known) for each in mine if _lab_id(each) is not None]
    if not all_of_them:
        rows.sort(key=lambda each: each.id)
        return LabsReading(worker=worker.name, seen=_seen_at(services, worker), labs=tuple(rows))
    theirs = {_lab_id(each) for each in here}
    named = access.reads_addresses(reader)
    rows += [_of_nobody(each, worker, named=named) for each in known if each.id not in theirs]
    rows.sort(key=lambda each: each.id)
    count = worker.status.cml.labs
    more = max(0, (count or 0) - len({each.id for each in rows} | {each.id for each in known}))
    return LabsReading(
        worker=worker.name,
        seen=_seen_at(services, worker),
        count=count,
        labs=tuple(rows),
        more=more,
    )


def nobodys(services: ServiceContext, worker: Worker, lab: str) -> LabOfWorker:
    """Return a lab that is no session's, without its names; Gone when no look has seen it.

    Refused (LabOfSession) when it is a session's, and (BeingRemoved) when its removal is under way.
    """
    # Of every session there, whoever asks: a lab that one has is never nobody's.
    for session in services.cache.by(indices.SESSIONS_HERE, worker.key.path):
        if _lab_id(session) == lab:
            told = (
                f"lab {lab} is session {session.name!r}'s: say what is to be done to that session"
            )
            raise Refused(told, reason="LabOfSession")
    known = next((each for each in worker.status.hosted_labs or () if each.id == lab), None)
    if known is None:
        raise errors.Gone(f"no look has seen lab {lab[:80]!r} on worker {worker.name!r}")
    found = _of_nobody(known, worker, named=False)
    if found.whose == "being-removed":
        raise Refused(f"lab {lab} is being removed: {found.why}", reason="BeingRemoved")
    return found


def _lab_id(session: Session) -> str | None:
    lab = session.status.lab
    return None if lab is None or lab.seen_gone else lab.id


def _of_session(session: Session, known: Sequence[HostedLab]) -> LabOfWorker:
    lab = session.status.lab
    if lab is None or lab.id is None:
        raise AssertionError("asked of sessions whose lab is known only")
    seen = next((each for each in known if each.id == lab.id), None)
    return LabOfWorker(
        id=lab.id,
        whose="session",
        session=session.name,
        owner=session.spec.owner,
        title=lab.title,
        state=lab.state if seen is None else seen.state,
        nodes=None if seen is None else seen.nodes,
        running=None if seen is None else seen.running,
        since=None if seen is None else seen.since,
    )


def _of_nobody(lab: HostedLab, worker: Worker, *, named: bool) -> LabOfWorker:
    ignored = next((each for each in worker.spec.ignored_labs if each.id == lab.id), None)
    whose, why = _fate(lab.id, worker, ignored)
    return LabOfWorker(
        id=lab.id,
        whose=whose,
        owner=lab.owner if named else "",
        title=lab.title if named else "",
        state=lab.state,
        nodes=lab.nodes,
        running=lab.running,
        since=lab.since,
        why=why,
        ignored=ignored,
    )


def _fate(lab: str, worker: Worker, ignored: IgnoredLab | None) -> tuple[Whose, str]:
    """Return whose a lab of no session is, and why it is removed or left alone."""
    if _removed_now(worker, lab):
        return "being-removed", "its session is not in this store, or has ended"
    if ignored is not None:
        return "ignored", f"ignored by {ignored.by}: {ignored.reason}"
    stray = next((each for each in worker.status.stray_labs.labs if each.id == lab), None)
    if stray is None:
        return "nobody", ""
    told = conditions.find(worker.status.conditions, WorkerCondition.STRAY_LABS)
    then = "" if told is None else told.message.partition("; ")[2]
    why = f"its session {stray.uid} is not in this store, or has ended"
    return "left-behind", f"{why}; {then}" if then else why


def _removed_now(worker: Worker, lab: str) -> bool:
    effect = worker.status.effect
    return effect is not None and effect.kind == REMOVAL and effect.parameters.get("lab") == lab


def _seen_at(services: ServiceContext, worker: Worker) -> datetime | None:
    """Return when the labs of a worker were last seen, as far as this process knows."""
    samples = services.samples.recent(worker.key, LOOKS)
    return next((each.at for each in reversed(samples) if each.labs_count is not None), None)
