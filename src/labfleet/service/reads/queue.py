"""What waits now: sessions for a worker or on the waiting list, and simulations for their cluster.

Read from the cache: places and start ranges are those that the outlooks keep, so a look costs the
same however often it is asked for. Whoever may see only their own gets their own, each with its
place among all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from labfleet.decisions import wording
from labfleet.resources import refs, runbook
from labfleet.resources.decision import Decision
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.session_conditions import Holdup
from labfleet.resources.simulation import Simulation
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices, outlook, session_outlook
from labfleet.service.kinds.cluster_mode import denies
from labfleet.service.kinds.pool_leads import Leads
from labfleet.service.kinds.session_holdup import held_up
from labfleet.service.reads import explain

LIST = "waiting list"
"""The line of slots that wait for a promise."""
FIELDS = ("kind", "line", "owner", "definition", "reason")
"""By what a queue may be filtered; each has to be as given, whole."""
_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Waits:
    """One that waits, without what is only worked out for those that are shown.

    line: Pool, track or queue for which it waits; `LIST` for a slot without a promise.
    position: Its place there, 1 for the next one; None while nobody has looked.
    of: How many wait there; None likewise, or when that is not counted.
    definition: Name of its definition; of a simulation the runs that it is like.
    reason: Word for why it waits.
    """

    obj: Session | Simulation
    line: str
    position: int | None
    of: int | None
    earliest: datetime | None
    latest: datetime | None
    coverage: float | None
    because: str
    owner: str
    definition: str
    since: datetime | None
    reason: str


@dataclass(frozen=True, slots=True)
class Told:
    """What is said of one that waits: why in a sentence, what would help, what each worker lacks."""

    why: str
    helps: tuple[str, ...]
    short: tuple[tuple[str, str], ...]
    more: int


@dataclass(frozen=True, slots=True)
class Queue:
    """Part of what waits: its rows, how many there are, and how many before the filter.

    `choices` are by field the values that there are, each with how many, the most frequent first.
    """

    rows: tuple[Waits, ...]
    total: int
    all: int
    choices: Mapping[str, tuple[tuple[str, int], ...]]


async def read(
    services: ServiceContext,
    caller: Caller,
    *,
    wanted: Mapping[str, str],
    first: int = 0,
    limit: int = 200,
) -> Queue:
    """Return what waits, from row `first` on, at most `limit` rows; Denied to who may read neither.

    `wanted` has by name of `FIELDS` what a row has to be.
    """
    sessions = access.may(caller.principal, "read", Session.__name__)
    runs = access.may(caller.principal, "read", Simulation.__name__)
    if not runs:
        access.demand(caller.principal, "read", Session.__name__)
    await services.fresh()
    found = list[Waits]()
    if sessions:
        found += await _sessions(services, caller)
    if runs:
        found += await _simulations(services, caller)
    found.sort(key=_order)
    kept = [each for each in found if all(_is(each, *pair) for pair in wanted.items())]
    return Queue(
        rows=tuple(kept[first : first + limit]),
        total=len(kept),
        all=len(found),
        choices={name: _choices(found, name) for name in FIELDS},
    )


def _order(each: Waits) -> tuple[str, str, str, int, datetime, str]:
    at = each.since or _NEVER
    place = each.position or 1 << 30
    return each.obj.kind, each.obj.namespace, each.line, place, at, each.obj.name


def value_of(each: Waits, field: str) -> str:
    """Return what a row is in a field of `FIELDS`."""
    return each.obj.kind if field == "kind" else str(getattr(each, field))


def _is(each: Waits, field: str, value: str) -> bool:
    return not value or value_of(each, field) == value


def _choices(found: list[Waits], field: str) -> tuple[tuple[str, int], ...]:
    counts = dict[str, int]()
    for each in found:
        value = value_of(each, field)
        if value:
            counts[value] = counts.get(value, 0) + 1
    return tuple(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


async def _sessions(services: ServiceContext, caller: Caller) -> list[Waits]:
    who, now, leads = caller.principal, services.clock.now(), Leads(services.cache)
    waiting, listed = list[Session](), list[Session]()
    for each in services.cache.by(indices.SESSIONS_PENDING, True):
        looked_for = leads.looked_for(each)
        if looked_for is None or looked_for <= now:
            waiting.append(each)
        elif each.status.claim is None and each.spec.when_full == "wait":
            listed.append(each)
    for namespace in {each.namespace for each in waiting}:
        await session_outlook.kept(services).look(namespace)
    found = [_session(services, each) for each in waiting if access.sees(who, each)]
    return found + _listed(listed, caller)


def _session(services: ServiceContext, each: Session) -> Waits:
    seen = services.starts.of(each.namespace, each.metadata.uid)
    decision = each.status.decision
    waits = decision is not None and decision.outcome == "waiting"
    return Waits(
        obj=each,
        line="" if seen is None else seen.line,
        position=None if seen is None else seen.position,
        of=None if seen is None else seen.waiting,
        earliest=None if seen is None else seen.earliest,
        latest=None if seen is None else seen.latest,
        coverage=None if seen is None else seen.coverage,
        because="" if seen is None else seen.because,
        owner=each.spec.owner,
        definition=each.spec.definition,
        since=each.metadata.creation_timestamp,
        reason=decision.reason if decision is not None and waits else Holdup.FIRST_LOOK,
    )


def _listed(listed: list[Session], caller: Caller) -> list[Waits]:
    """Return the slots ahead that wait for a promise, each with its place among all of them."""
    listed.sort(key=lambda each: (each.namespace, str(each.metadata.creation_timestamp), each.key))
    places, made = dict[str, int](), list[Waits]()
    for each in listed:
        places[each.namespace] = places.get(each.namespace, 0) + 1
        if access.sees(caller.principal, each):
            start = each.spec.slot.start
            told = "it starts with its slot if there is room by then"
            made.append(
                Waits(
                    each, LIST, places[each.namespace], None, start, None, None, told,
                    each.spec.owner, each.spec.definition, each.metadata.creation_timestamp,
                    "NotPromised",
                )
            )  # fmt: skip
    return made


async def _simulations(services: ServiceContext, caller: Caller) -> list[Waits]:
    found = list[Waits]()
    for path in services.cache.values(indices.SIMULATIONS_QUEUED):
        asked = services.cache.by(indices.SIMULATIONS_QUEUED, path)
        seen = [each for each in asked if access.sees(caller.principal, each)]
        if not seen:
            continue
        cluster = services.cache.find(refs.cluster_of(seen[0]))
        placed = [] if cluster is None else await outlook.of_all(services, cluster)
        places = {run.metadata.uid: place for run, place in placed}
        safe = cluster is not None and denies(cluster)
        found += [_simulation(each, places.get(each.metadata.uid), safe=safe) for each in seen]
    return found


def _simulation(each: Simulation, seen: outlook.Outlook | None, *, safe: bool) -> Waits:
    decision = each.status.decision
    return Waits(
        obj=each,
        line=f"{each.spec.cluster}/{each.spec.queue}" if each.spec.queue else each.spec.cluster,
        position=None if seen is None else seen.position,
        of=None,
        earliest=None if seen is None else seen.earliest,
        latest=None if seen is None else seen.latest,
        coverage=None if seen is None else seen.coverage,
        because=f"cluster {each.spec.cluster} is in safe mode" if safe else "",
        owner=each.spec.owner,
        definition=each.spec.family
        or (each.status.prediction.family if each.status.prediction else ""),
        since=each.status.asked_at,
        reason="FirstLook" if decision is None else decision.reason,
    )


class Teller:
    """Says why the shown ones wait and what would help; those that ask for the same share it."""

    def __init__(self, services: ServiceContext, caller: Caller) -> None:
        self._services = services
        self._caller = caller
        self._known: dict[tuple[object, ...], tuple[str, ...]] = {}

    def told(self, each: Waits) -> Told:
        """Return what is said of one that waits."""
        decision = each.obj.status.decision
        short = () if decision is None else _short(decision)
        more = 0 if decision is None else max(0, decision.evaluated - len(decision.candidates))
        return Told(_why(each, decision), self._helps(each, decision), short, more)

    def _helps(self, each: Waits, decision: Decision | None) -> tuple[str, ...]:
        obj = each.obj
        if isinstance(obj, Simulation):
            return self._of_run(obj, each)
        if each.line == LIST:
            return ("another slot, or one that is shorter",)
        asked = (obj.namespace, obj.spec.track, obj.spec.definition)
        key = (*asked, "" if decision is None else decision.message, each.reason)
        if key not in self._known:
            self._known[key] = self._of_session(obj, each.reason)
        return self._known[key]

    def _of_run(self, run: Simulation, each: Waits) -> tuple[str, ...]:
        if each.because:
            return (f"new figures of it: {each.because}",)
        said = "runs of its cluster that end, or a run that needs less"
        if access.may(self._caller.principal, "update", "Cluster"):
            return (said, f"a higher target of cluster {run.spec.cluster}")
        return (said,)

    def _of_session(self, session: Session, reason: str) -> tuple[str, ...]:
        said = explain.help_for(self._services, self._caller, session)
        definition = self._services.cache.find(refs.definition_of(session))
        held = held_up(self._services, session, definition)
        word = reason if held is None else held.why
        advice = runbook.advice(Session.__name__, SessionPhase.PENDING, word)
        if advice is None:
            return said
        manages = access.may(self._caller.principal, "update", "Pool")
        fix = advice.fix if manages or not advice.others else advice.others
        fix = fix if held is None else fix.replace("POOL", held.pool)
        return (*said, fix)


def _why(each: Waits, decision: Decision | None) -> str:
    if each.line == LIST:
        return "Nothing is promised to its slot yet: its pool is full then."
    if decision is None or (isinstance(each.obj, Session) and decision.outcome != "waiting"):
        return "Nobody has looked for a place yet; that takes seconds."
    return decision.message


def _short(decision: Decision) -> tuple[tuple[str, str], ...]:
    """Return what each candidate lacks; the decision keeps the nearest misses."""
    return tuple(
        (each.name, wording.short(each.shortages) or ", ".join(each.reasons) or "nothing")
        for each in decision.candidates
    )
