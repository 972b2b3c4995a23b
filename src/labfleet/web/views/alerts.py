"""The page `/alerts`: all that asks for somebody, with its remedy; by severity and kind."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from labfleet.kernel import errors
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import attention
from labfleet.service.reads.attention import Concern
from labfleet.web import sheet, values
from labfleet.web.sheet import Choice, Head, Lines, Part, Row, Search, Sheet
from labfleet.web.values import Cell
from labfleet.web.view import Asked

ROOT = "/alerts"
FOLLOWS = "Worker,Pool,Session,Group,Region,Leak,alerts"
_HEADS = (
    Head("Object", 3), Head("Severity"), Head("What", 3), Head("Hits"), Head("Since", 1),
    Head("Message, and what to do", 0),
)  # fmt: skip


async def page(services: ServiceContext, caller: Caller, asked: Asked) -> Sheet:
    """Return the page; Denied for who may not read workers, Invalid for an unknown filter."""
    rows, left_out = await attention.read(services, caller)
    given = {name: asked.last(name) for name in ("severity", "kind", "q")}
    counts = attention.tally(rows)
    if given["severity"] and given["severity"] not in counts:
        raise errors.Invalid(f"severity: {given['severity'][:40]!r} is none of {', '.join(counts)}")
    kinds = sorted({kind_of(each) for each in rows})
    chosen = [each for each in rows if _chosen(each, given)]
    now = services.clock.now()
    where = sheet.address(ROOT, given)
    shown, more, further = sheet.paged(
        [_row(each, now) for each in chosen], asked.last("page"), where
    )
    filtered = any(given.values())
    empty = (
        f"Nothing of that. All {len(rows)} are at {ROOT}." if filtered and rows
        else "Nothing asks for anybody."
    )  # fmt: skip
    left = f"{left_out} more are not listed: `labfleet alerts`." if left_out else ""
    return Sheet(
        title="Alerts",
        lead="What asks for somebody: what is grave first, then what hits first, each with its remedy.",
        parts=(
            Part(
                "Raised now",
                heads=_HEADS,
                rows=shown,
                more=more,
                further=further,
                note=left,
                empty=empty,
                whole=True,
                caption="What asks for somebody, the gravest first",
            ),
        ),
        choices=_choices(given, counts, kinds),
        follows=FOLLOWS,
        commands=("labfleet alerts", "labfleet get groups"),
        search=Search(
            ROOT,
            given["q"],
            tuple((name, given[name]) for name in ("severity", "kind") if given[name]),
        ),
    )


def kind_of(each: Concern) -> str:
    """Return the kind of what an alert is about, as a word."""
    return each.alert.object.partition("/")[0]


def _chosen(each: Concern, given: dict[str, str]) -> bool:
    alert, wanted = each.alert, given["q"].lower()
    said = f"{alert.namespace}/{alert.object} {alert.condition} {alert.message}".lower()
    return (
        given["severity"] in {"", alert.severity}
        and given["kind"] in {"", kind_of(each)}
        and wanted in said
    )


def _choices(
    given: dict[str, str], counts: dict[str, int], kinds: Sequence[str]
) -> tuple[Choice, ...]:
    found: list[tuple[str, dict[str, str | None], bool]] = [
        ("all", {"severity": None, "kind": None}, not given["severity"] and not given["kind"])
    ]
    found += [
        (f"{word} {many}", {"severity": word}, given["severity"] == word)
        for word, many in counts.items()
    ]
    found += [(f"{kind}s", {"kind": kind}, given["kind"] == kind) for kind in kinds]
    return tuple(
        Choice(text, "" if on else sheet.address(ROOT, given, **changed))
        for text, changed, on in found
    )


def _row(each: Concern, now: datetime) -> Row:
    alert = each.alert
    measured = "" if alert.measured is None else f"; measured: {alert.measured}"
    return (
        sheet.thing(alert),
        sheet.severity(alert.severity),
        Cell("text", alert.condition),
        Cell("absent", "already") if each.due is None else values.instant(each.due, now),
        values.instant(alert.since, now),
        Lines(
            (
                Cell("text", (alert.message or alert.cause) + measured),
                Cell("text", f"→ {alert.fix}"),
                Cell("text", f"`{alert.command}`"),
            )
        ),
    )
