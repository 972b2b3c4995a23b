"""`top`: what workers, clusters, runs or labs use now, and one's numbers over time as small curves.

Curves are drawn on a terminal and left out elsewhere; the same numbers are in every format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import click

from labfleet.cli.commands import cost
from labfleet.cli.kit import call as calls
from labfleet.cli.kit import completing, exits, human_units, output, targets
from labfleet.cli.kit.call import Call, connected
from labfleet.kernel import clock
from labfleet.resources import kinds

BARS = "▁▂▃▄▅▆▇█"
WIDTH = 48
_LAST = {"Simulation": "cluster", "Session": "worker"}
"""Kinds that begin and end, and the field that says where each is; their curves begin with them."""
MEASURED = ("Worker", "Cluster", "Simulation", "Session")
SHOWN = ("cpu", "memory", "disk", "nodes", "labs", "sessions", "networkIn", "networkOut", "ec2Cpu")


@click.command(
    "top", short_help="Show what workers, clusters, runs or labs use, and what pools cost."
)
@click.argument("args", nargs=-1, metavar="[workers|clusters|simulations|sessions|pools [NAME]]",
                shell_complete=completing.kind_or_name)  # fmt: skip
@click.option(
    "--since",
    default=None,
    metavar="DURATION|INSTANT",
    help="How far back curves go: 90m, 6h, 3d, or an instant. Default: 6h, of a run its beginning.",
)
@click.option("--metric", default="", help="Only these, with commas: cpu,memory.")
@click.option("--step", type=int, default=None, help="Seconds of a point; no finer.")
@connected
def top(
    call: Call, *, args: tuple[str, ...], since: str | None, metric: str, step: int | None
) -> int:
    """Show what all workers, clusters, live runs or labs use now, or one's numbers over time.

    `top pools` shows what an hour of each pool costs now.
    """
    if args in {("pools",), ("pool",)}:
        return _pools(call)
    kind, name = _meant(args)
    if name is None:
        return _all(call) if kind.name == "Worker" else _usage(call, kind)
    back = since or ("" if kind.name in _LAST else "6h")
    begin = clock.format_instant(calls.since(back, "--since", call.now())) if back else None
    answer = call.api.get(
        f"/api/v1/{kind.plural}/{quote(name, safe='')}/series",
        namespace=call.settings.namespace, since=begin, metric=metric, step=step,
    )  # fmt: skip
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(answer, "")
        return exits.OK
    metrics = answer.get("metrics") or {}
    shown = [each for each in SHOWN if each in metrics]
    shown += [each for each in metrics if each not in shown]
    rows = [_row(call, each, metrics[each], answer) for each in shown]
    titles = ["METRIC", "NOW", "MIN", "MEAN", "MAX", "UNIT", "POINTS"]
    curves = call.environment.terminal_out() and call.out.format != "csv"
    call.out.table(
        [*titles, "CURVE"] if curves else titles, rows if curves else [row[:-1] for row in rows]
    )
    call.out.note(f"{name}: {answer.get('step')} s a point, since {answer.get('since')}")
    return exits.OK


def _pools(call: Call) -> int:
    """Show what an hour of each pool costs as the fleet stands, and its month so far."""
    answer = call.api.get("/api/v1/cost", by="pool")
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(answer, "")
        return exits.OK
    months = {str(each["name"]): each["cost"] for each in answer.get("lines") or []}
    hours = {str(each["name"]): each["cost"] for each in answer.get("poolsNow") or []}
    plain = call.out.format == "csv"
    rows = [
        [name or "(none)", *cost.hour_cells(hours.get(name) or {}, plain=plain),
         cost.known(months.get(name), plain=plain)]
        for name in dict.fromkeys([*hours, *months])
    ]  # fmt: skip
    titles = ["POOL", "RUNNING", "USD/HOUR", "USED", "IDLE", "WARMING", "STOPPED", "MONTH"]
    call.out.table(titles, rows)
    cost.notes(call, answer)
    return exits.OK


def _meant(args: Sequence[str]) -> tuple[kinds.Kind, str | None]:
    """Return the kind and the name asked for; no name means all, no kind workers."""
    if not args:
        return kinds.KINDS["Worker"], None
    if len(args) == 1 and "/" not in args[0]:
        kind, name = targets.kind_of(args[0]), None
    else:
        wanted = targets.parse(tuple(args))
        kind, name = wanted[0].kind, str(wanted[0].name)
        if len(wanted) != 1:
            raise exits.usage(
                "top shows one of them over time", f"Say labfleet top {args[0]} NAME."
            )
    if kind.name not in MEASURED:
        hint = (
            "Say labfleet top, labfleet top worker NAME, or the same of clusters, simulations, "
            "sessions; labfleet top pools."
        )
        raise exits.usage("top shows workers, clusters, simulations, sessions and pools", hint)
    return kind, name


def _usage(call: Call, kind: kinds.Kind) -> int:
    """Show what all clusters or all live runs use now; `-` is what nobody measured."""
    answer = call.api.get(f"/api/v1/fleet/{kind.plural}/usage")
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(answer, "")
        return exits.OK
    plain, run = call.out.format == "csv", kind.name in _LAST
    lab = kind.name == "Session"
    rows = []
    for each in answer.get("items") or []:
        numbers, name = each.get("numbers") or {}, output.label(each["namespace"], each["name"])
        rows.append([
            name,
            str(each.get(_LAST[kind.name]) or "-") if run else str(each.get("runs")),
            _amount(numbers.get("cpu"), "cpuMilli", plain=plain),
            _percent(each, "cpu", "cpuMilli"),
            _amount(numbers.get("memory"), "memoryMib", plain=plain),
            _percent(each, "memory", "memoryMib"),
            *_last(numbers, plain=plain, run=run, lab=lab),
            call.out.age(each.get("minute")),
        ])  # fmt: skip
    first = ["RUN", "CLUSTER"] if run else ["CLUSTER", "RUNS"]
    first = ["SESSION", "WORKER"] if lab else first
    network = ["NET/S"] if run and not plain else ["IN/S", "OUT/S"]
    last = ["DISK"] if lab else [*network, "PODS"]
    titles = ["CPU", "CPU%", "MEMORY", "MEM%", *last, "AGE"]
    call.out.table([*first, *titles], rows)
    call.out.left_out(answer, kind.plural)
    return exits.OK


def _last(numbers: dict[str, float], *, plain: bool, run: bool, lab: bool) -> list[str]:
    """Return the cells that differ: a lab's disk, or network and pods of the others."""
    if lab:
        return [_amount(numbers.get("storage"), "storageMib", plain=plain)]
    pods = "-" if numbers.get("pods") is None else f"{numbers['pods']:.0f}"
    return [*_network(numbers, plain=plain, narrow=run), pods]


