"""Where a session stands in one line, when it starts, and what would have it start earlier.

The head of its explanation; `session_explained` has the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from labfleet.decisions import placement, wording
from labfleet.decisions.lifecycle.worker import phases
from labfleet.decisions.queueing.session_starts import COVERAGE, between
from labfleet.kernel.clock import utc_text
from labfleet.kernel.quantity import count
from labfleet.resources import refs
from labfleet.resources.decision import Decision
from labfleet.resources.definition import Definition
from labfleet.resources.meta import Ref
from labfleet.resources.pool import Pool
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.session_conditions import Holdup, WaitReason
from labfleet.resources.waiting import SessionOutlook
from labfleet.resources.worker import Worker
from labfleet.service.core.explanation import Expected, Explanation, Remedy
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import indices, pool_claims, session_outlook
from labfleet.service.kinds.pool_leads import Leads
from labfleet.service.kinds.session_holdup import broken, danger, held_up

S = SessionPhase
_PLACED = frozenset({S.SCHEDULED, S.INSTANTIATING})
_ASK = "ask whoever runs the fleet"


async def completed(
    services: ServiceContext, session: Session, definition: Definition | None, told: Explanation
) -> Explanation:
    """Return an explanation with its head: the line, and when the session starts."""
    outlook, expected = None, None
    if session.status.phase is S.PENDING:
        await services.fresh()
        if _ahead(services, session):
            expected = await _promised(services, session)
        else:
            outlook = await session_outlook.of(services, session)
            expected = None if outlook is None else _waits(outlook)
    elif session.status.phase in _PLACED and definition is not None:
        expected = _placed(services, session, definition)
    line = headline(services, session, outlook)
    head = [f"{line}.", *([] if expected is None else [words(expected)])]
    lines = (*told.lines[:1], *head, *told.lines[1:])
    return msgspec.structs.replace(told, headline=line, expected=expected, lines=lines)


def words(expected: Expected) -> str:
    """Return when a session starts, in a sentence."""
    early, late = expected.earliest, expected.latest
    said = "Nobody can tell when it starts"
    if early is not None and late is not None:
        said = f"It starts between {utc_text(early)} and {utc_text(late)}"
        if early == late:
            said = f"It starts at {utc_text(early)}"
    elif early is not None:
        said = f"It starts at {utc_text(early)} or later"
    if expected.coverage is not None:
        said += f", in {expected.coverage:.0%} of such cases"
    if expected.worker_by is not None:
        said += f"; its worker is up by {utc_text(expected.worker_by)}"
    return f"{said}: {expected.because}." if expected.because else f"{said}."


def headline(services: ServiceContext, session: Session, outlook: SessionOutlook | None) -> str:
    """Return a word, a colon, and what it is about."""
    status = session.status
    on = f"on {status.worker}"
    match status.phase:
        case S.PENDING:
            return _pending(services, session, outlook)
        case S.SCHEDULED:
            return f"Placed: {on}"
        case S.INSTANTIATING:
            lab = status.lab
            if lab is None or lab.id is None:
                return f"Importing: its lab {on}"
            return f"Booting: {lab.booted} of {count(lab.nodes, 'node')} up {on}"
        case S.READY | S.RUNNING:
            return f"{str(status.phase).capitalize()}: {on}"
        case S.COLLECTING | S.STOPPING:
            becomes = "" if status.outcome is None else f", then it is {status.outcome}"
            return f"Ending: {on}{becomes}"
        case S.FAILED if status.decision is not None and status.decision.outcome == "refused":
            return f"Refused: {status.reason}"
    word = str(status.phase).capitalize()
    if status.reason == word:
        return f"{word}: {_cancelled(session)}"
    return f"{word}: {status.reason or 'its time is over'}"


def _cancelled(session: Session) -> str:
    """Return by whom and why a session was ended before its time, as far as that was recorded."""
    by = session.spec.cancel
    if by is None:
        return "before its time"
    who = f"by {by.by}" if by.by else "by somebody"
    return f"{who} ({by.reason})" if by.reason else who


def _ahead(services: ServiceContext, session: Session) -> bool:
    """Tell whether no worker is looked for yet."""
    looked_for = Leads(services.cache).looked_for(session)
    return looked_for is not None and looked_for > services.clock.now()


def _pending(services: ServiceContext, session: Session, outlook: SessionOutlook | None) -> str:
    claim, rank = session.status.claim, f"priority {session.spec.priority}"
    if claim is not None:
        lost = danger(services, session)
        if lost is not None and not lost.why:
            return f"In danger: pool {claim.pool}, which promised it a place, is gone"
        if lost is not None:
            return f"In danger: its place in pool {claim.pool} ({lost.why})"
    if outlook is not None:
        place = f"position {outlook.position} of {outlook.waiting} in {outlook.line}"
        return f"Waiting: {place} ({rank})"
    if not _ahead(services, session):
        return f"Waiting: for a worker ({rank})"
    if claim is not None:
        return f"Promised: a place in pool {claim.pool}"
    if session.spec.when_full == "wait":
        at, waiting = _on_list(services, session)
        return f"Waiting list: position {at} of {waiting}"
    return "Booked: nothing is promised to it"


def _on_list(services: ServiceContext, session: Session) -> tuple[int, int]:
    """Return a session's place among the slots of its namespace that wait for a promise."""
    waiting = [
        each
        for each in services.cache.by(indices.SESSIONS_PENDING, True)
        if each.namespace == session.namespace
        and each.spec.slot.start is not None
        and each.status.claim is None
    ]
    waiting.sort(key=lambda each: (str(each.metadata.creation_timestamp), each.key))
    uids = [each.metadata.uid for each in waiting]
    uid = session.metadata.uid
    return uids.index(uid) + 1 if uid in uids else len(uids) + 1, max(1, len(uids))


