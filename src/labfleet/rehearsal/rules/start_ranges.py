"""The rule on start ranges: in order, and as often right as they state.

The product's own look, every few virtual minutes while sessions wait, on a copy of the objects that
is made of the commits: no process is asked, so nothing of the run changes. What was told first of a
session is judged by its start, unless somebody who came after the look got a place before it. Ranges of one look hang together, so a look counts once, by the
share of its ranges that held. A violation is only what cannot be chance: the lower end of a one-sided
99.9 % binomial interval of the missed share is above CLEARLY times what is stated. Under a fault of
the run that share is only told: machines that fail and calls that are lost are drawn in no future.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar, cast

from labfleet.decisions.queueing.session_starts import COVERAGE
from labfleet.engine.cache import Cache
from labfleet.engine.objects import Objects
from labfleet.interfaces import store
from labfleet.interfaces.store.history import HistorySize
from labfleet.rehearsal.rules.overload import least_share
from labfleet.rehearsal.rules.written import written
from labfleet.rehearsal.time.virtual_host import SeededIds, VirtualClock
from labfleet.rehearsal.worlds.database import SharedDatabase
from labfleet.resources import kinds
from labfleet.resources.history import KeptRun, RunKind
from labfleet.resources.meta import Resource
from labfleet.resources.session import TERMINAL, Session
from labfleet.resources.waiting import SessionOutlook
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import indices, session_outlook
from labfleet.stores import rules

EVERY = 300.0
"""Virtual seconds between two looks."""
LEAST = 20
"""Looks with a judged range below which nothing is judged, only told."""
CLEARLY = 1.5
T = TypeVar("T")


@dataclass(slots=True)
class Told:
    """The first range of a session: at which look, and whether it held once that is known.

    at: When it was told.
    """

    look: int
    namespace: str
    at: datetime
    earliest: datetime
    latest: datetime
    held: bool | None = None


class CommittedHistory:
    """The history of past runs as the commits have written it."""

    def __init__(self) -> None:
        self._runs: dict[tuple[RunKind, str], KeptRun] = {}

    def teach(self, write: store.Teach) -> None:
        """Keep a run; of one that is known already the first word stays."""
        run = write.run
        self._runs.setdefault((run.kind, run.uid), KeptRun(place=len(self._runs) + 1, run=run))

    async def history(self, after: int, **filters: Any) -> tuple[KeptRun, ...]:
        """Return nothing: nobody learns here."""
        del after, filters
        return ()

    async def newest_runs(
        self,
        *,
        kind: RunKind | None = None,
        family: str | None = None,
        namespace: str | None = None,
        owner: str | None = None,
        before: int | None = None,
        limit: int = store.PAGE_LIMIT,
    ) -> tuple[KeptRun, ...]:
        """Return the newest runs of a family."""
        del owner, before
        found = [
            each
            for each in reversed(self._runs.values())
            if each.run.kind is kind
            and each.run.family == family
            and each.run.namespace == namespace
        ]
        return tuple(found[:limit])

    async def history_size(self) -> HistorySize:
        """Return how many runs there are."""
        return HistorySize(rows=len(self._runs), place=len(self._runs))

    async def drop_history(self, before: datetime, *, limit: int) -> int:
        """Drop nothing."""
        del before, limit
        return 0


@dataclass(slots=True)
class StartRanges:
    """Watches one run; `excused` says whether a fault of the plan has struck in it."""

    shared: SharedDatabase
    time: Callable[[], float]
    rate: float
    broken: Callable[[str, str], None]
    excused: Callable[[], bool]
    looks: int = 0
    told: dict[str, Told] = field(default_factory=dict)
    _history: CommittedHistory = field(default_factory=CommittedHistory)
    _services: ServiceContext = field(init=False)
    _keeper: session_outlook.StartOutlooks = field(init=False)
    _next: float = 0.0

    def __post_init__(self) -> None:
        nothing = cast("Any", None)  # what a look never touches
        cache = Cache(nothing)
        cache.declare(*indices.declared())
        self._services = ServiceContext(
            Objects(nothing),
            cache,
            VirtualClock(0.0, self.rate, self.time),
            SeededIds("start ranges"),
            log=nothing,
            replies=nothing,
            series=nothing,
            history=self._history,
            kept=nothing,
        )
        self._keeper = session_outlook.kept(self._services)
        cache.on_change(Session, self.changed)
        self.shared.heard.append(self.committed)

    def committed(self, commits: Sequence[store.Commit], outcomes: Sequence[rules.Outcome]) -> None:
        """Take what was just made durable, and look when it is time."""
        for commit, outcome in zip(commits, outcomes, strict=True):
            for write, revision in written(commit, outcome):
                if write.key.kind in kinds.KINDS:
                    self._apply(write, revision, commit)
            if isinstance(outcome, store.Committed):
                for each in commit.writes:
                    if isinstance(each, store.Teach):
                        self._history.teach(each)
        if self.time() >= self._next:
            self._next = self.time() + EVERY
            self._look()

    def _apply(self, write: store.Put | store.Delete, revision: int, commit: store.Commit) -> None:
        put = isinstance(write, store.Put)
        self._services.cache.event(
            store.Event(
                revision=revision,
                type="MODIFIED" if put else "DELETED",
                key=write.key,
                uid="",
                doc=write.doc if isinstance(write, store.Put) else b"",
                at=commit.cause.at,
                actor=commit.cause.actor,
                request_id="",
                reason="",
            )
        )

    def _look(self) -> None:
        """Work out of each namespace when its sessions start, as the product does."""
        cache = self._services.cache
        waiting = {each[0] for each in cache.values(indices.SESSIONS_WAITING)}
        for namespace in sorted(waiting):
            at_once(self._keeper.look(namespace))
            self.looks += 1
            for session in cache.by(indices.SESSIONS_PENDING, True):
                if session.namespace == namespace:
                    found = self._services.starts.of(namespace, session.metadata.uid)
                    if found is not None:
                        self.take(session, found)

    def take(self, session: Session, found: SessionOutlook) -> None:
        """Judge whether what a session is told can be, and keep the first range."""
        early, late = found.earliest, found.latest
        now = self._services.clock.now() - timedelta(minutes=1)
        wrong = early is not None and early < now
        wrong = wrong or (late is not None and (early is None or early > late))
        wrong = wrong or (found.coverage is not None and late is None)
        if wrong or not 1 <= found.position <= found.waiting:
            self.broken("starts", f"{session.key} is told {found}")
        if early is None or late is None or found.coverage is None:
            return
        self.told.setdefault(
            session.metadata.uid,
            Told(self.looks, session.namespace, self._services.clock.now(), early, late),
        )

    def changed(self, old: Resource | None, new: Resource | None) -> None:
        """Judge a range by the start of its session."""
        session = new or old
        if isinstance(old, Session) and isinstance(new, Session):
            self._overtaken(old, new)
        told = None if session is None else self.told.get(session.metadata.uid)
        if told is None or told.held is not None or not isinstance(session, Session):
            return
        at = session.status.started_at
        if at is not None:
            told.held = told.earliest <= at <= told.latest
        elif new is None or session.status.phase in TERMINAL or session.spec.cancel is not None:
            del self.told[session.metadata.uid]

    def _overtaken(self, old: Session, new: Session) -> None:
        """Leave out who is overtaken by one that came after the look: that is drawn in no future."""
        if old.status.reservation is not None or new.status.reservation is None:
            return
        came, uid = new.metadata.creation_timestamp, new.metadata.uid
        for each, told in list(self.told.items()):
            open_ = told.held is None and told.namespace == new.namespace and each != uid
            if open_ and came is not None and came > told.at:
                del self.told[each]

    @property
    def shares(self) -> list[float]:
        """Return which share of the ranges of each look held, of those that are judged."""
        found: dict[int, list[bool]] = {}
        for each in self.told.values():
            if each.held is not None:
                found.setdefault(each.look, []).append(each.held)
        return [sum(each) / len(each) for each in found.values()]

    def end(self) -> None:
        """Compare what held with what was stated; once, at the end."""
        shares = self.shares
        if len(shares) < LEAST or self.excused():
            return
        missed = len(shares) - sum(shares)
        surely = least_share(math.floor(missed), len(shares))
        stated = COVERAGE
        if surely > CLEARLY * (1 - stated):
            said = f"of {len(shares)} looks {missed:.1f} missed the start, surely {surely:.0%}"
            self.broken("starts", f"{said}; stated are {1 - stated:.0%}")


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine gives that only yields to others and waits for nothing."""
    try:
        while True:
            work.send(None)
    except StopIteration as done:
        found: T = done.value
        return found
