"""What people do with labs: of their sessions, and those on a server that are no session's."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from labfleet.kernel import errors
from labfleet.resources.session import Session, SessionPhase
from labfleet.resources.worker import Worker
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import session_lab
from labfleet.service.verbs import idle_checks, ignored_labs, lab_orders
from labfleet.service.verbs.lab_orders import LabOrderRequest
from labfleet.web.acts import fields
from labfleet.web.acts.act import Act, Doing, same
from labfleet.web.acts.fields import Field
from labfleet.web.acts.worker_acts import over

_ORDERS = (
    ("restart", "restart: stop it, and start it once everything is off"),
    ("stop", "stop: nothing is lost"),
    ("start", "start what is off"),
    ("wipe", "wipe: what was done in it is lost"),
)
_WHY = 200


def _operable(services: ServiceContext, caller: Caller, session: Session) -> str | None:
    if session.status.phase is not SessionPhase.RUNNING:
        return None
    try:
        session_lab.demand_allowed(services, caller.principal, session, "start")
    except errors.Denied as error:
        return error.message
    known = session.status.lab is not None and session.status.lab.id is not None
    return "" if known else "its lab is not known"


def _order_fields(_s: ServiceContext, _c: Caller, _session: Any) -> tuple[Field, ...]:
    told = "Label of one node; empty: the whole lab."
    return (
        Field(name="order", label="What", show="choice", required=True, choices=_ORDERS,
              first="restart"),
        Field(name="node", label="Node", help=told, most=128),
        Field(name="confirm", label="A wipe loses what was done in it, and I mean that", show="flag"),
    )  # fmt: skip


async def _order(doing: Doing) -> str:
    order: Any = doing.text("order")
    sent = LabOrderRequest(
        order=order, node=doing.text("node"), confirm=bool(doing.values.get("confirm"))
    )
    await lab_orders.order(doing.services, doing.caller, doing.where, sent, uid=doing.uid)
    return f"Asked: {order} of the lab of {doing.name}; its page tells how far that is."


async def _order_follows(doing: Doing) -> Sequence[str]:
    order: Any = doing.text("order") or "restart"
    session_lab.ordered(doing.services, doing.caller, doing.obj, order, doing.text("node"))
    what = f"node {doing.text('node')}" if doing.text("node") else "the whole lab"
    lost = f"It loses {session_lab.LOST}." if order == "wipe" else "What was saved in it stays."
    return [f"It is {what} of {doing.obj.spec.owner or 'nobody'}'s session.", lost]


def _order_line(doing: Doing) -> str:
    sure = "--yes" if doing.values.get("confirm") and doing.text("order") == "wipe" else ""
    order = doing.text("order") or "restart"
    return doing.line(f"lab {order}", doing.option("--node", "node"), sure)


def _strays(worker: Worker) -> tuple[tuple[str, str], ...]:
    """Return the labs on a server that nobody said to leave alone, to choose from."""
    known = {each.id for each in worker.spec.ignored_labs}
    found = worker.status.hosted_labs or ()
    return tuple((each.id, _lab(each.id, each.title)) for each in found if each.id not in known)


def _lab(name: str, title: str) -> str:
    return f"{name} ({title})" if title else name


def _chosen(labs: tuple[tuple[str, str], ...]) -> Field:
    return Field(name="lab", label="Lab", show="choice", required=True, choices=labs)


async def _ignore(doing: Doing) -> str:
    lab = doing.text("lab")
    await ignored_labs.ignore(
        doing.services, doing.caller, *doing.where, lab, reason=doing.text("reason")
    )
    return f"Done: lab {lab} on {doing.name} is left alone."


async def _ignore_follows(_doing: Doing) -> Sequence[str]:
    return ["It is never removed by this fleet; what it holds stays counted."]


async def _heed(doing: Doing) -> str:
    await ignored_labs.heed(doing.services, doing.caller, *doing.where, doing.text("lab"))
    return f"Done: lab {doing.text('lab')} on {doing.name} is treated as any other."


async def _heed_follows(_doing: Doing) -> Sequence[str]:
    return ["Where it is ours and no session's, it is removed as left behind."]


def _switch(*, on: bool) -> Any:
    async def does(doing: Doing) -> str:
        await idle_checks.switch(doing.services, doing.caller, *doing.where, enabled=on)
        what = "may stop" if on else "does not stop"
        return f"Done: the idle rule {what} {doing.name}."

    return does


def _switched(*, on: bool) -> Act:
    verb, other = ("idle-on", "idle-off") if on else ("idle-off", "idle-on")
    title = "Let it be stopped when idle" if on else "Keep it when idle"
    word = "enable" if on else "disable"
    return Act(
        verb=verb, kind="Worker", title=title, right="drain", many=True,
        routes="idleDetectionWorker", does=_switch(on=on),
        opens=lambda _s, _c, worker: None if worker.spec.idle_detection is on else over(worker),
        line=lambda doing: doing.line(f"idle {word}"),
        undo=lambda doing: same(doing, "workers", other),
    )  # fmt: skip


SESSION_ACTS = (
    Act(
        verb="lab", kind="Session", title="Operate the lab", right="operate",
        routes="orderSessionLab", does=_order, follows=_order_follows, fields=_order_fields,
        opens=_operable, line=_order_line, grave=True,
        back="Start brings back what is off; a wipe cannot be taken back.",
    ),
)  # fmt: skip
WORKER_ACTS = (
    Act(
        verb="ignore-lab", kind="Worker", title="Leave a lab alone", right="operate",
        routes="ignoreWorkerLab", does=_ignore, follows=_ignore_follows,
        fields=lambda _s, _c, worker: (_chosen(_strays(worker)), fields.reason(_WHY, required=True)),
        opens=lambda _s, _c, worker: over(worker) if _strays(worker) else None,
        line=lambda doing: doing.line(
            "ignore-lab", shlex.quote(doing.text("lab") or "LAB"),
            doing.option("--reason", "reason") or "--reason WHY",
        ),
        undo=lambda doing: same(doing, "workers", "heed-lab", lab=doing.text("lab")),
    ),
    Act(
        verb="heed-lab", kind="Worker", title="Heed a lab again", right="operate",
        routes="heedWorkerLab", does=_heed, follows=_heed_follows,
        fields=lambda _s, _c, worker: (
            _chosen(tuple((each.id, each.id) for each in worker.spec.ignored_labs)),
        ),
        opens=lambda _s, _c, worker: over(worker) if worker.spec.ignored_labs else None,
        line=lambda doing: doing.line(
            "ignore-lab", shlex.quote(doing.text("lab") or "LAB"), "--undo"
        ),
    ),
    _switched(on=False),
    _switched(on=True),
)  # fmt: skip