def _waits(outlook: SessionOutlook) -> Expected:
    return Expected(
        earliest=outlook.earliest,
        latest=outlook.latest,
        coverage=outlook.coverage,
        because=outlook.because,
    )


async def _promised(services: ServiceContext, session: Session) -> Expected | None:
    """Return a slot's begin, with the state of the place that is promised for it."""
    claim, start = session.status.claim, session.spec.slot.start
    pool = pool_claims.pool_of(services.cache, session)
    if start is None or claim is None:
        because = "it starts with its slot if there is room then"
        return None if start is None else Expected(because=because)
    if pool is None or broken(services, pool, claim) is not None:
        return Expected(because="what was promised to it is not there now")
    now = services.clock.now()
    found = pool_claims.Claims(services.cache, now).of(pool, claim.start, claim.end)
    name = None if found is None else found.worker_of(claim.place)
    worker = None if name is None else services.cache.get(Worker, name, session.namespace)
    looked_for = Leads(services.cache).looked_for(session) or now
    because = f"a worker is made ready for it from {utc_text(looked_for)}"
    by = None
    if worker is not None and worker.status.phase in phases.HOSTING:
        because = f"{worker.name}, which serves its place, is up"
    elif worker is not None and worker.status.phase in phases.BOOTING:
        because, by = await _booting(services, worker, now)
    return Expected(earliest=start, latest=start, because=because, worker_by=by)


async def _booting(
    services: ServiceContext, worker: Worker, now: datetime
) -> tuple[str, datetime | None]:
    """Return how far a worker is, and until when it is up."""
    past = session_outlook.kept(services).past
    if worker.spec.machine is None:
        return f"{worker.name} boots", None
    lasting, since = await past.boot(worker, worker.spec.machine, now)
    age = max(0.0, (now - since).total_seconds())
    said = session_outlook.aged(age, lasting)
    _, late = between(worker.name, lasting, age)
    by = since + timedelta(seconds=late) if lasting.spread else None
    return f"{worker.name} boots ({worker.status.phase}, {said})", by


def _placed(services: ServiceContext, session: Session, definition: Definition) -> Expected:
    """Return when a session starts whose lab is still to come up."""
    status, now, begins = session.status, services.clock.now(), session.spec.slot.start
    lasting = session_outlook.kept(services).past.of_lab(definition)
    since = now
    if status.phase is S.INSTANTIATING:
        since = status.phase_since or now
    age = max(0.0, (now - since).total_seconds())
    early, late = between(session.metadata.uid, lasting, age)
    at = [since + timedelta(seconds=each) for each in (early, late)]
    if begins is not None:
        at = [max(each, begins) for each in at]
    because = "its lab is imported, started and boots"
    if not lasting.spread:
        because += "; not known yet: how long its lab takes to start"
    return Expected(
        earliest=at[0], latest=at[1], coverage=COVERAGE if lasting.spread else None, because=because
    )


def sooner(services: ServiceContext, session: Session) -> Iterator[Remedy]:
    """Yield what would have a session that waits start earlier."""
    decision = session.status.decision
    if session.status.phase is not S.PENDING or _ahead(services, session):
        return
    definition = services.cache.find(refs.definition_of(session))
    if decision is not None and definition is not None:
        yield from _smaller(decision, definition)
    held = held_up(services, session, definition)
    if held is not None and held.why == Holdup.AT_MAXIMUM:
        pool = services.cache.find(Ref(Pool, session.namespace, held.pool))
        most = 0 if pool is None else pool.spec.scaling.max_workers
        yield Remedy(
            f"a further worker: raise maxWorkers of pool {held.pool} above {most}",
            "Pool",
            f"a further worker: {_ASK} for one",
        )
    elif held is not None and held.why in {Holdup.FLEET_PAUSED, Holdup.POOL_PAUSED}:
        what = "" if held.why == Holdup.FLEET_PAUSED else f" --pool {held.pool}"
        yield Remedy(f"a further worker: labfleet resume{what}", "Pool", f"{_ASK} for a worker")
    if decision is not None and decision.reason == WaitReason.PROMISED:
        yield Remedy("a shorter session, which ends before what is promised to others")


def _smaller(decision: Decision, definition: Definition) -> Iterator[Remedy]:
    """Yield by how much less a lab would have room on the worker that lacks least."""
    words = frozenset(placement.SHORT.values())
    for each in decision.candidates:
        short = each.shortages
        if each.fits or not short or not words.issuperset(each.reasons):
            continue
        if any(lack.free <= 0 for lack in short):
            continue
        less = " and ".join(
            f"{wording.quantity(lack.dimension, lack.free)} instead of "
            f"{wording.quantity(lack.dimension, lack.wanted)}"
            for lack in short
        )
        yield Remedy(
            f"let definition {definition.name} ask for {less}: that fits {each.name} now",
            "Definition",
            f"take a definition that asks for {less}: that fits now",
        )
        return
