"""`ports`: how workers' ports are used, which of one are held, by whom and why; releasing those."""

from __future__ import annotations

import re
from typing import Any

import click

from labfleet.cli.kit import completing, exits, human_units, output, targets
from labfleet.cli.kit.call import Call, connected

TITLES = ["WORKER", "RANGE", "USED", "HELD", "FREE", "UDP-USED", "UDP-HELD", "UDP-FREE"]
COLUMNS = ["PORT", "STATE", "NAME", "SESSION", "OWNER", "SINCE", "SEEN", "WHY"]
_STRETCH = re.compile(r"(?:(tcp|udp)/)?(\d{1,5})(?:-(\d{1,5}))?")


@click.command("ports", short_help="Show which ports of workers are used, held and free.")
@click.argument("name", metavar="[WORKER]", required=False,
                shell_complete=completing.of_kind("worker"))  # fmt: skip
@click.option("--release", "stretch", metavar="PORTS",
              help="Let these held ports be given out, such as tcp/5041 or tcp/5041-5045.")  # fmt: skip
@click.option("--lab", default="", metavar="ID", help="Only as far as this lab holds them.")
@click.option("--reason", "-m", default="", help="Why they may be given out, for the record.")
@connected
def ports(call: Call, *, name: str | None, stretch: str | None, lab: str, reason: str) -> int:
    """Show how the ports of all workers are used, or which of one are, by whom and since when.

    Held are ports that nobody is given, because something may still hold them: a lab that shall be
    gone and was not seen gone, or a lab that names them in CML unasked. The latter come free when a
    look sees them gone; --release lets them be given out before, while the lab still names them.
    """
    if stretch is None:
        if lab or reason:
            raise exits.usage("--lab and --reason belong to --release")
        return _all(call) if name is None else _one(call, targets.one(name, "worker"))
    if name is None:
        raise exits.usage("name the worker whose ports are to be released")
    return _release(call, targets.one(name, "worker"), stretch, {"lab": lab, "reason": reason})


def _release(call: Call, target: targets.Target, stretch: str, body: dict[str, Any]) -> int:
    found = _STRETCH.fullmatch(stretch.strip().lower())
    if found is None:
        raise exits.usage(f"{stretch!r} is no port", "Write tcp/5041, tcp/5041-5045 or udp/161.")
    if not body["reason"].strip():
        raise exits.usage("say why they may be given out: --reason TEXT")
    transport, first, last = found.groups()
    wanted = {**body, "transport": transport or "tcp", "first": int(first)}
    if last is not None:
        wanted["last"] = int(last)
    path = f"{target.path}/ports/release"
    answer = call.api.post(path, wanted, namespace=call.settings.namespace)
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(answer, "")
        return exits.OK
    shown = f"{wanted['transport']}/{first}" + (f"-{last}" if last else "")
    output.say(f"{target}: {shown} may be given out")
    return exits.OK


def _all(call: Call) -> int:
    items, _, _ = call.api.items("workers", namespace=call.settings.namespace)
    found = {
        str(each["metadata"]["name"]): each["status"]["ports"]
        for each in items
        if (each.get("status") or {}).get("ports")
    }
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value({"items": [{"worker": at, "use": use} for at, use in found.items()]}, "")
        return exits.OK
    call.out.table(TITLES, [[at, *_counts(use)] for at, use in sorted(found.items())])
    if not found:
        call.out.note("there is no worker")
    return exits.OK


def _counts(use: dict[str, Any]) -> list[str]:
    told = [f"{use['first']}-{use['last']}"]
    for transport in ("tcp", "udp"):
        told += [str(use[transport][each]) for each in ("used", "held", "free")]
    return told


def _one(call: Call, target: targets.Target) -> int:
    answer = call.api.get(f"{target.path}/ports", namespace=call.settings.namespace)
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(answer, "")
        return exits.OK
    rows = answer.get("ports") or []
    call.out.table(COLUMNS, [_row(call, each) for each in rows])
    use = answer.get("use")
    if not use:
        call.out.note(f"{target}: the labs on its server were not seen, or it is over")
        return exits.OK
    for transport in ("tcp", "udp"):
        told = use[transport]
        call.out.note(
            f"{transport} {use['first']}-{use['last']}: {told['used']} used, {told['held']} held, "
            f"{told['free']} free"
        )
    if answer.get("more"):
        call.out.note(f"{answer['more']} more are not listed")
    return exits.OK


def _row(call: Call, port: dict[str, Any]) -> list[str]:
    numbers = str(port["first"])
    if port["last"] != port["first"]:
        numbers += f"-{port['last']}"
    cells = [
        human_units.printable(str(port.get(each) or "")) for each in ("name", "session", "owner")
    ]
    return [
        f"{port['transport']}/{numbers}",
        str(port["state"]),
        *(each or output.NOTHING for each in cells),
        call.out.age(port.get("since")),
        call.out.age(port.get("seen")),
        call.out.text(port.get("why")),
    ]
