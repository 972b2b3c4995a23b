"""`recommend`: what a definition should ask for by what its sessions used; apply, propose, undo that."""

from __future__ import annotations

from typing import Any

import click

from labfleet.cli.kit import completing, exits, human_units, output, paths, targets
from labfleet.cli.kit.call import Call, connected
from labfleet.kernel import quantity

VALUES = ("max", "latest", "bound", "custom", "proposed")
FIGURES = ("declared", "latest", "mean", "p95", "max", "bound")
POOLS = 3
"""Pools of which the outcome is shown in a table; -o wide shows all."""


@click.command("recommend", short_help="Show and apply what a definition should ask for.")
@click.argument("args", nargs=-1, metavar="DEFINITION",
                shell_complete=completing.of_kind("definition"))  # fmt: skip
@click.option("--apply", "value", type=click.Choice(VALUES),
              help="Make the next version of its family, which asks for that.")  # fmt: skip
@click.option("--propose", type=click.Choice(VALUES[:-1]), help="Propose that to the admins.")
@click.option("--alone", is_flag=True, help="Show sessions of this very version only.")
@click.option("--withdraw", is_flag=True, help="Take a proposal back.")
@click.option("--undo", is_flag=True, help="Deprecate the version that was made by applying.")
@click.option("--cpu", metavar="AMOUNT", help="With custom: CPUs, such as 2 or 500m.")
@click.option("--memory", metavar="AMOUNT", help="With custom: memory, such as 4Gi.")
@click.option("--storage", metavar="AMOUNT", help="With custom: disk, such as 20Gi.")
@click.option("--reason", "-m", default="", help="Why, for the record.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before a version is made or undone.")
@connected
def recommend(
    call: Call,
    *,
    args: tuple[str, ...],
    value: str | None,
    propose: str | None,
    alone: bool,
    withdraw: bool,
    undo: bool,
    cpu: str | None,
    memory: str | None,
    storage: str | None,
    reason: str,
    yes: bool,
) -> int:
    """Show what a definition's past sessions used, what it could ask for, and what would follow.

    Nothing is ever applied by itself. --apply makes the next version of its family and touches no
    session that was accepted; new sessions that name the family get it. --undo takes it out of use.
    """
    target = _target(args)
    asked = [each for each in (value, propose, withdraw, undo) if each]
    if len(asked) > 1:
        raise exits.usage("give one of --apply, --propose, --withdraw, --undo")
    custom = _custom(cpu, memory, storage)
    if (custom is not None) != ("custom" in (value, propose)):
        raise exits.usage(
            "--cpu, --memory and --storage go with custom",
            "For example --apply custom --memory 4Gi.",
        )
    if not asked:
        return _show(call, target, alone=alone)
    if alone:
        raise exits.usage("--alone only shows: what is applied goes by all sessions of the family")
    if undo:
        call.confirm(f"New sessions would get the version before {target}.", yes=yes)
        return _done(call, _post(call, target, "undo", {"reason": reason}), "is deprecated")
    if value is not None:
        call.confirm(f"The next version of {target} would ask for its {value}.", yes=yes)
        body = {"value": value, "custom": custom, "reason": reason}
        return _done(call, _post(call, target, "apply", body), f"was made of {target}")
    body = {"value": propose, "custom": custom, "reason": reason}
    told = "has no proposal now" if withdraw else f"has a proposal: {propose}"
    return _done(call, _post(call, target, "propose", body), told)


def _target(args: tuple[str, ...]) -> targets.Target:
    """Return the one definition of `NAME`, `definition/NAME` or `definition NAME`."""
    if len(args) == 2:
        (found,) = targets.parse(args)
        if found.kind.name != "Definition":
            raise exits.usage(f"{found} is {found.kind.one}; this command is for a definition")
        return found
    if len(args) != 1:
        raise exits.usage("which definition?", "For example definition/campus.")
    return targets.one(args[0], "definition")


def _custom(cpu: str | None, memory: str | None, storage: str | None) -> dict[str, int] | None:
    made = {}
    for key, flag, text, parse in (
        ("cpuMilli", "--cpu", cpu, quantity.parse_cpu),
        ("memoryMib", "--memory", memory, quantity.parse_memory),
        ("storageMib", "--storage", storage, quantity.parse_memory),
    ):
        if text is not None:
            try:
                made[key] = parse(text)
            except ValueError as error:
                raise exits.usage(f"{flag}: {error}") from None
    return made or None


def _post(call: Call, target: targets.Target, verb: str, body: dict[str, Any]) -> Any:
    where = f"{target.path}/recommendation/{verb}"
    return call.api.post(where, body, namespace=call.settings.namespace)


