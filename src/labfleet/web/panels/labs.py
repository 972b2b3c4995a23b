"""The tab of the labs on a worker's server: whose each is, how it stands, since when it was seen."""

from __future__ import annotations

from datetime import datetime

from labfleet.resources.meta import Resource
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import labs
from labfleet.service.reads.labs import LabOfWorker
from labfleet.web import addresses, sheet, values
from labfleet.web.sheet import Head, Part, Row, Sheet
from labfleet.web.values import Cell
from labfleet.web.view import Asked

_WHOSE = {
    "session": ("a session's", "good", "●"),
    "nobody": ("nobody's", "warn", "▲"),
    "ignored": ("ignored", "calm", "○"),
    "left-behind": ("left behind", "warn", "▲"),
    "being-removed": ("being removed", "busy", "◑"),
}
_HEADS = (
    Head("Lab", 3), Head("Whose"), Head("Session", 3), Head("Owner"), Head("Title", 3), Head("State"),
    Head("Nodes", 1), Head("Running", 1), Head("Seen since"), Head("Why", 0),
)  # fmt: skip


async def make(services: ServiceContext, caller: Caller, obj: Resource, asked: Asked) -> Sheet:
    """Return the tab of a worker."""
    found = await labs.labs_of_worker(services, caller, obj.name, obj.namespace)
    now, command = services.clock.now(), f"labfleet labs worker/{obj.key.argument}"
    if found.labs is None:
        empty = "Unknown: no look has seen the labs on its server yet, or it is over."
        return Sheet("Labs", "", (Part("Labs", empty=empty),), commands=(command,))
    facts = (
        (
            "Labs with nodes",
            sheet.text(found.count, why="not seen yet"),
        ),
        (
            "Looked at",
            Cell("unknown", "unknown", why="not by this process")
            if found.seen is None
            else values.instant(found.seen, now),
        ),
    )
    where = addresses.tab(values.address("workers", obj.name, obj.namespace), "labs")
    rows = [_row(each, obj.namespace, now) for each in found.labs]
    shown, more, further = sheet.paged(rows, asked.last("page"), where)
    heads, shown = sheet.told(_HEADS, shown)
    parts = (
        Part("Server", facts=facts),
        Part(
            "Labs", heads=heads, rows=shown, more=more + found.more, further=further, whole=True,
            empty="None.", caption="Labs on the server, by CML's name for each", commands=(command,),
        ),
    )  # fmt: skip
    return Sheet("Labs", "", parts)


def _row(lab: LabOfWorker, namespace: str, now: datetime) -> Row:
    word, tone, shape = _WHOSE[lab.whose]
    href = values.address("sessions", lab.session, namespace)
    return (
        Cell("text", lab.id),
        Cell("state", word, tone=tone, shape=shape),
        Cell("link", lab.session, href=href) if lab.session else Cell("absent", "none"),
        sheet.text(lab.owner),
        sheet.text(lab.title),
        sheet.text(lab.state, why="not looked at"),
        sheet.text(lab.nodes, why="not seen"),
        sheet.text(lab.running, why="not seen"),
        Cell("unknown", "unknown", why="no look yet")
        if lab.since is None
        else values.instant(lab.since, now),
        sheet.text(lab.why),
    )
