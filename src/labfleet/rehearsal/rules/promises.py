"""The rules on promises: they pack into whole workers, stay where they are, and are kept.

Judged by the checker's own copy of sessions, pools and templates, by plain sums at the instants at
which claims begin: it knows nothing of how the product packs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from labfleet.decisions import placement
from labfleet.interfaces import store
from labfleet.rehearsal.rules.written import written
from labfleet.rehearsal.worlds.database import SharedDatabase
from labfleet.resources import kinds
from labfleet.resources.amounts import DIMENSIONS, Amounts, Claim, of_vector, vector
from labfleet.resources.meta import Key
from labfleet.resources.pool import Pool
from labfleet.resources.session import TERMINAL, Session, SessionPhase
from labfleet.resources.session_conditions import PhaseReason
from labfleet.resources.template import Template
from labfleet.resources.worker import Worker
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
    """Watches the claims of a run; `excused` says whether something outside happened in it."""

    shared: SharedDatabase
    broken: Callable[[str, str], None]
    excused: Callable[[], bool]
    _sessions: dict[Key, Session] = field(default_factory=dict)
    _most: dict[str, int] = field(default_factory=dict)
    _sizes: dict[str, Amounts] = field(default_factory=dict)
    _since: dict[str, datetime] = field(default_factory=dict)
    _people: dict[str, datetime] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.shared.heard.append(self.committed)

    def committed(self, commits: list[store.Commit], outcomes: list[rules.Outcome]) -> None:
        """Take what was just made durable."""
        for commit, outcome in zip(commits, outcomes, strict=True):
            for write, revision in written(commit, outcome):
                if isinstance(write, store.Put):
                    self._put(write, revision, commit)
                else:
                    self._sessions.pop(write.key, None)

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
            self._most[new.key.path] = max(
                self._most.get(new.key.path, 0), new.spec.scaling.max_workers
            )
        elif isinstance(new, Template):
            made = placement.shape(new.name, "", new.spec.machine).capacity
            self._grew(space, self._sizes.get(space, Amounts()), made)
        elif isinstance(new, Worker) and new.status.capacity is not None and space in self._sizes:
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

    def _stays(
        self, key: Key, before: Claim, claim: Claim, new: Session, commit: store.Commit
    ) -> None:
        """Report a promise that changes without a binding, an extension or a named reason."""
        binds = new.status.phase is not SessionPhase.PENDING
        asks = new.spec.slot.start is None or claim.end > before.end
        if not binds and not asks and not commit.cause.reason.startswith(MOVES):
            self.broken("packed", f"the promise to {key} moved: {commit.cause.reason!r}")

    def _kept(self, old: Session | None, new: Session, commit: store.Commit) -> None:
        """Report a promise that stood in time and did not start within its grace.

        A fault of the run excuses it, or somebody who changed pool, worker or settings meanwhile.
        """
        uid, start, now = new.metadata.uid, new.spec.slot.start, commit.cause.at
        if start is None:
            return
        if new.status.claim is not None:
            self._since.setdefault(uid, now)
        ended = new.status.phase is SessionPhase.EXPIRED
        if not ended or (old is not None and old.status.phase is SessionPhase.EXPIRED):
            return
        late = new.status.reason == PhaseReason.NEVER_STARTED and new.status.claim is not None
        since = self._since.get(uid, now)
        acts = [self._people[each] for each in ("", new.namespace) if each in self._people]
        meddled = any(at >= since for at in acts)
        if late and start - since >= AHEAD and not meddled and not self.excused():
            self.broken("kept", f"{new.key} was promised and never started: {new.status.message}")


def _automatic(actor: str) -> bool:
    """Tell whether an actor is a part of the product and not a person."""
    return actor.endswith("controller") or actor in PARTS


def _holds(session: Session) -> bool:
    return session.status.phase not in TERMINAL or session.status.reservation is not None
