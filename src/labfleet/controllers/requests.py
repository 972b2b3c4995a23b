"""What waiting sessions ask for, and the empty workers that could be made for them.

The scheduler and the pool controller both use this module: if they read requests differently,
workers would be made on which no session is placed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from labfleet.controllers.context import Context
from labfleet.controllers.session.observer import SessionObserver
from labfleet.decisions import placement
from labfleet.decisions.lifecycle.session import decide as lifecycle
from labfleet.decisions.lifecycle.session import phases as session_phases
from labfleet.engine.cache import Cache
from labfleet.resources import refs
from labfleet.resources.amounts import Reservation
from labfleet.resources.pool import Pool, ScalingPolicy
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.template import Template
from labfleet.resources.worker import Worker

TEARDOWN = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Requests:
    """Reads waiting sessions from the cache."""

    context: Context

    def due(self, now: datetime) -> list[Session]:
        """Return the sessions that are to be placed now, most urgent first."""
        waiting = []
        for session in self.context.cache.by(Session, "phase", SessionPhase.PENDING):
            start = session.spec.slot.start
            if session_phases.end_asked(session) or (
                start is not None and start - lifecycle.LOOK_AHEAD > now
            ):
                continue
            created = session.metadata.creation_timestamp or now
            waiting.append((-session.spec.priority, start or created, session.key, session))
        return [each[3] for each in sorted(waiting, key=lambda each: each[:3])]

    def ahead(self, now: datetime) -> list[Session]:
        """Return the sessions of later slots that were not checked yet, in name order."""
        return [
            session
            for session in self.context.cache.by(Session, "phase", SessionPhase.PENDING)
            if session.status.decision is None
            and not session_phases.end_asked(session)
            and session.spec.slot.start is not None
            and session.spec.slot.start - lifecycle.LOOK_AHEAD > now
        ]

    def pool_of(
        self, request: placement.PlacementRequest, namespace: str, now: datetime
    ) -> str | None:
        """Return the name of the one pool that grows for a request; None when none would.

        A session that takes any track must not make every pool of its namespace grow. So one is
        chosen: the first by name that may grow and whose empty worker is large enough; pools
        at their maximum come last.
        """
        found: list[tuple[bool, str]] = []
        for pool in self.context.cache.all(Pool):
            if pool.namespace != namespace:
                continue
            scaling = pool.spec.scaling
            grows = scaling.enabled and scaling.policy is ScalingPolicy.NEED_BASED
            closed = pool.spec.desired != "Ready" or pool.deleting or not grows
            if closed or request.track not in {None, pool.spec.track}:
                continue
            shape = shape_of(pool, self.context.cache.find(refs.template_of(pool)))
            if shape is not None and placement.never_fits(request, [shape], now=now) is None:
                found.append((pool.status.workers >= scaling.max_workers, pool.name))
        return min(found)[1] if found else None

    def of(self, session: Session, now: datetime) -> placement.PlacementRequest | None:
        """Return the session's request if placed now; None when its definition is gone."""
        definition = self.context.cache.find(refs.definition_of(session))
        if definition is None:
            return None
        seen = SessionObserver(self.context).budget(session)
        begin, end = lifecycle.resolve_slot(session, seen, now)
        return placement.PlacementRequest(
            amounts=definition.status.demand,
            start=begin,
            end=end + TEARDOWN,
            track=session.spec.track or definition.spec.track,
            licence_affinity=definition.spec.licence_affinity,
        )


def held(cache: Cache, worker: Worker) -> tuple[Reservation, ...]:
    """Return the sessions' reservations on a worker, ordered by session name."""
    return reserved(cache.by(Session, "here", worker.key.path))


def reserved(sessions: Sequence[Session]) -> tuple[Reservation, ...]:
    """Return the reservations of these sessions."""
    return tuple([held for session in sessions if (held := session.status.reservation) is not None])


def shape_of(pool: Pool, template: Template | None) -> placement.WorkerShape | None:
    """Return an empty worker of the pool's template; None when the template can make none."""
    if template is None or not template.spec.enabled:
        return None
    return placement.shape(f"pool {pool.name}", pool.spec.track, template.spec.machine)
