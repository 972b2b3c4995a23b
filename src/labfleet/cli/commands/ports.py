"""`ports`: how workers' ports are used, and which of one are used or held, by whom and why."""

from __future__ import annotations

from typing import Any

import click

from labfleet.cli.kit import completing, exits, human_units, output, targets
from labfleet.cli.kit.call import Call, connected

TITLES = ["WORKER", "RANGE", "USED", "HELD", "FREE", "UDP-USED", "UDP-HELD", "UDP-FREE"]
COLUMNS = ["PORT", "STATE", "NAME", "SESSION", "OWNER", "SINCE", "WHY"]


@click.command("ports", short_help="Show which ports of workers are used, held and free.")
@click.argument("name", metavar="[WORKER]", required=False,
                shell_complete=completing.of_kind("worker"))  # fmt: skip
@connected
def ports(call: Call, *, name: str | None) -> int:
    """Show how the ports of all workers are used, or which of one are, by whom and since when.

    Held are ports that nobody is given, because something may still hold them: a lab that shall be
    gone and was not seen gone, or a lab of somebody else that names them in CML.
    """
    return _all(call) if name is None else _one(call, targets.one(name, "worker"))


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
        call.out.text(port.get("why")),
    ]
