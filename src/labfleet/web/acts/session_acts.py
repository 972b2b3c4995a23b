"""What people do with sessions: their times, their end, whose they are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from labfleet.decisions.lifecycle.session import extension
from labfleet.kernel import errors
from labfleet.kernel.clock import format_instant
from labfleet.resources import zones
from labfleet.resources.definition import Definition
from labfleet.resources.kinds import KINDS
from labfleet.resources.session import RETRIABLE, TERMINAL, Session, SessionPhase, Slot
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import session_times
from labfleet.service.kinds.session_booker import demand_booker
from labfleet.service.verbs import handing, lifecycle, objects, retrying
from labfleet.web import values
from labfleet.web.acts import fields, hits
from labfleet.web.acts.act import Act, Doing, same
from labfleet.web.acts.fields import Field

HALF_AN_HOUR = timedelta(minutes=30)
_ENDING = TERMINAL | {SessionPhase.COLLECTING, SessionPhase.STOPPING}
_HERE = frozenset({SessionPhase.INSTANTIATING, SessionPhase.READY, SessionPhase.RUNNING})


def _over(session: Session) -> str:
    if session.status.phase in TERMINAL:
        return f"it is over ({session.status.phase})"
    if session.spec.cancel is not None or session.status.phase in _ENDING:
        return "it is being ended"
    return ""


def _theirs(caller: Caller, session: Session, deed: str) -> str:
    """Return why a seat of a group is not for its person to change; "" where they may."""
    try:
        demand_booker(caller, session, deed)
    except errors.Denied as error:
        return error.message
    return ""


def _timed(deed: str) -> Any:
    def opens(_s: ServiceContext, caller: Caller, session: Session) -> str | None:
        if session.status.phase in TERMINAL:
            return None
        ended = _over(session) or _theirs(caller, session, deed)
        none = "it has no end yet: it gets one when it starts"
        return ended or ("" if (session.status.end or session.spec.slot.end) else none)

    return opens


def _end(session: Session) -> datetime | None:
    return session.status.end or session.spec.slot.end


def _says(at: datetime, session: Session) -> str:
    return zones.both(at, session.spec.slot.zone)


def _span(doing: Doing) -> timedelta:
    return doing.values.get("minutes") or HALF_AN_HOUR


def _span_line(doing: Doing) -> str:
    return f"--by {int(_span(doing).total_seconds() // 60)}m"


async def _extend(doing: Doing) -> str:
    done = await lifecycle.extend(
        doing.services, doing.caller, *doing.where, by=doing.values["minutes"], key=doing.key,
        uid=doing.uid,
    )  # fmt: skip
    return _new_end(done)


def _new_end(session: Session) -> str:
    end = _end(session)
    return f"Done: {session.name} ends {'' if end is None else _says(end, session)}."


async def _extend_follows(doing: Doing) -> Sequence[str]:
    """Say when it would end, and what its definition leaves for later; Refused as the verb would."""
    obj, end = doing.obj, _end(doing.obj)
    if end is None:
        return ()
    later = end + _span(doing)
    told = [f"It ends {_says(later, obj)} instead of {_says(end, obj)}."]
    definition = await doing.services.objects.get(Definition, obj.spec.definition, obj.namespace)
    await session_times.extended(doing.services, doing.caller, obj, later)
    if definition is not None and doing.caller.principal.role == "user":
        bound = extension.bound(definition.spec.extension, obj.status.extensions, end)
        if bound is not None:
            told.append(f"At most until {_says(bound.end, obj)}: {bound.why}.")
    told.append("It takes nothing that is promised to others; where that cannot be, it is refused.")
    return told


async def _shorten(doing: Doing) -> str:
    done = await lifecycle.shorten(
        doing.services, doing.caller, *doing.where, by=doing.values["minutes"], key=doing.key,
        uid=doing.uid,
    )  # fmt: skip
    return _new_end(done)


async def _shorten_follows(doing: Doing) -> Sequence[str]:
    obj, end = doing.obj, _end(doing.obj)
    if end is None:
        return ()
    earlier = end - _span(doing)
    await session_times.shortened(doing.services, doing.caller, obj, earlier)
    told = f"It ends {_says(earlier, obj)} instead of {_says(end, obj)}"
    return [f"{told}.", "The time after that is free for others at once."]


def _movable(_s: ServiceContext, caller: Caller, session: Session) -> str | None:
    if session.status.phase not in session_times.NOT_BEGUN:
        return None
    told = _over(session) or _theirs(caller, session, "move")
    none = "it begins as soon as it can: it has no slot to move"
    return told or ("" if session.spec.slot.start else none)


def _move_fields(_s: ServiceContext, _c: Caller, session: Any) -> tuple[Field, ...]:
    return (fields.instant("start", "New start"), fields.zone(session.spec.slot.zone))


async def _move(doing: Doing) -> str:
    done = await lifecycle.move(
        doing.services, doing.caller, *doing.where, start=doing.values["start"], uid=doing.uid
    )
    start, end = done.spec.slot.start, _end(done)
    return f"Done: {done.name} is at {zones.span(start, end, done.spec.slot.zone)}."


async def _move_follows(doing: Doing) -> Sequence[str]:
    obj, start = doing.obj, doing.values.get("start")
    told = [f"It is now at {zones.span(obj.spec.slot.start, _end(obj), obj.spec.slot.zone)}."]
    if start is not None:
        await session_times.moved(doing.services, doing.caller, obj, start)
        told.append(f"It would begin {_says(start, obj)}, and lasts as long as before.")
    return [*told, "Where the new slot does not fit, the old one is kept."]


def _to(doing: Doing, name: str) -> str:
    at = doing.values.get(name)
    return f"--to {format_instant(at)}" if at is not None else "--to INSTANT"


def _cancellable(_s: ServiceContext, caller: Caller, session: Session) -> str | None:
    if session.status.phase in TERMINAL:
        return None
    return _over(session) or _theirs(caller, session, "cancel")


async def _cancel(doing: Doing) -> str:
    done = await lifecycle.cancel(
        doing.services, doing.caller, *doing.where, reason=doing.text("reason"), uid=doing.uid
    )
    if done.status.phase in TERMINAL:
        return f"Nothing to do: {doing.name} is over already ({done.status.phase})."
    return f"Asked: {doing.name} is ended."


async def _cancel_follows(doing: Doing) -> Sequence[str]:
    obj = doing.obj
    whose = f"It is {obj.spec.owner}'s." if obj.spec.owner else "It has no person yet."
    in_use = "Its lab is in use now." if obj.status.phase is SessionPhase.RUNNING else ""
    return [each for each in (whose, in_use, hits.lab_of(obj)) if each]


def _arriving(_s: ServiceContext, _c: Caller, session: Session) -> str | None:
    open_ = session.status.phase in _HERE and session.status.checked_in_at is None
    return _over(session) if open_ else None


async def _check_in(doing: Doing) -> str:
    await lifecycle.check_in(doing.services, doing.caller, *doing.where, uid=doing.uid)
    return f"Done: the person of {doing.name} has come."


def _observable(services: ServiceContext, _c: Caller, session: Session) -> str | None:
    if session.status.phase is not SessionPhase.RUNNING:
        return None
    on = services.settings.now().observation.enabled
    return "" if on else "labs are not observed (settings: observation.enabled)"


async def _observe(doing: Doing) -> str:
    await lifecycle.observe(doing.services, doing.caller, *doing.where)
    return f"Asked: somebody looks at the lab of {doing.name}; this page shows it then."


def _retriable(_s: ServiceContext, caller: Caller, session: Session) -> str | None:
    if session.status.phase not in RETRIABLE:
        return None
    again = session.status.retried_as
    return _theirs(caller, session, "retry") if again is None else f"{again.name} is its next try"


def _retry_fields(_s: ServiceContext, _c: Caller, _session: Session) -> tuple[Field, ...]:
    when = (("", "its slot, or what is left of it"), ("now", "as soon as there is room"))
    return (
        Field(name="when", label="When", show="choice", choices=when),
        fields.reason(lifecycle.TEXT_LIMIT),
    )


async def _retry(doing: Doing) -> str:
    new = await retrying.retry(
        doing.services, doing.caller, *doing.where,
        slot=Slot(zone=doing.obj.spec.slot.zone) if doing.text("when") else None,
        reason=doing.text("reason"), key=doing.key, uid=doing.uid,
    )  # fmt: skip
    return f"Done: {new.name} is its next try."


def _given(_s: ServiceContext, caller: Caller, session: Session) -> str | None:
    if session.status.phase in TERMINAL:
        return None
    return _over(session) or _theirs(caller, session, "hand over")


def _give_fields(_s: ServiceContext, _c: Caller, _session: Any) -> tuple[Field, ...]:
    told = "As their token names them. Your own name takes an offer back."
    return (Field(name="to", label="To whom", help=told, required=True, most=256),)


async def _give(doing: Doing) -> str:
    done = await handing.hand_over(
        doing.services, doing.caller, *doing.where, to=doing.text("to"), uid=doing.uid
    )
    offer = done.status.offer
    if offer is not None:
        return f"Done: {doing.name} is offered to {offer.to}, who may take it."
    return f"Done: {doing.name} is {done.spec.owner}'s."


async def _give_follows(doing: Doing) -> Sequence[str]:
    offer = doing.obj.status.offer
    offered = "" if offer is None else f"It is offered to {offer.to} now."
    told = "What is personal of the one before goes: address, values, and that they have come."
    role = doing.caller.principal.role
    first = "It stays yours until they take it." if role == "user" else "It is theirs at once."
    return [each for each in (offered, first, told) if each]


async def _take(doing: Doing) -> str:
    await handing.take(
        doing.services, doing.caller, *doing.where, email=doing.text("email") or None
    )
    return f"Done: {doing.name} is yours."


def _take_fields(_s: ServiceContext, _c: Caller, _session: Any) -> tuple[Field, ...]:
    told = "Where the fleet's notices reach you; may be left empty."
    return (Field(name="email", label="Your e-mail address", help=told, most=254),)


async def _take_follows(_doing: Doing) -> Sequence[str]:
    return ["The session is yours from then on, and counts among yours."]


def _minutes(label: str) -> Any:
    return lambda _s, _c, _o: (fields.minutes(label, first="30"),)


def _deletable(_s: ServiceContext, caller: Caller, session: Session) -> str | None:
    if session.status.phase not in TERMINAL:
        return None
    return _theirs(caller, session, "delete")


async def _delete(doing: Doing) -> str:
    row = KINDS["Session"]
    await objects.delete(doing.services, doing.caller, row, *doing.where, uid=doing.uid)
    return f"Asked: the record of {doing.name} goes."


async def _delete_follows(_doing: Doing) -> Sequence[str]:
    return [
        "It is over; its record goes, and what was kept of its lab. Its history stays in the log."
    ]


def _reverse(verb: str) -> Any:
    def undo(doing: Doing) -> str:
        whole = int(_span(doing).total_seconds() // 60)
        return same(doing, "sessions", verb, minutes=str(whole))

    return undo


def _move_back(doing: Doing) -> str:
    slot = doing.obj.spec.slot
    if slot.start is None:
        return ""
    there = slot.start.astimezone(zones.zone_of(slot.zone))
    return same(doing, "sessions", "move", start=f"{there:%Y-%m-%dT%H:%M}", zone=slot.zone)


ACTS = (
    Act(
        verb="extend", kind="Session", title="Extend", right="extend", routes="extendSession",
        does=_extend, follows=_extend_follows, fields=_minutes("Minutes longer"), many=True,
        opens=_timed("extend"), line=lambda doing: doing.line("extend", _span_line(doing)),
        back="Shorten ends it earlier again.",
        undo=_reverse("shorten"),
    ),
    Act(
        verb="shorten", kind="Session", title="Shorten", right="shorten", routes="shortenSession",
        does=_shorten, follows=_shorten_follows, fields=_minutes("Minutes earlier"),
        opens=_timed("shorten"), line=lambda doing: doing.line("shorten", _span_line(doing)),
        back="Extend gives the time back, while nobody else has it.", many=True,
        undo=_reverse("extend"),
    ),
    Act(
        verb="move", kind="Session", title="Move", right="move", routes="moveSession",
        does=_move, follows=_move_follows, fields=_move_fields, opens=_movable,
        line=lambda doing: doing.line("move", _to(doing, "start")),
        back="Move it back, while nobody else has its old slot.",
        undo=_move_back,
    ),
    Act(
        verb="check-in", kind="Session", title="Check in", right="check-in", many=True,
        routes="checkInSession", does=_check_in, opens=_arriving,
        line=lambda doing: doing.line("check-in"),
    ),
    Act(
        verb="observe", kind="Session", title="Observe now", right="observe", many=True,
        routes="observeSession", does=_observe, opens=_observable,
        line=lambda doing: doing.line("observe"),
    ),
    Act(
        verb="retry", kind="Session", title="Try again", right="retry", routes="retrySession",
        does=_retry, fields=_retry_fields, opens=_retriable, many=True,
        line=lambda doing: doing.line(
            "retry", "--now" if doing.text("when") else "", doing.option("--reason", "reason")
        ),
        back="Cancel ends the new try.",
    ),
    Act(
        verb="hand-over", kind="Session", title="Hand over", right="hand-over",
        routes="handOverSession", does=_give, follows=_give_follows, fields=_give_fields,
        opens=_given, line=lambda doing: doing.line(
            "hand-over", doing.option("--to", "to") or "--to PERSON"
        ),
        goes=lambda doing: values.address("sessions", *doing.where)
        if doing.caller.principal.role != "user" else "/my-labs",
    ),
    Act(
        verb="take", kind="Session", title="Take", right="hand-over", routes="takeSession",
        does=_take, follows=_take_follows, fields=_take_fields, blind=True,
        opens=lambda _s, _c, _o: None, line=lambda doing: doing.line("take"),
        back="Hand it over again.",
    ),
    Act(
        verb="cancel", kind="Session", title="Cancel", right="cancel", routes="cancelSession",
        does=_cancel, follows=_cancel_follows, opens=_cancellable, many=True, grave=True,
        fields=lambda _s, _c, _o: (fields.reason(lifecycle.TEXT_LIMIT),),
        line=lambda doing: doing.line("cancel", doing.option("--reason", "reason")),
        back="Nothing brings its lab back; book another session.",
    ),
    Act(
        verb="delete", kind="Session", title="Delete record", right="delete",
        routes="deleteSession", does=_delete, follows=_delete_follows, opens=_deletable,
        line=lambda doing: doing.line("delete session"), many=True, grave=True,
        goes=lambda _doing: "/",
    ),
)  # fmt: skip
