"""Keep a lab before its teardown: have configurations read out of its nodes, download it, store it.

Best effort, within a time. What it reads may hold passwords: it goes into the store of kept labs
alone, and messages say nothing of CML's words about it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import msgspec

from labfleet.controllers.context import Context
from labfleet.controllers.session.observer import SessionObserver
from labfleet.decisions.lifecycle.session import keeping
from labfleet.engine.aside import Aside
from labfleet.engine.controller import Again, Done
from labfleet.interfaces import store as stores
from labfleet.interfaces.lab_host import LabHost, NodeState
from labfleet.kernel import errors
from labfleet.resources import kept_lab, refs, topology
from labfleet.resources.kept_work import MIB, Keeping, KeptWork
from labfleet.resources.meta import Key
from labfleet.resources.session import Session, SessionStatus
from labfleet.resources.session_conditions import SessionReason

AT_ONCE = 4
"""Nodes of one lab that are read at the same time."""
EACH = 2
"""How often a node is asked whose answer is lost, or is trouble that may pass."""
DOWNLOAD_SHARE = 0.25
"""Share of the time that is left for the download, however slow the nodes are."""
SHORTEST, POLL, BUSY = 1.0, 2.0, 0.5
NAMED = 50
"""Nodes that a record names; a lab may have thousands."""
ACTOR = "lab-keeper"


@dataclass(frozen=True, slots=True)
class NotKept:
    """Why a lab was not kept; `final` when another attempt would end the same."""

    reason: SessionReason
    message: str
    final: bool


@dataclass(frozen=True, slots=True)
class LabKeeper:
    """Keeps labs of sessions that end. A lab that is kept already stays as it is."""

    context: Context
    store: stores.KeptStore
    aside: Aside
    _look: SessionObserver = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_look", SessionObserver(self.context))

    async def reconcile(self, key: Key) -> Done | Again:
        """Make one attempt for the session of this key, if it waits for that."""
        session = self.context.cache.get(Session, key.name, key.namespace)
        if session is None or not keeping.is_waiting(session):
            return Done()
        sight = await self._look.at(session)
        if sight.host is None or sight.seen.lab is None:
            return Again(POLL)  # the session's own controller says when it has waited enough
        session = await self._record(session, keeping.begun(session.status), "its lab is kept")
        work = session.status.kept
        found = await self.keep(session, sight.host)
        now = self.context.clock.now()
        if isinstance(found, NotKept):
            final = found.final or work is None or work.tries >= keeping.TRIES
            told = f"its lab was not kept: {found.message}"
            await self._record(
                session,
                keeping.not_kept(session.status, found.reason, found.message, now, final=final),
                told,
            )
            return Done() if final else Again(1.0)
        await self._record(session, keeping.kept(session.status, found, now), "its lab was kept")
        return Done()

    async def _record(self, session: Session, status: SessionStatus, reason: str) -> Session:
        """Write a status; Conflict when somebody has changed the session, which is looked at anew."""
        stored = self.context.cache.at(session.key)
        if not isinstance(stored, Session) or stored.revision != session.revision:
            raise errors.Conflict(f"{session.key} changed while its lab was kept")
        return await self.context.record(stored, status=status, actor=ACTOR, reason=reason)

    async def keep(self, session: Session, host: LabHost) -> KeptWork | NotKept:
        """Return what was kept, or why nothing was; raises nothing that CML or the store raise."""
        work, lab = session.status.kept, session.status.lab
        if work is None or lab is None or lab.id is None:
            return NotKept(SessionReason.NOT_SEEN, "there is no lab to keep", final=True)
        settings = self.context.settings.now().keeping
        seconds = self._left(session, settings)
        try:
            known = await self.store.kept_lab(session.metadata.uid)
            if known is not None:
                return _kept(work, known, None, ())
            async with asyncio.timeout(seconds):
                return await self._keep(session, host, work, settings, seconds)
        except TimeoutError:
            return NotKept(SessionReason.NO_TIME, f"not within {seconds:.0f} s", final=False)
        except errors.QuotaExceeded as problem:
            return NotKept(SessionReason.NO_ROOM, problem.message, final=True)
        except errors.Invalid as problem:
            return NotKept(SessionReason.NOT_KEPT, _in_words(problem), final=True)
        except errors.LabfleetError as problem:
            told = f"the lab could not be read or stored ({problem.reason})"
            return NotKept(SessionReason.NOT_KEPT, told, final=False)

    def _left(self, session: Session, settings: Keeping) -> float:
        """Return for how many machine seconds the teardown still waits."""
        definition = self.context.cache.find(refs.definition_of(session))
        span = timedelta(seconds=settings.timeout_seconds)
        if definition is not None:
            span = keeping.limit(definition, settings.timeout_seconds)
        now, since = self.context.clock.now(), session.status.phase_since
        begun = max(since or now, self.context.since or since or now)
        left = (span - (now - begun)).total_seconds() / max(1.0, self.context.clock.rate)
        return max(left, SHORTEST)

    async def _keep(
        self, session: Session, host: LabHost, work: KeptWork, settings: Keeping, seconds: float
    ) -> KeptWork:
        lab = session.status.lab
        if lab is None or lab.id is None:
            raise AssertionError("a lab without an id is not kept")
        read, missing = await self._extract(host, lab.id, seconds * (1 - DOWNLOAD_SHARE))
        text = await host.download(lab.id)
        bound = settings.lab_mib * MIB
        if len(text) > bound:
            told = f"it has {len(text)} bytes, more than {settings.lab_mib} MiB"
            raise errors.Invalid(told, reason="KeptLabTooLarge")
        marker = lab.marker
        plain = await in_turn(self.aside, len(text), lambda: kept_lab.ready(text, marker))
        now = self.context.clock.now()
        row = await self.store.keep_lab(
            stores.NewKeptLab(
                session.metadata.uid,
                session.spec.owner,
                plain,
                now,
                now + timedelta(days=settings.days),
            ),
            stores.KeptBounds(bound, settings.owner_mib * MIB, settings.all_mib * MIB),
        )
        work = msgspec.structs.replace(work, size=len(plain))
        return _kept(work, row, read, missing)

    async def _extract(
        self, host: LabHost, lab_id: str, seconds: float
    ) -> tuple[int, tuple[str, ...]]:
        """Return of how many nodes the configuration was read, and labels of the others."""
        nodes = [
            each for each in await host.nodes(lab_id) if each.definition not in kept_lab.CONNECTORS
        ]
        turns, done = asyncio.Semaphore(AT_ONCE), set[str]()

        async def one(node: NodeState) -> None:
            # What fails for good is told by the node's label: why stands in CML's own log.
            async with turns:
                for _ in range(EACH):
                    try:
                        await host.extract(lab_id, node.id)
                    except errors.Permanent:
                        return
                    except errors.LabfleetError:
                        continue
                    done.add(node.id)
                    return

        try:
            async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
                for node in nodes:
                    if node.state == "BOOTED":
                        group.create_task(one(node))
        except TimeoutError:
            pass  # what was read by now is in the lab
        missing = tuple(
            sorted(topology.one_line(each.label) for each in nodes if each.id not in done)
        )
        return len(done), missing


async def in_turn(aside: Aside, size: int, work: Callable[[], bytes]) -> bytes:
    """Do large work when it is its turn: of many labs that end together none is lost for that.

    It waits as long as its caller lets it.
    """
    while True:
        try:
            return await aside.run(size, work)
        except errors.Temporary as problem:
            if problem.reason != "Busy":
                raise
            await asyncio.sleep(BUSY)


def _kept(
    work: KeptWork, row: stores.KeptLab, nodes: int | None, missing: tuple[str, ...]
) -> KeptWork:
    return msgspec.structs.replace(
        work,
        at=row.kept_at,
        until=row.until,
        nodes=nodes,
        unread=len(missing),
        missing=missing[:NAMED],
    )


def _in_words(problem: errors.Invalid) -> str:
    """Return why a lab is not kept, without a line of it."""
    if problem.reason == "KeptLabTooLarge":
        return problem.message
    return "what CML sent is no topology that can be read again"
