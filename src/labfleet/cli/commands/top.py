"""`top`: what workers use now, and one worker's numbers over time as small curves.

Curves are drawn on a terminal and left out elsewhere; the same numbers are in every format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import click

from labfleet.cli.kit import call as calls
from labfleet.cli.kit import completing, exits, human_units, output, targets
from labfleet.cli.kit.call import Call, connected
from labfleet.kernel import clock

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 48
SHOWN = ("cpu", "memory", "disk", "nodes", "labs", "sessions", "networkIn", "networkOut", "ec2Cpu")


@click.command("top", short_help="Show what workers use, now or over time.")
@click.argument("args", nargs=-1, metavar="[worker [NAME]]",
                shell_complete=completing.kind_or_name)  # fmt: skip
@click.option(
    "--since",
    default="6h",
    metavar="DURATION|INSTANT",
    show_default=True,
    help="How far back a worker's curves go: 90m, 6h, 3d, or an instant.",
)
@click.option("--metric", default="", help="Only these, with commas: cpu,memory,disk.")
@click.option("--step", type=int, default=None, help="Seconds of a point; no finer.")
@connected
def top(call: Call, *, args: tuple[str, ...], since: str, metric: str, step: int | None) -> int:
    """Show what all workers use now, or one worker's numbers over time."""
    name = _name(args)
    if name is None:
        return _all(call)
    begin = clock.format_instant(calls.since(since, "--since", call.now()))
    answer = call.api.get(
        f"/api/v1/workers/{quote(name, safe='')}/series",
        namespace=call.settings.namespace, since=begin, metric=metric, step=step,
    )  # fmt: skip
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(answer, "")
        return exits.OK
    metrics = answer.get("metrics") or {}
    rows = [_row(call, each, metrics[each], answer) for each in SHOWN if each in metrics]
    titles = ["METRIC", "NOW", "MIN", "MEAN", "MAX", "UNIT", "POINTS"]
    curves = call.environment.terminal_out() and call.out.format != "csv"
    call.out.table(
        [*titles, "CURVE"] if curves else titles, rows if curves else [row[:-1] for row in rows]
    )
    call.out.note(f"{name}: {answer.get('step')} s a point, since {answer.get('since')}")
    return exits.OK


def _name(args: Sequence[str]) -> str | None:
    """Return the worker asked for; None for all. `top worker`, `top workers` mean all too."""
    if not args or (len(args) == 1 and args[0] in {"worker", "workers"}):
        return None
    wanted = targets.parse(tuple(args))
    if len(wanted) != 1 or wanted[0].kind.name != "Worker":
        raise exits.usage("top shows workers", "Say labfleet top, or labfleet top worker NAME.")
    return str(wanted[0].name)


def _all(call: Call) -> int:
    answer = call.api.get("/api/v1/fleet/vitals")
    items = answer.get("items") or []
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(answer, "")
        return exits.OK
    plain = call.out.format == "csv"
    rows = [
        [
            output.label(each.get("namespace"), each.get("worker")),
            str(each.get("phase")),
            str(each.get("health")),
            _number(each, "cpu", plain=plain),
            _number(each, "memory", plain=plain),
            _number(each, "disk", plain=plain),
            _share(each, "cpu"),
            _share(each, "memory"),
            _number(each, "nodes", plain=plain),
            _number(each, "labs", plain=plain),
            str(each.get("sessions")),
            *_measured(call, each),
            ",".join(each.get("alerts") or ()) or "-",
        ]
        for each in items
    ]
    titles = ["WORKER", "PHASE", "HEALTH", "CPU%", "MEMORY%", "DISK%", "CPU-RESERVED%",
              "MEMORY-RESERVED%", "NODES", "LABS",
              "SESSIONS", "MEASURED", *(["SOURCE"] if plain else []), "ALERTS"]  # fmt: skip
    call.out.table(titles, rows)
    call.out.left_out(answer, "workers")
    return exits.OK


def _number(each: dict[str, Any], name: str, *, plain: bool) -> str:
    found = (each.get("numbers") or {}).get(name) or {}
    value = found.get("value")
    if value is None:
        return "-"
    mark = "" if found.get("fresh") or plain else "?"
    return f"{value:.0f}{mark}"


def _share(each: dict[str, Any], name: str) -> str:
    """Return how much is promised: beside what is used, which is another thing."""
    value = ((each.get("allocation") or {}).get("percent") or {}).get(name)
    return "-" if value is None else f"{value:.1f}"