def _amount(value: float | None, field: str, *, plain: bool) -> str:
    if value is None:
        return "-"
    if field == "cpuMilli":
        return f"{value:.0f}" if plain else f"{value / 1000:.2f}"
    return f"{value:.0f}" if plain else human_units.memory(round(value))


def _percent(each: dict[str, Any], metric: str, field: str) -> str:
    """Return the share of a cluster's target, or of what a run was given."""
    value = (each.get("numbers") or {}).get(metric)
    whole = (each.get("shareOf") or {}).get(field)
    return "-" if value is None or not whole else f"{100 * value / whole:.0f}"


def _network(numbers: dict[str, float], *, plain: bool, narrow: bool) -> list[str]:
    """Return both directions; in a narrow table for people the busier one, as runs have long names."""
    both = [numbers.get("networkIn"), numbers.get("networkOut")]
    if narrow and not plain:
        both = [max((each for each in both if each is not None), default=None)]
    return [_rate(each, plain=plain) for each in both]


def _rate(value: float | None, *, plain: bool) -> str:
    """Return bytes a second, as `1.2M`; the whole number for programs."""
    if value is None:
        return "-"
    if plain:
        return f"{value:.0f}"
    for unit in ("", "k", "M"):
        if value < 999.5:
            return f"{value:.3g}{unit}"
        value /= 1000
    return f"{value:.3g}G"


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
