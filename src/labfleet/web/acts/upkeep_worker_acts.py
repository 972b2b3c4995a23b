"""What people do with a worker's licence, ports, console text and record."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from labfleet.decisions.lifecycle.worker import phases
from labfleet.resources.kinds import KINDS
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.service.core import intake
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import rules
from labfleet.service.verbs import held_ports, licences, objects
from labfleet.web.acts import fields, hits
from labfleet.web.acts.act import Act, Doing
from labfleet.web.acts.fields import Field
from labfleet.web.acts.worker_acts import over


def _licensable(worker: Worker) -> str:
    if phases.observed(worker):
        return "it is only observed: adopt it first"
    return over(worker)


def _register_fields(_s: ServiceContext, _c: Caller, _worker: Worker) -> tuple[Field, ...]:
    return (
        Field(name="product", label="Product", most=20,
              help="Such as CML_Enterprise; empty: as it has."),
        Field(name="again", label="Register anew what is registered", show="flag"),
        Field(name="force", label="End the sessions that another product needs gone", show="flag",
              right="force"),
    )  # fmt: skip


async def _register(doing: Doing) -> str:
    await licences.register(
        doing.services, doing.caller, *doing.where, product=_product(doing),
        again=bool(doing.values.get("again")), force=bool(doing.values.get("force")),
    )  # fmt: skip
    return f"Asked: the licence of {doing.name} is registered; its page tells how far that is."


def _product(doing: Doing) -> str | None:
    """Return the product that was typed, None for none; Invalid for what no product is called."""
    text = doing.text("product")
    if text and not re.fullmatch(r"\w{1,20}", text, re.ASCII):
        raise intake.invalid(("Product", "is a word such as CML_Enterprise"))
    return text or None


async def _register_follows(doing: Doing) -> Sequence[str]:
    told = ["Sessions go on beside it, unless another product is chosen: that needs it empty."]
    return [*told, *(_ended(doing) if doing.values.get("force") else ())]


def _ended(doing: Doing) -> tuple[str, ...]:
    here = hits.on_worker(doing.services, doing.obj)
    return tuple(filter(None, (hits.sessions(here, "there would be ended"),)))


async def _renew(doing: Doing) -> str:
    await licences.renew(doing.services, doing.caller, *doing.where)
    return f"Asked: the licence of {doing.name} is renewed; its page tells how far that is."


def _deregister_fields(_s: ServiceContext, _c: Caller, _worker: Worker) -> tuple[Field, ...]:
    label = "End the sessions there, and stop what else runs"
    return (Field(name="force", label=label, show="flag", right="force"),)


async def _deregister(doing: Doing) -> str:
    force = bool(doing.values.get("force"))
    await licences.deregister(doing.services, doing.caller, *doing.where, force=force)
    return f"Asked: the licence of {doing.name} is given back; its page tells how far that is."


async def _deregister_follows(doing: Doing) -> Sequence[str]:
    here = hits.on_worker(doing.services, doing.obj)
    forced = ("there are ended", "there is ended")
    words = forced if doing.values.get("force") else ("must be over first, or be ended",)
    return [
        "It hosts no sessions until it is registered again; the licence is free for another server.",
        hits.sessions(here, *words) or "No session is on it.",
    ]


def _flagged(doing: Doing, name: str) -> str:
    return f"--{name}" if doing.values.get(name) else ""


def _holding(_s: ServiceContext, _c: Caller, worker: Worker) -> str | None:
    return "" if worker.status.held_ports else None


def _release_fields(_s: ServiceContext, _c: Caller, worker: Worker) -> tuple[Field, ...]:
    first = worker.status.held_ports[0] if worker.status.held_ports else None
    start = "" if first is None else str(first.first)
    return (
        Field(name="first", label="Port, or the lowest of several", show="number", required=True,
              most=65535, first=start),
        Field(name="last", label="The highest of them", show="number", most=65535,
              help="Empty: that one alone."),
        Field(name="transport", label="Protocol", show="choice", required=True, first="tcp",
              choices=(("tcp", "tcp"), ("udp", "udp"))),
        Field(name="lab", label="Only as far as this lab holds them", most=128,
              help="CML's name of the lab; empty: each that does."),
        fields.reason(200, required=True),
    )  # fmt: skip


async def _release(doing: Doing) -> str:
    raw = {name: value for name, value in doing.values.items() if value is not None}
    try:
        sent = msgspec.convert(raw, held_ports.ReleaseRequest)
    except msgspec.ValidationError as problem:
        raise intake.invalid(("release", str(problem))) from None
    await held_ports.release(doing.services, doing.caller, *doing.where, sent)
    return f"Asked: these ports of {doing.name} may be given out again."


async def _release_follows(doing: Doing) -> Sequence[str]:
    held = doing.obj.status.held_ports
    named = ", ".join(f"{each.transport}/{each.first}-{each.last}" for each in held[: hits.NAMED])
    return [
        f"Held now: {named}.",
        "They are given to sessions although a lab still names them, and may reach its nodes.",
    ]


def _release_line(doing: Doing) -> str:
    first, last = doing.text("first") or "PORT", doing.text("last")
    span = f"{doing.text('transport') or 'tcp'}/{first}" + (f"-{last}" if last else "")
    reason = doing.option("--reason", "reason") or "--reason WHY"
    return doing.line("ports", f"--release {span}", doing.option("--lab", "lab"), reason)


async def _console(doing: Doing) -> str:
    await licences.console(doing.services, doing.caller, *doing.where)
    return f"Asked: the console text of {doing.name} is read; labfleet logs has it then."


def _deletable(_s: ServiceContext, _c: Caller, worker: Worker) -> str | None:
    gone = worker.status.phase is WorkerPhase.TERMINATED
    return "" if gone or phases.observed(worker) else None


async def _delete(doing: Doing) -> str:
    done = await objects.delete(
        doing.services, doing.caller, KINDS["Worker"], *doing.where, uid=doing.uid
    )
    told: Any = done.status
    return f"Asked: the record of {doing.name} goes. {told.message}".strip()


async def _delete_follows(doing: Doing) -> Sequence[str]:
    await rules.delete(doing.services, doing.caller, doing.obj)
    if phases.observed(doing.obj):
        return ["Its server is left alone, and discovery ignores it until somebody adopts it."]
    return ["Its record goes; its machine ended before. Its history stays in the log."]


ACTS = (
    Act(
        verb="register-licence", kind="Worker", title="Register licence", right="license",
        routes="registerWorkerLicence", does=_register, follows=_register_follows,
        fields=_register_fields, opens=lambda _s, _c, worker: _licensable(worker), many=True,
        line=lambda doing: doing.line(
            "license register", doing.option("--product", "product"), _flagged(doing, "again"),
            _flagged(doing, "force"),
        ),
        back="Give licence back takes it from the server again.",
    ),
    Act(
        verb="renew-licence", kind="Worker", title="Renew licence", right="license",
        routes="renewWorkerLicence", does=_renew, many=True,
        opens=lambda _s, _c, worker: _licensable(worker) or (
            "it has no licence to renew" if worker.status.licence.registered is False else ""
        ),
        line=lambda doing: doing.line("license renew"),
    ),
    Act(
        verb="deregister-licence", kind="Worker", title="Give licence back", right="license",
        routes="deregisterWorkerLicence", does=_deregister, follows=_deregister_follows,
        fields=_deregister_fields, opens=lambda _s, _c, worker: _licensable(worker), grave=True,
        line=lambda doing: doing.line("license deregister", _flagged(doing, "force")),
        back="Register licence takes one again.",
    ),
    Act(
        verb="release-ports", kind="Worker", title="Release ports", right="release",
        routes="releaseWorkerPorts", does=_release, follows=_release_follows,
        fields=_release_fields, opens=_holding, line=_release_line, grave=True,
    ),
    Act(
        verb="console", kind="Worker", title="Read console text", right="observe",
        routes="consoleWorker", does=_console, line=lambda doing: doing.line("logs"),
        opens=lambda _s, _c, worker: over(worker) or (
            "" if worker.status.machine.id is not None else "it has no machine of a provider"
        ),
    ),
    Act(
        verb="delete", kind="Worker", title="Delete record", right="delete", routes="deleteWorker",
        does=_delete, follows=_delete_follows, opens=_deletable, many=True, grave=True,
        line=lambda doing: doing.line("delete worker"), goes=lambda _doing: "/workers",
    ),
)  # fmt: skip