def _measured(call: Call, each: dict[str, Any]) -> list[str]:
    """Return how old the numbers are and whose they are: one cell for people, two as csv."""
    found = (each.get("numbers") or {}).get("cpu") or {}
    age, source = found.get("ageSeconds"), found.get("source")
    cells = ["-", "-"] if age is None else [call.out.span(float(age)), str(source)]
    if call.out.format == "csv":
        return cells
    return ["-" if age is None else " ".join(cells)]


def _renewed(call: Call, seconds: float | None) -> str:
    # Not in minutes: a lease that is renewed every few seconds is late after 90 s.
    plain = call.out.format == "csv" or seconds is None
    return call.out.span(seconds) if plain else f"{seconds:.0f}s"


def _row(call: Call, name: str, metric: dict[str, Any], answer: dict[str, Any]) -> list[str]:
    points = metric.get("points") or []
    if not points:
        return [name, "-", "-", "-", "-", str(metric.get("unit")), "0", ""]
    count = sum(each["count"] for each in points)
    mean = sum(each["mean"] * each["count"] for each in points) / count
    low, high = min(each["min"] for each in points), max(each["max"] for each in points)
    values = [points[-1]["mean"], low, mean, high]
    ascii_ = call.environment.terminal_out()
    curve = sparkline(points, metric, answer) if ascii_ else ""
    return [name, *(f"{each:.4g}" for each in values), str(metric.get("unit")),
            str(len(points)), curve]  # fmt: skip


def sparkline(
    points: Sequence[dict[str, Any]], metric: dict[str, Any], answer: dict[str, Any]
) -> str:
    """Return a curve of `WIDTH` places from since to until; a gap stays empty.

    Percentages are drawn against 100, the rest against their greatest value.
    """
    begin, end = human_units.instant(answer.get("since")), human_units.instant(answer.get("until"))
    if begin is None or end is None or end <= begin:
        return ""
    top_ = 100.0 if metric.get("unit") == "percent" else max(each["max"] for each in points)
    places: list[float | None] = [None] * WIDTH
    for each in points:
        at = human_units.instant(each["at"])
        if at is None:
            continue
        place = min(max(int((at - begin) / (end - begin) * WIDTH), 0), WIDTH - 1)
        places[place] = max(places[place] or 0.0, each["mean"])
    return "".join(" " if each is None else _bar(each, top_) for each in places)


def _bar(value: float, top_: float) -> str:
    share = 0.0 if top_ <= 0 else min(max(value / top_, 0.0), 1.0)
    return BARS[min(int(share * len(BARS)), len(BARS) - 1)]


def _object(each: dict[str, Any]) -> str:
    kind, _, name = str(each.get("object")).partition("/")
    return f"{kind}/{output.label(each.get('namespace'), name)}"


@click.command("alerts", short_help="List what asks for somebody, with its fix.")
@connected
def alerts(call: Call) -> int:
    """List what is raised, the gravest first.

    On workers, pools, regions, webhooks, licences, and on the server itself: its store.
    """
    answer = call.api.get("/api/v1/fleet/alerts")
    items = answer.get("items") or []
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(answer, "")
        return exits.OK
    rows = [
        [
            str(each.get("severity")),
            _object(each),
            str(each.get("condition")),
            call.out.when(each.get("since")),
            human_units.measured(each.get("measured")) or "-",
            call.out.text(each.get("message") or each.get("cause")),
            call.out.text(each.get("fix")),
        ]
        for each in items
    ]
    call.out.table(["SEVERITY", "OBJECT", "ALERT", "SINCE", "VALUE", "WHAT", "FIX"], rows)
    call.out.left_out(answer, "alerts")
    if not rows:
        call.out.note("nothing is raised")
    return exits.OK


@click.command("leaders", short_help="Show which process leads each role.")
@connected
def leaders(call: Call) -> int:
    """Show which process leads each role, and how long ago its lease was seen to be renewed."""
    answer = call.api.get("/api/v1/fleet/leaders")
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(answer, "")
        return exits.OK
    rows = [
        [
            str(each.get("role")),
            str(each.get("state")),
            human_units.printable(str(each.get("holder") or "-")),
            str(each.get("term")),
            _renewed(call, each.get("renewedSeconds")),
            "yes" if each.get("here") else "no",
        ]
        for each in answer.get("items") or []
    ]
    call.out.table(["ROLE", "STATE", "LEADER", "TERM", "RENEWED", "ANSWERED BY IT"], rows)
    return exits.OK
