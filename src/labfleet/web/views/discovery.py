"""The page `/discovery`: what is scanned, which servers were found, and why some are left alone."""

from __future__ import annotations

from datetime import datetime

from labfleet.kernel.quantity import count
from labfleet.resources import conditions
from labfleet.resources.worker import Worker
from labfleet.resources.worker_conditions import WorkerCondition
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices
from labfleet.service.reads import regions
from labfleet.service.reads.regions import DiscoverySummary, RegionScan
from labfleet.web import sheet, values
from labfleet.web.sheet import Facts, Head, Lines, Part, Row, Sheet
from labfleet.web.values import Cell
from labfleet.web.view import Asked

ROOT = "/discovery"
_FOUND = (
    Head("Server", 3), Head("Where", 3), Head("State"), Head("What became of it", 3), Head("Why", 5),
    Head("What one may do", 4),
)  # fmt: skip
_SCANS = (
    Head("Region"), Head("Last scan"), Head("Found", 1), Head("Imported", 1), Head("Left alone", 1),
    Head("Of others", 1), Head("Images", 1), Head("Error", 5),
)  # fmt: skip


async def page(services: ServiceContext, caller: Caller, asked: Asked) -> Sheet:
    """Return the page; Denied for who may not read regions."""
    await services.fresh()
    found, now = regions.discovery(services, caller), services.clock.now()
    servers = [_imported(each) for each in _of_others(services)] + list(_left(found))
    shown, more, further = sheet.paged(servers, asked.last("page"), ROOT)
    scans = tuple(_scan(each, now) for each in found.scans)
    return Sheet(
        title="Discovery",
        lead="Which regions are scanned for CML servers, and what became of each server that was "
        "found. An imported server is only observed until somebody adopts it.",
        parts=(
            Part("Settings", facts=_settings(found, now), commands=("labfleet settings",)),
            Part(
                "Found servers", heads=_FOUND, rows=shown, more=more, further=further, whole=True,
                empty="No server of others was found. One that you know: "
                "`labfleet adopt i-0abc1234def567890 --region REGION --template NAME`.",
                caption="Servers that were found, and what became of them",
            ),
            Part(
                "Scans", heads=_SCANS, rows=scans, caption="The last scan of each region",
                empty="No region was scanned yet.",
            ),
        ),
        follows="Region,Worker",
        commands=("labfleet discovery", "labfleet get regions"),
    )  # fmt: skip


def _settings(found: DiscoverySummary, now: datetime) -> Facts:
    last = found.last_run_at
    facts = [
        ("Scans", Cell("text", "on" if found.enabled else "off")),
        ("Paused", Cell("text", found.paused or "no")),
        ("Regions", Cell("text", ", ".join(found.regions) or "none")),
        ("Images named", sheet.text(found.ami_name_pattern)),
        (
            "Template of imported workers",
            Cell("absent", "none: nothing is imported")
            if found.template is None
            else Cell("link", found.template, href=values.address("templates", found.template)),
        ),
        ("Between two scans", Cell("text", f"{found.scan_interval_seconds} s")),
        ("Last scan", Cell("absent", "never") if last is None else values.instant(last, now)),
        ("Settings from", Cell("text", found.settings_source)),
    ]
    if found.last_error:
        facts.append(("Last error", Cell("text", found.last_error)))
    return tuple(facts)


def _of_others(services: ServiceContext) -> list[Worker]:
    living = services.cache.by(indices.WORKERS_LIVING, True)
    return sorted((each for each in living if each.spec.origin is not None), key=_key)


def _key(worker: Worker) -> tuple[str, str]:
    return worker.name, worker.namespace


def _imported(worker: Worker) -> Row:
    origin = worker.spec.origin
    assert origin is not None  # noqa: S101 - `_of_others` takes no other
    name = worker.key.argument
    href = values.address("workers", worker.name, worker.namespace)
    what, why = "adopted", "somebody adopted it: it may be stopped, licensed and ended"
    do: tuple[Cell, ...] = (Cell("text", f"`labfleet describe worker/{name}`"),)
    if not origin.managed:
        told = conditions.find(worker.status.conditions, WorkerCondition.ADOPTED)
        what, why = "observed only", "found, and nobody adopted it: nothing is done to it"
        why = told.message if told is not None and told.message else why
        told_by = f"`labfleet adopt worker/{name}`, or `labfleet delete worker/{name}`"
        do = (
            Cell("link", "Adopt it, or leave it alone: on its page", href=href),
            Cell("text", f"{told_by} to leave it alone"),
        )
    where = origin.url or " ".join(each for each in (origin.region, origin.instance_id) if each)
    by = f"{why} (found by {origin.source})" if origin.source else why
    return (
        Cell("link", worker.key.label, href=href),
        sheet.text(where or None, why="its origin tells no place"),
        values.state("Worker", str(worker.status.phase)),
        Cell("text", what),
        Cell("text", by),
        Lines(do),
    )


def _left(found: DiscoverySummary) -> list[Row]:
    rows: list[Row] = []
    unseen = Cell("absent", "not looked at")
    for scan in found.scans:
        rows += [
            (
                Cell("text", each),
                Cell("text", scan.region),
                unseen,
                Cell("text", "left alone"),
                Cell("text", "a person deleted the worker that observed it"),
                Cell("text", f"`labfleet adopt {each} --region {scan.region} --template NAME`"),
            )
            for each in scan.ignored
        ]
        rows += [
            (
                Cell("text", each),
                Cell("text", scan.region),
                unseen,
                Cell("text", "left alone"),
                Cell("text", "its owner tag is another installation's"),
                Cell("absent", "nothing here"),
            )
            for each in scan.foreign_ids
        ]
        unlisted = scan.foreign - len(scan.foreign_ids)
        if unlisted > 0:
            said = f"{count(unlisted, 'more instance')} of other installations"
            rows.append(
                (Cell("text", said), Cell("text", scan.region), unseen,
                 Cell("text", "left alone"), Cell("text", "not listed by name"), unseen)
            )  # fmt: skip
    return rows


def _scan(scan: RegionScan, now: datetime) -> Row:
    last = scan.last_run_at
    return (
        Cell("link", scan.region, href=values.address("regions", scan.region)),
        Cell("absent", "never") if last is None else values.instant(last, now),
        Cell("text", str(scan.discovered)),
        Cell("text", str(scan.imported)),
        Cell("text", str(len(scan.ignored))),
        Cell("text", str(scan.foreign)),
        Cell("text", str(scan.images)),
        sheet.text(scan.last_error),
    )
