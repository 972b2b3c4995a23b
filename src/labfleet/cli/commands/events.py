"""`events`: what happened to an object, when, by whom and why."""

from __future__ import annotations

import itertools
from typing import Any

import click

from labfleet.cli.commands import watching
from labfleet.cli.kit import completing, exits, human_units, output, targets
from labfleet.cli.kit.call import Call, connected
from labfleet.resources import happenings, kinds
from labfleet.resources.fleet_settings import NAME


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
        hint = "For example labfleet events session/s-1; all that changes from now on: -w."
        raise exits.usage("nothing was named", hint)
    target = targets.parse(args)[0]
    found = history(call, target, limit)
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value({"kind": "List", "items": found}, "")
        return exits.OK
    if not found:
        never = target.kind.name == "Settings" and target.name == NAME
        said = "nothing was changed yet; labfleet settings shows what holds."
        call.out.note(f"{target}: {said}" if never else f"No events of {target} are kept.")
        return exits.OK
    show(call, found)
    return exits.OK


def history(call: Call, target: targets.Target, limit: int) -> list[Any]:
    """Return the object's last events, oldest first."""
    try:
        page = call.api.get(f"{target.path}/events", limit=limit, namespace=call.settings.namespace)
    except exits.Failure as failure:
        if failure.code == exits.NOT_FOUND and (target.kind.name, target.name) == (
            "Settings",
            NAME,
        ):
            return []  # the one object that is there without having been made
        raise
    items = page.get("items") if isinstance(page, dict) else None
    if not isinstance(items, list):
        raise call.api.unexpected("a list of events was expected")
    return sorted(items, key=lambda each: int(each.get("revision") or 0))


def show(call: Call, found: list[Any]) -> None:
    """Print events as rows: what repeats in one row, objects of one name after the other apart."""
    if not found:
        output.note("No events are kept.")
    whole = call.out.format in {"wide", "csv"}
    titles = ["REVISION", "WHEN", "WHAT", "PHASE", "ACTOR", "REASON", "MESSAGE"]
    if whole:
        rows = [
            [*_row(call, [each]), human_units.plain(each.get("requestId")), str(each.get("uid"))]
            for each in found
        ]
        call.out.table([*titles, "REQUEST", "UID"], rows)
        return
    lives = itertools.groupby(found, lambda each: each.get("uid"))
    for number, (_, life) in enumerate(lives):
        if number:
            output.say("\nAnother object got its name then:")
        call.out.table(titles, [_row(call, run) for run in happenings.folded(life, _said)])


def _said(event: Any) -> happenings.Said:
    return happenings.Said(
        object=str(event.get("uid")),
        type=str(event.get("type")),
        phase=event.get("phase"),
        actor=str(event.get("actor") or ""),
        reason=str(event.get("reason") or ""),
        message=str(event.get("message") or ""),
    )


def _row(call: Call, run: list[Any]) -> list[str]:
    first, last = run[0], run[-1]
    reason, message = happenings.worded(_said(first).reason, _said(first).message)
    since = human_units.instant(first.get("at"))
    return [
        str(last.get("revision")),
        call.out.when(last.get("at")),
        str(last.get("type")),
        human_units.plain(last.get("phase")),
        human_units.plain(last.get("actor")),
        human_units.plain(reason),
        human_units.plain(happenings.with_count(message, len(run), since)),
    ]
