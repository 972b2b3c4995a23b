"""`consoles`: how the nodes of a session's lab are reached."""

from __future__ import annotations

from typing import Any

import click

from labfleet.cli.kit import completing, exits, human_units, output, targets
from labfleet.cli.kit.call import Call, connected

COLUMNS = ["NODE", "KIND", "NAME", "URL"]


@click.command("consoles", short_help="Show how the nodes of a session's lab are reached.")
@click.argument("name", metavar="SESSION", shell_complete=completing.of_kind("session"))
@connected
def consoles(call: Call, *, name: str) -> int:
    """Show how the nodes of a session's lab are reached: serial consoles, screens, forwarded ports.

    Who may see CML is also told what to open at its console server (KIND cml), by `open PATH` there.
    """
    target = targets.one(name, "session")
    answer = call.api.get(f"{target.path}/consoles", namespace=call.settings.namespace)
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(answer, "")
        return exits.OK
    rows = [row for node in answer.get("nodes") or () for row in _rows(node)]
    call.out.table(COLUMNS, [[human_units.printable(each) for each in row] for row in rows])
    if answer.get("message"):
        call.out.note(human_units.printable(f"{target}: {answer['message']}"))
    if answer.get("labUrl"):
        user = answer.get("labUser") or {}
        account = f", as {user['name']}" if user.get("name") else ""
        call.out.note(human_units.printable(f"in CML: {answer['labUrl']}{account}"))
    return exits.OK


def _rows(node: dict[str, Any]) -> list[list[str]]:
    label = str(node["node"]) + (" (off)" if node.get("off") else "")
    rows = [
        [label, str(port["kind"]), str(port["name"]), str(port["url"])]
        for port in node.get("ports") or ()
    ]
    if node.get("cmlConsole"):
        rows.append([label, "cml", output.NOTHING, str(node["cmlConsole"])])
    return rows or [[label, output.NOTHING, output.NOTHING, output.NOTHING]]
