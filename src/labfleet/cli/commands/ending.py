"""`delete` and `cancel`: end objects; first they name the people whose labs would end."""

from __future__ import annotations

from typing import Any

import click

from labfleet.cli.commands import waiting
from labfleet.cli.kit import call as calls
from labfleet.cli.kit import completing, exits, human_units, output, paths, safety, sources, targets
from labfleet.cli.kit.call import Call, connected


@click.command("delete", short_help="Delete objects.")
@click.argument("args", nargs=-1, metavar="KIND NAME... | KIND/NAME...",
                shell_complete=completing.kind_or_name)  # fmt: skip
@click.option("-f", "--filename", "files", multiple=True, help="Objects of these manifests.")
@click.option("-l", "--selector", metavar="LABELS", help="All of a kind with these labels.")
@click.option("--all", "everything", is_flag=True, help="All of a kind in the namespace.")
@click.option("--ignore-not-found", is_flag=True, help="Absent objects are fine.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask, even when people are connected.")
@click.option("--dry-run", type=click.Choice(["client"]), help="Only say what would go.")
@click.option("--wait", "wait", is_flag=True, help="Wait until they are gone.")
@click.option("--timeout", default="20m", show_default=True, help="With --wait: exit 8 after.")
@connected
def delete(
    call: Call,
    *,
    args: tuple[str, ...],
    files: tuple[str, ...],
    selector: str | None,
    everything: bool,
    ignore_not_found: bool,
    yes: bool,
    dry_run: str | None,
    wait: bool,
    timeout: str,
) -> int:
    """Delete objects; what they hold outside is given back before they are gone."""
    seconds = calls.seconds(timeout, "--timeout")
    many = bool(selector) or everything
    wanted = _wanted(call, args, files, selector, many=many)
    if not wanted and many:
        call.out.note("Nothing to delete.")
        return exits.OK
    pairs = safety.each_target(call, wanted, missing_ok=ignore_not_found or many)
    if dry_run:
        for target, _ in pairs:
            output.say(f"{target} deleted (dry run)")
        return exits.OK
    if many:
        call.confirm(f"{human_units.count(len(pairs), 'object')} would be deleted.", yes=yes)
    for target, obj in pairs:
        safety.ask(call, "Deleting", target, obj, yes=yes)
    answers = [_end(call, target) for target, _ in pairs]
    if wait:
        for target, _ in pairs:
            try:
                waiting.until(call, target, waiting.WaitTarget("delete"), seconds)
            except KeyboardInterrupt:
                waiting.detached(target)
                return exits.INTERRUPTED
    if call.out.structured:
        call.out.value(answers[0] if len(answers) == 1 else {"kind": "List", "items": answers}, "")
    return exits.OK


def _wanted(
    call: Call, args: tuple[str, ...], files: tuple[str, ...], selector: str | None, *, many: bool
) -> list[targets.Target]:
    if files:
        loaded = sources.load(files, recursive=False)
        return [each.target for each in sources.in_order(loaded)][::-1]
    if not many:
        return targets.parse(args)
    if len(args) != 1 or "/" in args[0]:
        raise exits.usage("-l and --all take one KIND and no name")
    kind = targets.kind_of(args[0])
    items, _, _ = call.api.items(
        kind.plural, namespace=call.settings.namespace, labelSelector=selector
    )
    return [targets.Target(kind, output.name_of(each)) for each in items]


def _end(call: Call, target: targets.Target) -> dict[str, Any]:
    try:
        reply = call.api.call("DELETE", target.path, query={"namespace": call.settings.namespace})
        held = reply.status == 202
    except exits.Failure as failure:
        # It existed a moment ago: when the first DELETE's answer was lost, the repeated one
        # finds nothing.
        if failure.code != exits.NOT_FOUND:
            raise
        held = False
        reply = None
    result = "deleting" if held else "deleted"
    if not call.out.structured:
        output.say(str(target) if call.out.quiet else f"{target} {result}")
        body = None if reply is None else reply.body
        told = paths.simple(body, "status.message") if isinstance(body, dict) else None
        if told and "left alone" in str(told):
            call.out.note(human_units.printable(str(told)))
    return {"kind": target.kind.name, "name": target.name, "result": result}


@click.command("cancel", short_help="End a session before its time.")
@click.argument("names", nargs=-1, required=True, metavar="SESSION...",
                shell_complete=completing.of_kind("session"))  # fmt: skip
@click.option("--reason", "-m", default="", help="Why, for the record and its owner.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask, even when people are connected.")
@connected
def cancel(call: Call, *, names: tuple[str, ...], reason: str, yes: bool) -> int:
    """End sessions before their time; accepted in every phase."""
    wanted = [targets.one(each, "session") for each in names]
    pairs = safety.each_target(call, wanted, missing_ok=False)
    for target, obj in pairs:
        safety.ask(call, "Cancelling", target, obj, yes=yes)
    for target, _ in pairs:
        answer = call.api.post(
            f"{target.path}/cancel", {"reason": reason}, namespace=call.settings.namespace
        )
        if call.out.structured:
            call.out.show(target.kind, answer)
        else:
            output.say(f"{target} cancelled")
    return exits.OK
