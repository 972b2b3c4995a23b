"""What people do with workers: in and out of service, up and down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Literal

from labfleet.kernel import errors
from labfleet.kernel.clock import utc_text
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import origin_rules
from labfleet.service.verbs import adoption, lifecycle
from labfleet.web.acts import fields, hits
from labfleet.web.acts.act import Act, Doing, same
from labfleet.web.acts.fields import Field

Desired = Literal["Ready", "Stopped", "Terminated"]
_ENDED = frozenset({WorkerPhase.TERMINATED, WorkerPhase.TERMINATING_EC2})
_ENDED_THEN = "What still runs at the deadline is ended, with its lab."


def over(worker: Worker) -> str:
    """Return that a worker has ended or ends; "" while it does not."""
    return f"it is {worker.status.phase}" if worker.status.phase in _ENDED else ""


def _may_become(worker: Worker, desired: Desired) -> str:
    try:
        origin_rules.may_become(worker, desired)
    except errors.LabfleetError as error:
        return error.message
    return over(worker)


def _cordonable(_services: ServiceContext, _caller: Caller, worker: Worker) -> str | None:
    return None if worker.spec.cordoned else over(worker)


async def _cordon(doing: Doing) -> str:
    await lifecycle.cordon(doing.services, doing.caller, *doing.where)
    return f"Asked: nothing more is placed on {doing.name}."


async def _cordon_follows(doing: Doing) -> Sequence[str]:
    here = hits.on_worker(doing.services, doing.obj)
    return [
        "Nothing more is placed on it.",
        hits.sessions(here, "there go on", "there goes on") or "None runs there.",
    ]


async def _uncordon(doing: Doing) -> str:
    await lifecycle.cordon(doing.services, doing.caller, *doing.where, closed=False)
    return f"Asked: sessions may be placed on {doing.name} again."


def _drain_fields(_s: ServiceContext, _c: Caller, _worker: Worker) -> tuple[Field, ...]:
    told = "Empty: as long as its template says."
    return (
        fields.minutes("Empty within (minutes)", required=False, told=told),
        fields.reason(lifecycle.TEXT_LIMIT),
        Field(name="force", label="End what still runs then", show="flag", right="force"),
    )


async def _drain(doing: Doing) -> str:
    within: timedelta | None = doing.values.get("minutes")
    done = await lifecycle.drain(
        doing.services, doing.caller, *doing.where,
        deadline=None if within is None else doing.services.clock.now() + within,
        reason=doing.text("reason"), force=bool(doing.values.get("force")),
    )  # fmt: skip
    return f"Asked: {doing.name} is to be empty by {_deadline(done)}."


def _deadline(worker: Worker) -> str:
    drain = worker.spec.drain
    return "its limit" if drain is None else utc_text(drain.deadline)


async def _drain_follows(doing: Doing) -> Sequence[str]:
    within: timedelta | None = doing.values.get("minutes")
    deadline = None if within is None else doing.services.clock.now() + within
    told = ["Nothing more is placed on it.", *hits.drained(doing.services, doing.obj, deadline)]
    return [*told, _ENDED_THEN] if doing.values.get("force") else told


def _minutes_option(doing: Doing, flag: str) -> str:
    span = doing.values.get("minutes")
    return "" if span is None else f"{flag} {int(span.total_seconds() // 60)}m"


def _change_fields(_s: ServiceContext, _c: Caller, _worker: Worker) -> tuple[Field, ...]:
    return (
        fields.minutes("New deadline, minutes from now", required=False),
        Field(name="force", label="End what still runs: at the new deadline, or now without one",
              show="flag", right="force"),
    )  # fmt: skip


async def _change_follows(doing: Doing) -> Sequence[str]:
    """Say whom the changed drain hits, by the deadline and the force that it has then."""
    force, within = bool(doing.values.get("force")), doing.values.get("minutes")
    drain = doing.obj.spec.drain
    if force and within is None:
        here = hits.on_worker(doing.services, doing.obj)
        both = ("are ended now, with their labs", "is ended now, with its lab")
        return [hits.sessions(here, *both) or "No session is on it: it is empty at once."]
    deadline = drain.deadline if within is None else doing.services.clock.now() + within
    told = hits.drained(doing.services, doing.obj, deadline)
    return [*told, _ENDED_THEN] if force or drain.force else told


async def _change_drain(doing: Doing) -> str:
    within: timedelta | None = doing.values.get("minutes")
    done = await lifecycle.change_drain(
        doing.services, doing.caller, *doing.where,
        deadline=None if within is None else doing.services.clock.now() + within,
        force=True if doing.values.get("force") else None,
    )  # fmt: skip
    return f"Asked: {doing.name} is to be empty by {_deadline(done)}."


def _change_line(doing: Doing) -> str:
    now = "--now" if doing.values.get("force") else ""
    return doing.line("drain", now or _minutes_option(doing, "--extend") or "--extend 30m")


async def _cancel_drain(doing: Doing) -> str:
    await lifecycle.cancel_drain(doing.services, doing.caller, *doing.where)
    return f"Asked: {doing.name} is open for sessions again."


def _draining(_s: ServiceContext, _c: Caller, worker: Worker) -> str | None:
    return over(worker) if worker.spec.drain is not None else None


def _cancellable(_s: ServiceContext, _c: Caller, worker: Worker) -> str | None:
    if worker.spec.drain is None:
        return None
    if worker.spec.desired != "Ready":
        return f"it is to be {worker.spec.desired}: start it, where that may still be"
    return over(worker)


def _desire(desired: Desired, said: str) -> Any:
    async def does(doing: Doing) -> str:
        await lifecycle.desire(doing.services, doing.caller, *doing.where, desired=desired)
        return f"Asked: {doing.name} {said}."

    return does


async def _stop_follows(doing: Doing) -> Sequence[str]:
    return [
        *hits.drained(doing.services, doing.obj, None),
        "It is stopped once it is empty; its disk stays, and goes on costing money.",
        hits.price(doing.services, doing.obj),
    ]


async def _start_follows(doing: Doing) -> Sequence[str]:
    return [
        "Its machine is started, and takes sessions once CML is ready.",
        hits.price(doing.services, doing.obj),
    ]


async def _terminate_follows(doing: Doing) -> Sequence[str]:
    return [
        *hits.drained(doing.services, doing.obj, None),
        "Once it is empty its licence is given back, and its machine and disk are gone for good.",
        hits.price(doing.services, doing.obj),
    ]


def _stoppable(_s: ServiceContext, _c: Caller, worker: Worker) -> str | None:
    return None if worker.spec.desired != "Ready" else _may_become(worker, "Stopped")


def _startable(_s: ServiceContext, _c: Caller, worker: Worker) -> str | None:
    stopped = worker.spec.desired == "Stopped" or worker.status.phase is WorkerPhase.FAILED
    return over(worker) if stopped and worker.spec.desired != "Terminated" else None


def _terminable(_s: ServiceContext, _c: Caller, worker: Worker) -> str | None:
    return None if worker.spec.desired == "Terminated" else _may_become(worker, "Terminated")


def _adoptable(_s: ServiceContext, _c: Caller, worker: Worker) -> str | None:
    origin = worker.spec.origin
    return None if origin is None or origin.managed else over(worker)


def _adopt_fields(_s: ServiceContext, _c: Caller, _worker: Worker) -> tuple[Field, ...]:
    told = "Whose machine settings it gets; empty: they stay as they are."
    return (Field(name="template", label="Template", help=told, most=253),)


async def _adopt(doing: Doing) -> str:
    await adoption.adopt(
        doing.services, doing.caller, *doing.where, template=doing.text("template") or None
    )
    return f"Asked: {doing.name} is managed from now on."


async def _adopt_follows(_doing: Doing) -> Sequence[str]:
    return [
        "It may be stopped, started, licensed and ended by this fleet from then on.",
        "Its instance gets our owner tag.",
    ]


def takes(verb: str, **query: str) -> Callable[[Doing], str]:
    """Return what gives the address of the act on the same worker that takes one back."""

    def undo(doing: Doing) -> str:
        return same(doing, "workers", verb, **query)

    return undo


ACTS = (
    Act(
        verb="cordon", kind="Worker", title="Cordon", right="drain", routes="cordonWorker",
        does=_cordon, follows=_cordon_follows, opens=_cordonable, many=True,
        line=lambda doing: doing.line("cordon"), back="Uncordon opens it again.",
        undo=takes("uncordon"),
    ),
    Act(
        verb="uncordon", kind="Worker", title="Uncordon", right="drain", routes="uncordonWorker",
        does=_uncordon, many=True, line=lambda doing: doing.line("uncordon"),
        opens=lambda _s, _c, worker: over(worker) if worker.spec.cordoned else None,
        back="Cordon closes it again.",
        undo=takes("cordon"),
    ),
    Act(
        verb="drain", kind="Worker", title="Drain", right="drain", routes="drainWorker",
        does=_drain, follows=_drain_follows, fields=_drain_fields, many=True,
        opens=lambda _s, _c, worker: None if worker.spec.drain else over(worker),
        line=lambda doing: doing.line(
            "drain", _minutes_option(doing, "--deadline"), doing.option("--reason", "reason"),
            "--force" if doing.values.get("force") else "",
        ),
        back="Cancel drain opens it again; what was ended meanwhile stays ended.",
        undo=takes("cancel-drain"),
    ),
    Act(
        verb="change-drain", kind="Worker", title="Change drain", right="drain",
        routes="changeDrainWorker", does=_change_drain, fields=_change_fields, opens=_draining,
        follows=_change_follows, line=_change_line, grave=True,
    ),
    Act(
        verb="cancel-drain", kind="Worker", title="Cancel drain", right="drain", many=True,
        routes="cancelDrainWorker", does=_cancel_drain, opens=_cancellable,
        line=lambda doing: doing.line("drain", "--undo"), back="Drain empties it again.",
    ),
    Act(
        verb="stop", kind="Worker", title="Stop", right="drain", routes="desiredWorker",
        does=_desire("Stopped", "is stopped once it is empty"), follows=_stop_follows,
        opens=_stoppable, many=True, line=lambda doing: doing.line("stop"),
        back="Start brings it back; what was ended meanwhile stays ended.",
        undo=takes("start"),
    ),
    Act(
        verb="start", kind="Worker", title="Start", right="drain", routes="desiredWorker",
        does=_desire("Ready", "is started"), follows=_start_follows, opens=_startable, many=True,
        line=lambda doing: doing.line("start"), back="Stop stops it again.",
        undo=takes("stop"),
    ),
    Act(
        verb="terminate", kind="Worker", title="Terminate", right="drain", routes="desiredWorker",
        does=_desire("Terminated", "is terminated once it is empty"), follows=_terminate_follows,
        opens=_terminable, many=True, grave=True, line=lambda doing: doing.applied("Worker", {"desired": "Terminated"}),
        back="Nothing brings it back: its pool makes another worker when one is needed.",
    ),
    Act(
        verb="adopt", kind="Worker", title="Adopt", right="update", routes="adoptWorker",
        does=_adopt, follows=_adopt_follows, fields=_adopt_fields, opens=_adoptable,
        line=lambda doing: doing.line(
            "adopt", doing.option("--template", "template"), target=f"worker/{doing.name}"
        ),
    ),
)  # fmt: skip
