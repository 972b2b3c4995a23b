"""What a session asks of a worker, and from when to when: of the scheduler, of a pool's claims."""

from __future__ import annotations

from datetime import datetime, timedelta

from labfleet.decisions.catalogues import needs
from labfleet.decisions.lifecycle.session import budget
from labfleet.decisions.lifecycle.session.decide import resolve_slot
from labfleet.decisions.placement import PlacementRequest
from labfleet.resources.definition import Definition
from labfleet.resources.session import Session

TEARDOWN = timedelta(minutes=10)
"""How long after its end a lab may still hold its capacity when its definition is gone."""


def teardown(definition: Definition | None) -> timedelta:
    """Return how long after its end a session's lab may still hold its capacity."""
    if definition is None:
        return TEARDOWN
    return timedelta(minutes=definition.spec.teardown_minutes)


def asked(
    session: Session, definition: Definition, now: datetime, *, licensed: bool = False
) -> PlacementRequest:
    """Return the session's request if it were placed now; `licensed`: on licensed workers only.

    What it is counted with was fixed when it was accepted, where that was learned.
    """
    learned = session.status.demand
    first, last = definition.spec.cml_version_min, definition.spec.cml_version_max
    begin, end = resolve_slot(session, budget.of(session, definition), now)
    return PlacementRequest(
        amounts=definition.status.demand if learned is None else learned.amounts,
        start=begin,
        end=end + teardown(definition),
        track=session.spec.track or definition.spec.track,
        licence_affinity=definition.spec.licence_affinity,
        needs=needs(definition.status),
        licensed=licensed,
        versions=(first, last) if first or last else None,
    )
