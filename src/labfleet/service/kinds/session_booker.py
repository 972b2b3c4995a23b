"""Who may change a session that is a seat of a group: whoever booked it, and operators."""

from __future__ import annotations

from labfleet.kernel import errors
from labfleet.resources.session import Session
from labfleet.service.core.access import Role
from labfleet.service.core.service_context import Caller


def demand_booker(caller: Caller, old: Session, deed: str) -> None:
    """Raise Denied (SeatOfGroup) to whoever sits on a seat of a group that somebody else booked."""
    seat, who = old.status.seat, caller.principal
    if seat is not None and who.role is Role.USER and who.name != seat.booked_by:
        message = (
            f"session {old.name!r} is seat {seat.seat!r} of group {seat.group!r}: {seat.booked_by} "
            f"booked it, so it is theirs to {deed}"
        )
        raise errors.Denied(message, reason="SeatOfGroup")
