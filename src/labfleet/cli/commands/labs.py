"""`labs` and `ignore-lab`: the labs on a worker's server, whose they are, and leaving one alone."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import click

from labfleet.cli.kit import completing, exits, human_units, output, targets
from labfleet.cli.kit.call import Call, connected

COLUMNS = ["LAB", "STATE", "NODES", "WHOSE"]
WIDE = [*COLUMNS, "OWNER", "SINCE", "TITLE", "WHY"]
_DEFINED = "DEFINED_ON_CORE"
_worker = click.argument("name", metavar="WORKER", shell_complete=completing.of_kind("worker"))


@click.command("labs", short_help="List the labs on a worker's server, and whose they are.")
@_worker
@connected
def labs(call: Call, *, name: str) -> int:
    """List the labs on a worker's server: sessions', left-over ones, and those of other people.

    They are as the worker's last look found them; labs without nodes are in no look. NODES is how
    many run, of how many. -o wide adds its owner, since when it is there, its title, and why it is
    removed or left alone.
    """
    target = targets.one(name, "worker")
    answer = call.api.get(f"{target.path}/labs", namespace=call.settings.namespace)
    return _show(call, target, answer)


@click.command("ignore-lab", short_help="Leave a lab that is no session's alone.")
@_worker
@click.argument("lab", metavar="LAB")
@click.option("--reason", "-m", default="", help="Why it is left alone, for the record.")
@click.option("--undo", is_flag=True, help="Take that back.")
@connected
def ignore_lab(call: Call, *, name: str, lab: str, reason: str, undo: bool) -> int:
    """Leave a lab that is no session's alone: it is never removed, and what it holds stays counted.

    LAB is its name in CML, as `labfleet labs` shows it. With --undo it is again as any other lab of
    no session.
    """
    target = targets.one(name, "worker")
    if undo and reason:
        raise exits.usage("--reason and --undo do not go together")
    if not undo and not reason.strip():
        raise exits.usage("say why it is left alone: --reason TEXT")
    path = f"{target.path}/labs/{quote(lab, safe='')}/ignore"
    if undo:
        query = {"namespace": call.settings.namespace}
        answer = call.api.call("DELETE", path, query=query).body
    else:
        answer = call.api.post(path, {"reason": reason}, namespace=call.settings.namespace)
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(answer, "")
        return exits.OK
    told = "is no longer ignored" if undo else "is left alone"
    output.say(human_units.printable(f"{target}: lab {lab} {told}"))
    return exits.OK


def _show(call: Call, target: targets.Target, answer: dict[str, Any]) -> int:
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(answer, "")
        return exits.OK
    rows = answer.get("labs")
    if rows is None:
        call.out.note(f"{target}: the labs on its server were not seen, or it is over")
        return exits.OK
    wide = call.out.format in {"wide", "csv"}
    call.out.table(WIDE if wide else COLUMNS, [_row(call, each, wide=wide) for each in rows])
    told = "when they were seen is not known here"
    if answer.get("seen"):
        told = f"seen {human_units.age(answer['seen'], call.out.now())} ago"
    if not rows:
        # Without a count others' labs may be there: users see those of their own sessions only.
        seeing = "" if answer.get("count") is not None else "that you may see "
        told = f"no lab {seeing}there has nodes, {told}"
    call.out.note(f"{target}: {told}")
    if answer.get("more"):
        call.out.note(f"{answer['more']} more are not listed")
    return exits.OK


def _row(call: Call, lab: dict[str, Any], *, wide: bool) -> list[str]:
    nodes, state = lab.get("nodes"), str(lab.get("state") or "unknown")
    whose = f"session/{lab['session']}" if lab.get("session") else str(lab["whose"])
    texts = [human_units.printable(str(lab.get(each) or "")) for each in ("owner", "title")]
    owner, title = (each or output.NOTHING for each in texts)
    row = [
        str(lab["id"]),
        "DEFINED" if state == _DEFINED else state,
        "unknown" if nodes is None else f"{lab.get('running')}/{nodes}",
        whose,
    ]
    if not wide:
        return row
    return [*row, owner, call.out.age(lab.get("since")), title, call.out.text(lab.get("why"))]
