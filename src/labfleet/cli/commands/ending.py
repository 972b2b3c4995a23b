"""`delete` and `cancel`: end objects; first they name the people whose labs would end."""

from __future__ import annotations

from typing import Any

import click

from labfleet.cli.commands import waiting
from labfleet.cli.kit import call as calls
from labfleet.cli.kit import completing, exits, human_units, output, paths, safety, sources, targets
from labfleet.cli.kit.call import Call, connected
from labfleet.resources import kinds
from labfleet.resources.simulation import OPEN


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
    answers = [_end(call, target, obj) for target, obj in pairs]
    if wait:
        gone = waiting.WaitTarget("delete")
        meant = [(target, gone, waiting.uid_of(obj)) for target, obj in pairs]
        code, _ = waiting.for_each(call, meant, seconds, lambda *_: "")
        if code != exits.OK:
            return code
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
    pairs = safety.selected(call, targets.kind_of(args[0]), selector)
    return [target for target, _ in pairs]


def _end(call: Call, target: targets.Target, obj: Any) -> dict[str, Any]:
    # By its uid: another object may have got the name since it was looked at and asked about.
    query = {"namespace": targets.space(call, target), "uid": waiting.uid_of(obj)}
    try:
        reply = call.api.call("DELETE", target.path, query=query)
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


@click.command("cancel", short_help="End a session or simulation before its time.")
@click.argument("names", nargs=-1, metavar="SESSION|sim/NAME...",
                shell_complete=completing.of_kind("session"))  # fmt: skip
@click.option("-l", "--selector", metavar="LABELS", help="All sessions with these labels.")
@click.option("--reason", "-m", default="", help="Why, for the record and its owner.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask, even when people are connected.")
@click.option("--dry-run", type=click.Choice(["client"]), help="Only say what would be cancelled.")
@connected
def cancel(
    call: Call,
    *,
    names: tuple[str, ...],
    selector: str | None,
    reason: str,
    yes: bool,
    dry_run: str | None,
) -> int:
    """End sessions before their time; accepted in every phase. sim/NAME is a simulation.

    One that is over already is told, and exits with 5; with -l those are left out. What a simulation
    holds is free at once, whether or not it still runs.
    """
    runs = [each for each in names if _is_run(each)]
    if runs:
        if selector or len(runs) < len(names):
            raise exits.usage("name simulations alone, without sessions and -l")
        return _cancel_runs(call, runs, yes=yes, dry_run=dry_run)
    pairs = safety.chosen_sessions(call, names, selector)
    if not pairs:
        call.out.note("No session that is not over has these labels.")
        return exits.OK
    if dry_run:
        for target, obj in pairs:
            output.say(f"{target} {_would(obj)} (dry run)")
        return exits.OK
    if selector:
        call.confirm(safety.many(pairs, "cancelled"), yes=yes)
    else:
        for target, obj in pairs:
            safety.ask(call, "Cancelling", target, obj, yes=yes)
    over: list[exits.Failure] = []
    answers: list[Any] = []
    for target, obj in pairs:
        if safety.is_over(obj):
            over.append(safety.over(target, obj))
            continue
        answer, said = _cancel(call, target, obj, reason)
        answers.append(answer)
        if not call.out.structured:
            output.say(target.name if call.out.quiet else said)
    if call.out.structured and answers:
        many = {"kind": "List", "items": answers}
        call.out.value(answers[0] if len(pairs) == 1 else many, "")
    call.raise_last(over)
    return exits.OK


def _is_run(name: str) -> bool:
    """Tell whether a name is KIND/NAME of a simulation."""
    kind, slash, _ = name.partition("/")
    return bool(slash) and kinds.by_word(kind).name == "Simulation"


def _cancel_runs(call: Call, names: list[str], *, yes: bool, dry_run: str | None) -> int:
    """End simulations as their callers would, as cancelled."""
    pairs = safety.each_target(
        call, [targets.one(each, "simulation") for each in names], missing_ok=False
    )
    over: list[exits.Failure] = []
    answers: list[Any] = []
    for target, obj in pairs:
        phase = str(paths.simple(obj, "status.phase"))
        if phase not in set(OPEN):
            over.append(safety.over(target, obj))
            continue
        if dry_run:
            output.say(f"{target} would be cancelled (dry run)")
            continue
        call.confirm(f"Cancelling {target} frees what it holds; it may still run.", yes=yes)
        body = {"simulation_id": target.name, "status": "cancelled"}
        space = targets.space(call, target)
        answers.append(call.api.post("/simulation_complete", body, namespace=space))
        if not call.out.structured:
            output.say(target.name if call.out.quiet else f"{target} cancelled")
    if call.out.structured and answers:
        many = {"kind": "List", "items": answers}
        call.out.value(answers[0] if len(pairs) == 1 else many, "")
    call.raise_last(over)
    return exits.OK


def _would(obj: Any) -> str:
    phase = paths.simple(obj, "status.phase")
    if safety.is_over(obj):
        return f"is over already ({phase}) and would stay so"
    if paths.simple(obj, "spec.cancel") is not None:
        return f"was cancelled before and is ending ({phase})"
    return "would be cancelled"


def _cancel(call: Call, target: targets.Target, obj: Any, reason: str) -> tuple[Any, str]:
    """Return the session afterwards, and what became of it in words."""
    phase = paths.simple(obj, "status.phase")
    answer = call.api.post(
        f"{target.path}/cancel",
        {"reason": reason},
        namespace=call.settings.namespace,
        uid=waiting.uid_of(obj),
    )
    if safety.is_over(answer) and paths.simple(answer, "spec.cancel") is None:
        return answer, f"{target} was over before ({paths.simple(answer, 'status.phase')})"
    if paths.simple(obj, "spec.cancel") is not None:
        return answer, f"{target} was cancelled before and is ending ({phase})"
    return answer, f"{target} cancelled"
