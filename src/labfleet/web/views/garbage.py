"""The page `/garbage`: what seems left behind, what was ended, and licences that leaked."""

from __future__ import annotations

from datetime import datetime, timedelta

from labfleet.resources.leak import Leak
from labfleet.resources.region import Deed
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds.left_behind import LeftBehind
from labfleet.service.reads import regions
from labfleet.service.reads.regions import GarbageSummary
from labfleet.web import sheet, values
from labfleet.web.sheet import Facts, Head, Part, Row, Sheet
from labfleet.web.values import Cell
from labfleet.web.view import Asked

ROOT = "/garbage"
_SUSPECTS = (
    Head("What", 3), Head("Kind", 1), Head("Name", 3), Head("Region"), Head("Seen"), Head("Why", 4),
    Head("What comes next", 4), Head("Due"),
)  # fmt: skip
_DEEDS = (Head("What", 3), Head("Kind", 1), Head("Name", 3), Head("Ended"), Head("Why", 5))
_LEAKS = (
    Head("Leak", 3), Head("Worker", 3), Head("Since"), Head("Product UUID", 4), Head("Why", 4),
    Head("What to do", 5),
)  # fmt: skip


async def page(services: ServiceContext, caller: Caller, asked: Asked) -> Sheet:
    """Return the page; Denied for who may not read regions."""
    await services.fresh()
    found, now = regions.garbage(services, caller), services.clock.now()
    suspects = [_suspect(each, now) for each in found.suspects]
    shown, more, further = sheet.paged(suspects, asked.last("page"), ROOT)
    deeds = tuple(_deed(each, now) for each in reversed(found.deeds))
    parts = [
        Part("Garbage collection", facts=_facts(found)),
        Part(
            "Suspects", heads=_SUSPECTS, rows=shown, more=more, further=further, whole=True,
            empty="Nothing seems left behind.", caption="What seems left behind, by region",
        ),
        Part(
            "Ended", heads=_DEEDS, rows=deeds, caption="The newest ends, newest first",
            empty="Nothing was ended.", whole=True,
        ),
    ]  # fmt: skip
    if access.may(caller.principal, "read", "Leak"):
        parts.insert(2, _leaks(services, caller, now))
    return Sheet(
        title="Garbage and leaks",
        lead="Machines, disks, addresses and labs that carry our tag and belong to nothing, and "
        "licences that could not be given back.",
        parts=tuple(parts),
        follows="Region,Leak,Worker",
        commands=("labfleet garbage", "labfleet get leaks"),
    )


def _facts(found: GarbageSummary) -> Facts:
    waits = "; ".join(f"{region}: {why}" for region, why in found.waits.items())
    how = "ends what it finds, after a grace"
    if found.dry_run:
        how = "shows what it would end, and ends nothing"
    return (
        ("Looks", Cell("text", "on" if found.enabled else "off")),
        ("How", Cell("text", how)),
        ("Paused", Cell("text", found.paused or "no")),
        ("Waits", sheet.text(waits)),
        ("Ended so far", Cell("text", str(found.ended))),
        ("Ended by others", Cell("text", str(found.ended_outside))),
        ("Leaked licences", Cell("text", str(found.leaks))),
    )


def _suspect(each: LeftBehind, now: datetime) -> Row:
    suspect = each.suspect
    return (
        Cell("text", suspect.id),
        Cell("text", suspect.kind),
        sheet.text(suspect.name),
        sheet.text(each.region or None, why="its worker has no region"),
        values.instant(now - timedelta(seconds=each.age_seconds), now),
        sheet.text(suspect.why),
        sheet.text(suspect.next),
        Cell("absent", "not by itself")
        if suspect.due is None
        else values.instant(suspect.due, now),
    )


def _deed(deed: Deed, now: datetime) -> Row:
    return (
        Cell("text", deed.id),
        Cell("text", deed.kind),
        sheet.text(deed.name),
        values.instant(deed.at, now),
        sheet.text(deed.why),
    )


def _leaks(services: ServiceContext, caller: Caller, now: datetime) -> Part:
    found = sorted(
        (each for each in services.cache.all(Leak) if access.sees(caller.principal, each)),
        key=lambda leak: (leak.spec.since, leak.key),
    )
    rows = [_leak(each, now) for each in found]
    return Part(
        "Leaked licences",
        heads=_LEAKS,
        rows=tuple(rows[:LISTED]),
        more=max(0, len(rows) - LISTED),
        further="/leaks",
        empty="No licence leaked.",
        whole=True,
        caption="Licences that a person must free by hand, the oldest first",
    )


LISTED = 50
"""How many leaks stand here; the list of leaks has more."""


def _leak(leak: Leak, now: datetime) -> Row:
    spec = leak.spec
    fix = f"{spec.fix} leak/{leak.key.argument}" if spec.fix.endswith("resolve") else spec.fix
    return (
        Cell("link", leak.key.label, href=values.address("leaks", leak.name, leak.namespace)),
        Cell("text", spec.worker),
        values.instant(spec.since, now),
        sheet.text(spec.product_uuid, why="CML never told it"),
        sheet.text(spec.why if spec.certain else f"{spec.why} (not certain)"),
        Cell("text", fix),
    )
