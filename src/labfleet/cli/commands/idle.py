"""The commands of idle detection: the switch of single workers, and the explained verdict."""

from __future__ import annotations

from typing import Any

import click

from labfleet.cli.kit import completing, deeds, exits, human_units, output, safety, targets
from labfleet.cli.kit.call import Call, connected


@click.group("idle", short_help="Show which workers nobody uses; switch the idle rule.",
             invoke_without_command=True)  # fmt: skip
@click.option("--no-headers", is_flag=True, help="Rows without headings.")
@connected
def idle(call: Call) -> int:
    """Show of every worker whether it is used, when it would be stopped, and what keeps it.

    The switch of the whole fleet is the setting idle.enabled.
    """
    if click.get_current_context().invoked_subcommand is not None:
        return exits.OK
    answer = call.api.get("/api/v1/fleet/idle")
    items = answer.get("items") or []
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(answer, "")
        return exits.OK
    if call.out.quiet or call.out.format == "name":
        output.write(
            "".join(
                f"worker/{output.label(each.get('namespace'), each['worker'])}\n" for each in items
            )
        )
        return exits.OK
    call.out.table(
        ["WORKER", "VERDICT", *_unused_titles(call), "STOP", "KEPT BY", "WHY"],
        [_overview(call, each) for each in items],
    )
    call.out.left_out(answer, "workers")
    if not items:
        call.out.note("there is no worker")
    return exits.OK


def _unused_titles(call: Call) -> list[str]:
    return ["UNUSED SECONDS", "TIMEOUT SECONDS"] if call.out.format == "csv" else ["UNUSED"]


def _unused(call: Call, each: dict[str, Any]) -> list[str]:
    """Return how long nobody used it, and after how long it would be stopped."""
    minutes, limit = each.get("idleMinutes"), each.get("timeoutMinutes")
    unused = None if minutes is None else max(float(minutes), 0.0)
    if call.out.format == "csv":
        both = (unused, limit)
        return [call.out.span(None if found is None else found * 60) for found in both]
    return ["-" if unused is None else f"{unused:.0f} of {limit} min"]


def _overview(call: Call, each: dict[str, Any]) -> list[str]:
    at = human_units.instant(each.get("stopAt"))
    due = at is not None and at <= call.now() and call.out.format != "csv"
    return [
        output.label(each.get("namespace"), each.get("worker")),
        "stopped" if each.get("autoStopped") else str(each.get("verdict")),
        *_unused(call, each),
        "now" if due else call.out.when(each.get("stopAt")),
        ", ".join(str(kept) for kept in each.get("keptBy") or ()) or "-",
        call.out.text(each.get("told")),
    ]


_worker = click.argument("names", nargs=-1, required=True, metavar="WORKER...",
                         shell_complete=completing.of_kind("worker"))  # fmt: skip


@idle.command("enable", short_help="Let the idle rule stop these workers.")
@_worker
@connected
def enable(call: Call, *, names: tuple[str, ...]) -> int:
    """Let the idle rule stop these workers when nobody uses them."""
    return _switch(call, names, enabled=True)


@idle.command("disable", short_help="Never stop these workers for idleness.")
@_worker
@connected
def disable(call: Call, *, names: tuple[str, ...]) -> int:
    """Never stop these workers for idleness; sessions, people and pools still may."""
    return _switch(call, names, enabled=False)


def _switch(call: Call, names: tuple[str, ...], *, enabled: bool) -> int:
    said = "may be stopped when idle" if enabled else "is never stopped for idleness"
    for target, before in safety.workers(call, names):
        after = call.api.post(
            f"{target.path}/idle-detection",
            {"enabled": enabled},
            namespace=call.settings.namespace,
        )
        deeds.tell(call, target, before, after, said=said, already=f"{said} already")
    return exits.OK


def explain(call: Call, wanted: list[targets.Target]) -> int:
    """Show for each worker the table of signals, when it would be stopped, and what keeps it."""
    for target in wanted:
        if target.kind.name != "Worker":
            raise exits.usage(f"{target}: only workers are idle", "For example worker/w1 --idle.")
    answers = [
        call.api.get(f"{each.path}/idle", namespace=call.settings.namespace) for each in wanted
    ]
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(answers[0] if len(answers) == 1 else {"items": answers}, "")
        return exits.OK
    for at, (target, answer) in enumerate(zip(wanted, answers, strict=True)):
        output.say(("\n" if at else "") + "\n".join(sentences(call, target, answer)))
        output.say("")
        rows = [_row(call, each) for each in answer.get("signals") or ()]
        call.out.table(["SIGNAL", "SAYS", "VALUE", "AGE", "WHY"], rows)
    return exits.OK


def sentences(call: Call, target: targets.Target, answer: dict[str, Any]) -> list[str]:
    """Return the lines before the table."""
    now = call.now()
    lines = [f"{target}: {answer.get('verdict')}", f"Why:       {_text(answer.get('told'))}"]
    since, minutes = answer.get("since"), answer.get("idleMinutes")
    if since:
        lines.append(
            f"Unused:    {max(float(minutes or 0), 0.0):g} of {answer.get('timeoutMinutes')} minutes, "
            f"since {human_units.when(since, now)}"
        )
    if answer.get("stopAt"):
        at = human_units.instant(answer["stopAt"])
        when = (
            "once"
            if at is not None and at <= now
            else f"{human_units.when(answer['stopAt'], now)}, if"
        )
        lines.append(f"Stop at:   {when} nothing else keeps it, and never before its warning")
    if answer.get("warnedAt"):
        lines.append(f"Warned:    {human_units.when(answer['warnedAt'], now)}")
    if answer.get("checkedAt"):
        lines.append(f"Last news: {human_units.when(answer['checkedAt'], now)}")
    for each in answer.get("recent") or ():
        who = _text(each.get("user") or "somebody")
        lines.append(
            f"Used:      {_text(each['category'])} by {who}, {human_units.when(each['at'], now)}"
        )
    return lines


def _row(call: Call, signal: dict[str, Any]) -> list[str]:
    at = human_units.instant(signal.get("at"))
    return [
        str(signal.get("name")),
        str(signal.get("verdict")),
        _text(signal.get("value") or "-"),
        "-" if at is None or at > call.now() else call.out.age(signal["at"]),
        call.out.text(signal.get("told")),
    ]


def _text(value: object) -> str:
    return human_units.printable(str(value))
