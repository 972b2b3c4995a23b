"""`events`: what happened to an object, when, by whom and why."""

from __future__ import annotations

from typing import Any

import click

from labfleet.cli.commands import watching
from labfleet.cli.kit import completing, exits, human_units, output, targets
from labfleet.cli.kit.call import Call, connected
from labfleet.resources import kinds


@click.command("events", short_help="Show what happened to an object, by whom and why.")
@click.argument("args", nargs=-1, metavar="[KIND/NAME]", shell_complete=completing.kind_or_name)
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=50,
    show_default=True,
    help="At most so many events.",
)
@click.option("-w", "--watch", is_flag=True, help="Follow the changes of every object.")
@click.option("--no-headers", is_flag=True, help="Rows without headings.")
@connected
def events(call: Call, *, args: tuple[str, ...], limit: int, watch: bool) -> int:
    """Show what happened to an object, the newest last, with actor and reason."""
    if watch:
        wanted = targets.parse(args) if args else []
        names = {(each.kind.name, each.name) for each in wanted}
        chosen = targets.distinct(wanted) or list(kinds.KINDS.values())
        return watching.follow(call, watching.Scope(chosen, None, None, names))
    if not args:
        hint = "Write KIND/NAME, for example session/s-1; all that changes from now on: -w."
        raise exits.usage("nothing was named", hint)
    target = targets.parse(args)[0]
    found = history(call, target, limit)
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value({"kind": "List", "items": found}, "")
        return exits.OK
    if not found:
        call.out.note(f"No events of {target} are kept.")
        return exits.OK
    show(call, found)
    return exits.OK


def history(call: Call, target: targets.Target, limit: int) -> list[Any]:
    """Return the object's last events, oldest first."""
    page = call.api.get(f"{target.path}/events", limit=limit, namespace=call.settings.namespace)
    items = page.get("items") if isinstance(page, dict) else None
    if not isinstance(items, list):
        raise call.api.unexpected("a list of events was expected")
    return sorted(items, key=lambda each: int(each.get("revision") or 0))


def show(call: Call, found: list[Any]) -> None:
    """Print events as rows."""
    now = call.now()
    wide = call.out.format in {"wide", "csv"}
    titles = ["REVISION", "WHEN", "WHAT", "PHASE", "ACTOR", "REASON", "MESSAGE"]
    rows = []
    for each in found:
        row = [
            str(each.get("revision")),
            each.get("at", "")
            if call.out.format == "csv"
            else human_units.when(each.get("at"), now),
            str(each.get("type")),
            human_units.plain(each.get("phase")),
            human_units.plain(each.get("actor")),
            human_units.plain(each.get("reason")),
            human_units.plain(
                None if each.get("message") == each.get("reason") else each.get("message")
            ),
        ]
        rows.append([*row, human_units.plain(each.get("requestId"))] if wide else row)
    call.out.table([*titles, "REQUEST"] if wide else titles, rows)
    if not found:
        output.note("No events are kept.")
