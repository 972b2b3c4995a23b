"""What one owner may have of sessions: how many that are open, and how many hours of slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType

from labfleet.kernel import errors, quantity
from labfleet.resources.meta import Key
from labfleet.resources.session import Session, booker
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import indices


def few_enough(services: ServiceContext, owner: str, namespace: str, more: int = 1) -> None:
    """Raise QuotaExceeded when with so many more an owner has more open sessions than one may have.

    Seats count for who booked them. Counted in the cache and in what this request has made;
    `objects.create` lets one owner make one after the other.
    """
    most = services.settings.now().limits.open_sessions
    count = services.cache.count(indices.SESSIONS_OF_OWNER, f"{namespace}/{owner}")
    count += len(_unseen(services, owner, namespace))
    if count + more > most:
        has = f"{owner} has {quantity.count(count, 'open session')} in {namespace}"
        message = (
            f"{has}, as many as one may have (limits.openSessions); cancel one, or wait until one "
            "ends"
        )
        if more > 1:
            message = (
                f"{has} and may have {most} (limits.openSessions), so {more} more are too many; ask "
                "for fewer, or an operator"
            )
        raise errors.QuotaExceeded(message, reason="TooManySessions", retry_after=60)


def _unseen(services: ServiceContext, owner: str, namespace: str) -> list[Session]:
    """Return the owner's sessions that this request has made and the cache lacks."""
    return [
        each
        for each in services.objects.saved(Session)
        if (each.metadata.namespace, booker(each)) == (namespace, owner)
        and services.cache.at(each.key) is None
    ]


def short_enough(
    services: ServiceContext,
    sessions: Sequence[Session],
    changed: Mapping[Key, Session] = MappingProxyType({}),
) -> None:
    """Raise QuotaExceeded when the slots of an owner last longer together than those of one may.

    `sessions` are some of one owner, as they are to be, `changed` others that the same commit
    changes. Seats count for who booked them. What has no slot holds nothing ahead of time and does
    not count.
    """
    most = services.settings.now().limits.promised_hours
    owner, namespace = booker(sessions[0]), sessions[0].namespace
    if most is None or not any(map(_slot, sessions)):
        return
    others = [
        *services.cache.by(indices.SESSIONS_OF_OWNER, f"{namespace}/{owner}"),
        *_unseen(services, owner, namespace),
    ]
    mine = {each.metadata.uid for each in sessions}
    beside = [changed.get(one.key, one) for one in others if one.metadata.uid not in mine]
    held = sum(map(_slot, (*sessions, *beside)), timedelta())
    if held > timedelta(hours=most):
        hours = held.total_seconds() / 3600
        message = (
            f"{owner} would have slots of {hours:.1f} hours in {namespace}, more than the {most} that "
            "one may have (limits.promisedHours); cancel one, ask for a shorter one, or wait until "
            "one ends"
        )
        raise errors.QuotaExceeded(message, reason="TooManyHours", retry_after=60)


def _slot(session: Session) -> timedelta:
    """Return how long a session's slot is; nothing when it has none."""
    start, end = session.status.start, session.status.end
    return timedelta() if session.spec.slot.start is None or not (start and end) else end - start
