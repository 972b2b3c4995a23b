"""The rules on promises: they pack into whole workers, stay where they are, and are kept.

Nothing that is bound takes what is promised to others, and a promise that is not kept has a true cause.

Judged by the checker's own copy of sessions, pools and templates, by plain sums at the instants at
which claims begin: it knows nothing of how the product packs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from labfleet.decisions import placement
from labfleet.interfaces import store
from labfleet.rehearsal.rules.excuses import BEFORE, OUTSIDE, Excuses
from labfleet.rehearsal.rules.pool_sizes import PoolSizes
from labfleet.rehearsal.rules.written import written
from labfleet.rehearsal.time.virtual_host import EPOCH
from labfleet.rehearsal.worlds.database import SharedDatabase
from labfleet.resources import conditions, kinds
from labfleet.resources.amounts import (
    DIMENSIONS,
    Amounts,
    Claim,
    Reservation,
    of_vector,
    vector,
)
from labfleet.resources.conditions import Condition
from labfleet.resources.meta import Key
from labfleet.resources.pool import Pool
from labfleet.resources.session import TERMINAL, Session, SessionPhase
from labfleet.resources.session_conditions import SessionCondition, SessionReason
from labfleet.resources.template import Template
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.stores import rules

AHEAD = timedelta(hours=1)
"""How long before its slot a promise must have stood: a worker boots within that."""
MOVES = "promise moved to place"
"""How the event begins of a claim that its own place could hold no more."""

PARTS = frozenset(
    {"admission", "delivery", "discovery", "garbage", "scheduler", "upkeep", "webhooks"}
)
"""Actors of the product whose names do not end in `controller`."""


@dataclass(slots=True)
class Promises:
    """Watches the claims of a run; `excuses` knows what happened outside of the product."""

    shared: SharedDatabase
    broken: Callable[[str, str], None]
    excuses: Excuses
    _sessions: dict[Key, Session] = field(default_factory=dict)
    _most: dict[str, int] = field(default_factory=dict)
    _now: dict[str, int] = field(default_factory=dict)
    _pools: dict[tuple[str, str], str] = field(default_factory=dict)
    _sizes: dict[str, Amounts] = field(default_factory=dict)
    _since: dict[str, datetime] = field(default_factory=dict)
    _people: dict[str, datetime] = field(default_factory=dict)
    _sizes_of_pools: PoolSizes = field(init=False)

    def __post_init__(self) -> None:
        self._sizes_of_pools = PoolSizes(self.broken, self._sessions)
        self.shared.heard.append(self.committed)

    def committed(self, commits: list[store.Commit], outcomes: list[rules.Outcome]) -> None:
        """Take what was just made durable."""
        for commit, outcome in zip(commits, outcomes, strict=True):
            for write, revision in written(commit, outcome):
                if isinstance(write, store.Put):
                    self._put(write, revision, commit)
                else:
                    self._sessions.pop(write.key, None)
                    self._sizes_of_pools.gone(write.key)

    def _put(self, write: store.Put, revision: int, commit: store.Commit) -> None:
        kind, space = write.key.kind, write.key.namespace
        if kind not in {"Session", "Pool", "Template", "Worker", "Settings"}:
            return
        if kind != "Session" and not _automatic(commit.cause.actor):
            self._people["" if kind == "Settings" else space] = commit.cause.at
        new = kinds.decode(kind, write.doc, revision)
        if isinstance(new, Session):
            self._session(write.key, new, commit)
        elif isinstance(new, Pool):
            self._now[new.key.path] = new.spec.scaling.max_workers
            self._most[new.key.path] = max(
                self._most.get(new.key.path, 0), new.spec.scaling.max_workers
            )
        elif isinstance(new, Template):
            made = placement.shape(new.name, "", new.spec.machine).capacity
            self._grew(space, self._sizes.get(space, Amounts()), made)
        elif isinstance(new, Worker):
            self._worker(new, space)
        self._sizes_of_pools.put(new, commit.cause.actor, commit.cause.reason, commit.cause.at)

    def _worker(self, new: Worker, space: str) -> None:
        """Remember of which pool a worker is, while it may serve, and how large it is."""
        over = new.status.phase in {WorkerPhase.FAILED, WorkerPhase.TERMINATED}
        if over or new.spec.pool is None:
            self._pools.pop((space, new.name), None)
        else:
            self._pools[space, new.name] = new.spec.pool
        if new.status.capacity is not None and space in self._sizes:
            self._grew(space, self._sizes[space], new.status.capacity)

    def _grew(self, space: str, before: Amounts, size: Amounts) -> None:
        """Remember the largest that a worker of a namespace was ever known to have."""
        self._sizes[space] = of_vector(map(max, vector(before), vector(size)))

    def _session(self, key: Key, new: Session, commit: store.Commit) -> None:
        old = self._sessions.get(key)
        self._sessions[key] = new
        claim = new.status.claim
        before = None if old is None else old.status.claim
        if claim is not None and claim != before and _holds(new):
            self._packed(key, claim)
            if before is not None:
                self._stays(key, before, claim, new, commit)
        held = new.status.reservation
        if held is not None and (old is None or held != old.status.reservation):
            self._takes(key, held, commit.cause.at)
        self._kept(old, new, commit)

    def _packed(self, key: Key, claim: Claim) -> None:
        """At each instant the claims of a place fit into one worker, and the pool may have it.

        Pools and templates that stood in the database before the run are not known here.
        """
        path = f"{key.namespace}/{claim.pool}"
        if claim.place >= self._most.get(path, claim.place + 1):
            self.broken("packed", f"{key} is promised place {claim.place} of pool {path}")
        size = self._sizes.get(key.namespace)
        if size is None:
            return
        beside = [
            each.status.claim
            for other, each in self._sessions.items()
            if other.namespace == key.namespace and each.status.claim is not None and _holds(each)
        ]
        beside = [e for e in beside if (e.pool, e.place) == (claim.pool, claim.place)]
        for at in {each.start for each in beside if claim.start <= each.start < claim.end}:
            held = [each.amounts for each in beside if each.start <= at < each.end]
            for name in DIMENSIONS:
                if sum(getattr(each, name) for each in held) > getattr(size, name):
                    told = f"place {claim.place} of pool {path} is promised more {name} than it has"
                    self.broken("packed", f"{told} at {at}: {len(held)} claims, with {key}")
                    return

    def _takes(self, key: Key, held: Reservation, now: datetime) -> None:
        """Report a binding, or a longer one, after which an earlier promise has no worker left.

        Judged at each instant at which a claim begins that is still to come: its place is served by
        a worker, or by one that no other place needs, there or to be made.
        """
        pool, space = self._pools.get((key.namespace, held.holder)), key.namespace
        size, most = self._sizes.get(space), self._now.get(f"{space}/{pool}")
        if pool is None or size is None or most is None:
            return
        near = [each for k, each in self._sessions.items() if k.namespace == space]
        coming = [
            claim
            for each in near
            if (claim := each.status.claim) is not None
            and each.status.phase is SessionPhase.PENDING
            and (claim.pool, claim.place < most, claim.start > now) == (pool, True, True)
        ]
        bound = [each for each in near if self._pools.get((space, _holder(each))) == pool]
        for at in {each.start for each in coming if held.end is None or each.start < held.end}:
            lost = _without_worker(at, coming, bound, size, most)
            if lost is not None:
                told = f"{key} takes what place {lost} of pool {space}/{pool} has promised at {at}"
                self.broken("taken", told)
                return

    def _stays(
        self, key: Key, before: Claim, claim: Claim, new: Session, commit: store.Commit
    ) -> None:
        """Report a promise that changes without a binding, an extension or a named reason."""
        binds = new.status.phase is not SessionPhase.PENDING
        asks = new.spec.slot.start is None or claim.end > before.end
        if not binds and not asks and not commit.cause.reason.startswith(MOVES):
            self.broken("packed", f"the promise to {key} moved: {commit.cause.reason!r}")

    def _kept(self, old: Session | None, new: Session, commit: store.Commit) -> None:
        """Report a promise that did not begin within its grace, unless a true cause is recorded.

        Who gave it back is not let down. What nothing explains is our fault when it stood in time,
        nobody changed pool, worker or settings meanwhile, and no fault struck around the slot.
        """
        uid, start, now = new.metadata.uid, new.spec.slot.start, commit.cause.at
        if start is None:
            return
        if new.status.claim is not None:
            self._since.setdefault(uid, now)
        fact = conditions.find(new.status.conditions, SessionCondition.PROMISE_KEPT)
        before = None if old is None else _fact(old)
        if new.status.claim is None or fact == before:
            if _let_down(old, new) and fact is None:
                self.broken("kept", f"{new.key} was promised, never began, and nothing says why")
            return
        if fact is None or fact.status == "True":
            return
        since = self._since[uid]
        acts = [self._people[each] for each in ("", new.namespace) if each in self._people]
        people = any(at >= since for at in acts)
        begin = (start - BEFORE - EPOCH).total_seconds()
        told = f"{new.key} was promised and began too late or never: {new.status.message}"
        if fact.reason == SessionReason.SHORT_NOTICE:
            if start - since >= AHEAD:
                self.broken("excuse", f"{told}; it stood since {since}, which is no short notice")
        elif fact.reason != SessionReason.NOT_EXPLAINED:
            if not self.excuses.true(fact.reason, begin, people=people):
                self.broken("excuse", f"{told}; {fact.reason} is recorded, and nothing shows it")
        elif start - since >= AHEAD and not people and not self.excuses.struck(OUTSIDE, begin):
            self.broken("kept", told)


def _holder(session: Session) -> str:
    held = session.status.reservation
    return "" if held is None else held.holder


def _without_worker(
    at: datetime, coming: list[Claim], bound: list[Session], size: Amounts, most: int
) -> int | None:
    """Return a place whose claims have no worker at an instant; None: each may have one."""
    needs, taken, serves = dict[int, list[Amounts]](), dict[str, list[Amounts]](), dict[int, str]()
    for claim in coming:
        if claim.start <= at < claim.end:
            needs.setdefault(claim.place, []).append(claim.amounts)
    for each in bound:
        held, own = each.status.reservation, each.status.claim
        if held is None or held.start > at or (held.end is not None and held.end <= at):
            continue
        taken.setdefault(held.holder, []).append(held.amounts)
        if own is not None:
            serves.setdefault(own.place, held.holder)
    for place, worker in serves.items():
        if place in needs and not _fit([*needs.pop(place), *taken[worker]], size):
            return place
    loose = sorted(set(taken) - set(serves.values()))
    free = most - len(taken)
    for place, wanted in sorted(needs.items()):
        home = next((each for each in loose if _fit([*wanted, *taken[each]], size)), None)
        if home is not None:
            loose.remove(home)
        elif free > 0:
            free -= 1
        else:
            return place
    return None


def _fit(amounts: list[Amounts], size: Amounts) -> bool:
    return all(sum(getattr(a, name) for a in amounts) <= getattr(size, name) for name in DIMENSIONS)


def _fact(session: Session) -> Condition | None:
    return conditions.find(session.status.conditions, SessionCondition.PROMISE_KEPT)


def _let_down(old: Session | None, new: Session) -> bool:
    """Tell whether a promised session has just ended without having begun, by nobody's wish."""
    lost = {SessionPhase.EXPIRED, SessionPhase.FAILED}
    was = None if old is None else old.status.phase
    refused = new.status.decision is not None and new.status.decision.outcome == "refused"
    ended = new.status.phase in lost and was not in lost and not refused
    return ended and new.status.started_at is None and new.status.claim is not None


def _automatic(actor: str) -> bool:
    """Tell whether an actor is a part of the product and not a person."""
    return actor.endswith("controller") or actor in PARTS


def _holds(session: Session) -> bool:
    return session.status.phase not in TERMINAL or session.status.reservation is not None
