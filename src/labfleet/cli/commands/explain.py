"""`explain`: the recorded decision in sentences, and for each candidate what it lacks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import click

from labfleet.cli.commands import idle, session_head
from labfleet.cli.kit import completing, exits, human_units, output, targets
from labfleet.cli.kit.call import Call, connected
from labfleet.resources.meta import Key


@click.command("explain", short_help="Say why an object is as it is, and what is short.")
@click.argument("args", nargs=-1, metavar="KIND NAME | KIND/NAME",
                shell_complete=completing.kind_or_name)  # fmt: skip
@click.option("--idle", "idleness", is_flag=True, help="Say what speaks for and against idle.")
@connected
def explain(call: Call, *, args: tuple[str, ...], idleness: bool) -> int:
    """Say why an object is as it is: what was decided, for which reason, what comes next."""
    wanted = targets.parse(args)
    if idleness:
        return idle.explain(call, wanted)
    answers = [
        call.api.get(f"{each.path}/explain", namespace=call.settings.namespace) for each in wanted
    ]
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(answers[0] if len(answers) == 1 else {"items": answers}, "")
        return exits.OK
    for at, (target, answer) in enumerate(zip(wanted, answers, strict=True)):
        output.say(("\n" if at else "") + "\n".join(sentences(call, target, answer)))
        _candidates(call, target, answer.get("decision") or {})
        if answer.get("paused"):
            call.mute_pause()  # it is part of the explanation
        _blockers(call, answer.get("blockers") or ())
    return exits.OK


def sentences(call: Call, target: targets.Target, answer: dict[str, Any]) -> list[str]:
    """Return the lines before the table: state, why, decision, need, what comes next."""
    now = call.now()
    phase, since = answer.get("phase"), answer.get("since")
    # A kind without phases has no "since" either: its summary says how old it is.
    state = f": {phase}" if phase else ""
    if phase and since:
        state += f" since {human_units.when(since, now)}"
    lines = [f"{target}{state}"]
    lines += session_head.lines(answer, now) or _line("Why", answer.get("summary"))
    decision = answer.get("decision") or {}
    if decision:
        lines += _line("Decision", summary(call, decision, known=str(answer.get("summary"))))
        lines += _line("Needs", _needs(decision.get("requested") or {}))
        lines += _line("Looked at", _looked_at(decision))
        lines += _line("Rule", _rule(decision))
    lines += _predicted(answer)
    lines += _line("Load now", _load(answer.get("load")))
    lines += _line("Asked again", answer.get("again"))
    lines += [
        line
        for each in answer.get("conditions") or ()
        if not decision or _speaks(target, each)
        for line in _line("Condition", _condition(each, now))
    ]
    lines += [line for each in answer.get("more") or () for line in _line("Also", each)]
    for each in answer.get("alerts") or ():
        lines += _line("Raised", f"{each.get('condition')} ({each.get('severity')})")
        lines += _line("  measured", human_units.measured(each.get("measured")))
        lines += _line("  cause", each.get("cause"))
        lines += _command("  see", each.get("command"))
        lines += _line("  fix", each.get("fix"))
    waits = "; ".join(str(each) for each in answer.get("waitingFor") or ())
    # The summary of a session that waits for its slot is what it waits for.
    lines += _line("Waits for", "" if waits in str(answer.get("summary")) else waits)
    lines += _line("Next", _deadline(answer.get("nextDeadline"), now))
    lines += _line("Attempts", " ".join(str(each) for each in answer.get("attempts") or ()))
    row = answer.get("runbook") or {}
    name = Key("", call.settings.namespace, str(target.name)).argument
    lines += _line("If it lasts", str(row.get("fix") or "").replace("NAME", name))
    lines += _line("Paused", answer.get("paused"))
    return lines


def _speaks(target: targets.Target, condition: dict[str, Any]) -> bool:
    """Tell whether a fact says more than that all is well; of some it is True that says so."""
    news = {str(name): status for name, status in target.kind.news}
    bad = news.get(str(condition.get("type")))
    return condition.get("status") != "True" if bad != "True" else condition.get("status") == bad


def _line(title: str, text: Any) -> list[str]:
    return list(session_head.titled(title, text))


def _command(title: str, text: Any) -> list[str]:
    """Return a line that is one however long it is: somebody copies it."""
    return [f"{title + ': ':<11}{human_units.printable(str(text))}"] if text else []


def summary(call: Call, decision: dict[str, Any], *, known: str = "") -> str:
    """Return one line about a recorded decision; its message unless that is known already."""
    said = str(decision.get("outcome") or "?")
    if decision.get("chosen"):
        said += f" to {decision['chosen']}"
    if decision.get("reason"):
        said += f" ({decision['reason']})"
    if decision.get("at"):
        said += f", {human_units.when(decision['at'], call.now())}"
    message = str(decision.get("message") or "")
    return f"{said}: {message}" if message and message not in known else said


def _needs(requested: dict[str, Any]) -> str:
    return ", ".join(human_units.amount(name, value) for name, value in requested.items() if value)


def _looked_at(decision: dict[str, Any]) -> str:
    evaluated = decision.get("evaluated")
    rejected = decision.get("rejectedByReason") or {}
    if not evaluated and not rejected:
        return ""
    why = ", ".join(f"{reason} {count}" for reason, count in sorted(rejected.items()))
    return human_units.count(int(evaluated or 0), "candidate") + (
        f"; rejected: {why}" if why else ""
    )


def _rule(decision: dict[str, Any]) -> str:
    """Return by which rule a run was admitted or not, and at which risk of too much load."""
    rule, risk, most = (decision.get(each) for each in ("rule", "risk", "epsilon"))
    if not rule or not isinstance(risk, int | float):
        return str(rule or "")
    allowed = f", at most {most:.2%} allowed" if isinstance(most, int | float) else ""
    return f"{rule}: above a target with probability {risk:.2%}{allowed}"


def _predicted(answer: dict[str, Any]) -> list[str]:
    """Return the bounds of what a run needs, those that rest on the same above one sentence."""
    forecasts = (answer.get("prediction") or {}).get("forecasts") or ()
    lines: list[str] = []
    for at, each in enumerate(forecasts):
        lines += _line("Predicted", _forecast(each))
        after = forecasts[at + 1] if at + 1 < len(forecasts) else {}
        if each.get("sentence") != after.get("sentence"):
            lines += _line("Evidence", each.get("sentence"))
    # The same sentence stands in the evidence with its resource's name before it.
    known = {str(each.get("sentence")) for each in forecasts}
    more = (
        each
        for each in answer.get("evidence") or ()
        if each not in known and str(each).partition(": ")[2] not in known
    )
    return [*lines, *(line for each in more for line in _line("Evidence", each))]


def _load(load: Any) -> str:
    """Return what the cluster holds beside how far it may be filled, in each dimension."""
    if not isinstance(load, dict):
        return ""
    held, others, target = (load.get(each) or {} for each in ("held", "others", "target"))
    said = ", ".join(
        f"{human_units.amount(name, (held.get(name) or 0) + (others.get(name) or 0))} of"
        f" {human_units.amount(name, most)}"
        for name, most in target.items()
        if most
    )
    beside = " and pods of no run" if any(others.values()) else ""
    return (
        f"{said}, by the bounds of {human_units.count(int(load.get('runs') or 0), 'run')}{beside}"
    )


def _forecast(each: dict[str, Any]) -> str:
    """Return `at most 4 CPU in 95% of runs, most likely 3 CPU`; empty when there is no bound."""
    name = str(each.get("resource"))
    bound, likely, share = (each.get(key) for key in ("bound", "expected", "coverage"))
    if not isinstance(bound, int | float):
        return ""
    runs = f" in {100 * share:.4g}% of runs" if isinstance(share, int | float) else ""
    takes = "takes " if name == "duration_seconds" else ""
    said = f"{takes}at most {_of(name, bound)}{runs}"
    return f"{said}, most likely {_of(name, likely)}" if isinstance(likely, int | float) else said


def _of(resource: str, value: float) -> str:
    if resource == "duration_seconds":
        return f"{value:.2g}s" if value < 10 else human_units.span(value)
    return human_units.amount(resource, math.ceil(value))


def _condition(condition: dict[str, Any], now: Any) -> str:
    said = f"{condition.get('type')}={condition.get('status')} ({condition.get('reason')})"
    if condition.get("message"):
        said += f": {condition['message']}"
    since = condition.get("lastTransitionTime")
    return f"{said}, since {human_units.when(since, now)}" if since else said


def _deadline(value: Any, now: Any) -> str:
    if not isinstance(value, dict):
        return ""
    return f"{value.get('what')} at {human_units.when(value.get('at'), now)}"


def _candidates(call: Call, target: targets.Target, decision: dict[str, Any]) -> None:
    rows = [_row(each) for each in decision.get("candidates") or ()]
    if not rows:
        return
    title = "CLUSTER" if target.kind.name == "Simulation" else "WORKER"
    output.say("")
    call.out.table([title, "FITS", "SHORT OF", "REASONS", "SCORE"], rows)


def _blockers(call: Call, blockers: Sequence[dict[str, Any]]) -> None:
    """Show what keeps a worker from being empty, soonest first."""
    if not blockers:
        return
    unknown = "" if call.out.format == "csv" else "unknown"
    rows = [
        [
            f"{str(each.get('kind')).lower()}/{each.get('name')}",
            str(each.get("phase")),
            human_units.printable(str(each.get("owner") or "-")),
            call.out.when(each["until"]) if each.get("until") else unknown,
            call.out.text(each.get("why")),
            call.out.text(each.get("help")),
        ]
        for each in blockers
    ]
    output.say("")
    call.out.table(["IN THE WAY", "PHASE", "OWNER", "UNTIL", "WHY", "WAY OUT"], rows)


def _row(candidate: dict[str, Any]) -> list[str]:
    short = [shortage(each) for each in candidate.get("shortages") or ()]
    score = candidate.get("score")
    return [
        str(candidate.get("name")),
        "yes" if candidate.get("fits") else "no",
        "; ".join(short) or "-",
        human_units.printable(", ".join(str(each) for each in candidate.get("reasons") or ()))
        or "-",
        "-" if score is None else f"{score:g}",
    ]


def shortage(each: dict[str, Any]) -> str:
    """Return `4 CPU (wants 14 CPU, 10 CPU free)`."""
    name = str(each.get("dimension"))
    wanted, free = each.get("wanted") or 0, each.get("free") or 0
    missing = human_units.amount(name, wanted - free)
    return f"{missing} (wants {human_units.amount(name, wanted)}, free {human_units.amount(name, free)})"