def _done(call: Call, obj: Any, told: str) -> int:
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(obj, "")
    elif call.out.quiet:
        output.say(output.name_of(obj))
    else:
        demand = paths.simple(obj, "status.demand") or {}
        asks = ", ".join(
            human_units.amount(each, demand.get(each) or 0)
            for each in ("cpuMilli", "memoryMib", "storageMib")
        )
        output.say(f"definition/{output.name_of(obj)} {told}; it asks for {asks}")
        instead = paths.simple(obj, "spec.replacement")
        if instead:
            output.say(f"New sessions that name the family get definition/{instead}.")
    return exits.OK


def _show(call: Call, target: targets.Target, *, alone: bool) -> int:
    where, asked = f"{target.path}/recommendation", {"alone": "true"} if alone else {}
    answer = call.api.get(where, namespace=call.settings.namespace, **asked)
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(answer, "")
        return exits.OK
    rows = [_row(each) for each in answer["dimensions"]]
    call.out.table(["", *(each.upper() for each in FIGURES), "SESSIONS"], rows)
    output.say("") if call.out.format in {"table", "wide"} else None
    pools = [each["pool"] for each in answer["options"][0]["pools"]]
    shown = pools if call.out.format == "wide" else pools[:POOLS]
    titles = ["VALUE", "CPU", "MEMORY", "STORAGE", "EXCEEDED", *(f"{each}*" for each in shown)]
    call.out.table(titles, [_option(each, shown) for each in answer["options"]])
    _notes(call, target, answer, many=len(pools) > len(shown))
    return exits.OK


def _row(each: dict[str, Any]) -> list[str]:
    name = each["resource"]
    cells = [_amount(name, each.get(figure)) for figure in FIGURES]
    return [name.rpartition("_")[0], *cells, str(each["sessions"])]


def _amount(name: str, value: float | None) -> str:
    if value is None:
        return output.NOTHING
    if name == "cpu_milli":
        return f"{value / 1000:.3g}"
    return human_units.memory(round(value))


def _option(each: dict[str, Any], pools: list[str]) -> list[str]:
    amounts = each["amounts"]
    held = {one["pool"]: one for one in each["pools"]}
    return [
        each["value"],
        _amount("cpu_milli", amounts["cpuMilli"]),
        *(_amount("", amounts[key]) for key in ("memoryMib", "storageMib")),
        str(each["exceeded"]),
        *(_outcome(held[pool]) for pool in pools),
    ]


def _outcome(pool: dict[str, Any]) -> str:
    price = pool.get("usdPerSessionHour")
    return f"{pool['sessionsPerWorker']}" + (f" at ${price:.2f}/h" if price is not None else "")


def _notes(call: Call, target: targets.Target, answer: dict[str, Any], *, many: bool) -> None:
    """Say on stderr what the tables rest on, and what can be done next."""
    out, shown = call.out, human_units.printable
    if answer["options"][0]["pools"]:
        out.note(
            f"* sessions that one worker of the pool holds, with each one's share of its price{'; all: -o wide' if many else ''}"
        )
    looked = human_units.count(answer["lookedAt"], "past session")
    out.note(shown(f"{looked} of family {answer['family']} looked at, {answer['most']} at most."))
    for each in answer["dimensions"]:
        told = each["sentence"]
        if each.get("bound") is not None:
            told += f"; stated {each['coverage']:.0%}"
            if each.get("achieved") is not None:
                told += f", achieved {each['achieved']:.0%}"
        out.note(shown(f"{each['resource'].rpartition('_')[0]}: {told}"))
    saving = answer.get("saving")
    if saving is not None:
        out.note(shown(_saving(saving)))
    for each in answer["options"]:
        if each.get("refused"):
            out.note(shown(f"{each['value']} cannot be applied: {each['refused']}"))
    proposal = answer.get("proposal")
    if proposal is not None:
        why = f": {proposal['reason']}" if proposal.get("reason") else ""
        out.note(shown(f"{proposal['by']} proposes {proposal['value']}{why}"))
    _next(call, target, answer)


def _saving(saving: dict[str, Any]) -> str:
    told = f"the bound would have saved {saving['memoryGibHours']:g} GiB-hours of memory"
    if saving.get("workerHours") is not None:
        told += f", {saving['workerHours']:g} worker-hours"
    if saving.get("usd") is not None:
        told += f", ${saving['usd']:.2f}"
    return f"{told} over {human_units.count(saving['sessions'], 'session')}"


def _next(call: Call, target: targets.Target, answer: dict[str, Any]) -> None:
    newest = answer.get("newest")
    if newest not in {None, answer["definition"]}:
        call.out.note(f"{newest} is newer: labfleet recommend definition/{newest}")
        return
    said = human_units.printable(answer["reviewed"])
    if answer["needsReview"]:
        call.out.note(f"It needs a review: {said}. labfleet recommend {target} --apply bound")
    else:
        call.out.note(f"It needs no review: {said}.")
