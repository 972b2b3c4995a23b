"""The rules of sessions: the one kind that people own."""

from __future__ import annotations

from labfleet.resources.session import Session, SessionPhase
from labfleet.service.core.kind_table import KindRules
from labfleet.service.core.roles import Role
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.kinds import (
    indices,
    session_claims,
    session_events,
    session_explained,
    session_outlook,
    session_retry,
    session_rules,
    session_times,
    session_told,
    session_view,
)

_PEOPLE = frozenset(
    {
        "create",
        "delete",
        "cancel",
        "extend",
        "shorten",
        "move",
        "check-in",
        "hand-over",
        "retry",
        "observe",
        "operate",
    }
)
_ASKED = frozenset(
    {
        "continueFrom",
        "definition",
        "durationMinutes",
        "environment",
        "family",
        "limits",
        "owner",
        "priority",
        "reservationId",
        "slot",
        "studentEmail",
        "track",
        "whenFull",
    }
)


def _pauses(session: Session) -> tuple[None, ...]:
    """Return that a pause of the fleet keeps a waiting session waiting."""
    return (None,) if session.status.phase is SessionPhase.PENDING else ()


def _warns(services: ServiceContext, session: Session) -> tuple[str, ...]:
    """Say what it asks for in vain: times that contradict its zone, an attempt that cannot run."""
    told = session_times.contradictions(session.spec.slot)
    return (*told, *session_retry.warns(services, session))


RULES = KindRules(
    name="Session",
    create=session_rules.create_session,
    update=session_rules.update_session,
    delete=session_rules.delete_session,
    grants={
        Role.USER: _PEOPLE | {"read", "download"},
        Role.CONTROLLER: frozenset({"record"}),
        Role.SYSTEM: _PEOPLE | {"record"},
    },
    fields={Role.USER: {"create": _ASKED}},
    owned=frozenset({Role.USER}),
    booked=indices.SESSIONS_BOOKED,
    line=session_claims.line_of,
    explain=session_explained.explain,
    sooner=session_told.sooner,
    pools=_pauses,
    warns=_warns,
    event_types=session_events.SessionEvent,
    aliases=session_events.ALIASES,
    changed=session_events.changed,
    shown=session_outlook.shown,
    derived=("status.outlook",),
    of_others=False,
    told=session_events.told,
    view=session_view.view,
    sight=session_view.sight,
    private=session_view.private,
    indices=(
        indices.SESSIONS_OF_OWNER,
        indices.SESSIONS_OF_GROUP,
        indices.SESSIONS_BOOKED,
        indices.SESSIONS_OFFERED,
        indices.SESSIONS_UP,
        indices.SESSIONS_HERE,
        indices.SESSIONS_CLAIMING,
        indices.SESSIONS_ENDANGERED,
        indices.SESSIONS_OPEN,
        indices.SESSIONS_PENDING,
        indices.SESSIONS_WAITING,
        indices.SESSIONS_USING,
        indices.SESSIONS_OBSERVED,
        indices.SESSIONS_ENDED,
        indices.SESSIONS_ENDED_OF,
    ),
)
