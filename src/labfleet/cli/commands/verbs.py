"""Verbs on one object: drain, cordon, uncordon, start, stop, extend."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import click

from labfleet.cli.commands import groups, waiting
from labfleet.cli.kit import call as calls
from labfleet.cli.kit import completing, deeds, exits, human_units, output, paths, safety, targets
from labfleet.cli.kit.call import Call, connected
from labfleet.kernel import clock

Pairs = Sequence[tuple[targets.Target, dict[str, Any] | None]]
_worker = click.argument("names", nargs=-1, required=True, metavar="WORKER...",
                         shell_complete=completing.of_kind("worker"))  # fmt: skip


@click.command("drain", short_help="Empty a worker by a deadline, or stop doing so.")
@_worker
@click.option("--deadline", metavar="DURATION|INSTANT",
              help="Until when: 90m, or 2026-11-27T18:00:00Z; default: the template's limit.")  # fmt: skip
@click.option("--reason", "--message", "-m", "reason", default="", help="Why, for the record.")
@click.option("--force", is_flag=True, help="End what still runs at the deadline.")
@click.option("--undo", "--cancel", "undo", is_flag=True, help="Stop draining.")
@click.option("--extend", "longer", metavar="DURATION", help="Move the deadline of a drain.")
@click.option("--now", "now", is_flag=True, help="End what still runs at once.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask, even when people are connected.")
@click.option("--dry-run", type=click.Choice(["client"]), help="Only say what would be drained.")
@click.option("--wait", "wait", is_flag=True, help="Wait until the worker is out of DRAINING.")
@click.option("--timeout", default="4h", show_default=True, help="With --wait: exit 8 after.")
@connected
def drain(
    call: Call,
    *,
    names: tuple[str, ...],
    deadline: str | None,
    reason: str,
    force: bool,
    undo: bool,
    longer: str | None,
    now: bool,
    yes: bool,
    dry_run: str | None,
    wait: bool,
    timeout: str,
) -> int:
    """Empty a worker: nothing new is placed on it, what runs may end by the deadline."""
    if sum((undo, longer is not None, now, deadline is not None or force)) > 1:
        raise exits.usage("give one of --undo, --extend, --now, and --deadline with --force")
    body: dict[str, Any] = {"reason": reason, "force": force}
    if deadline is not None:
        end = calls.deadline(deadline, "--deadline", call.now())
        body["deadline"] = clock.format_instant(end)
    if wait and undo:
        raise exits.usage("--wait waits until a worker is drained; --undo ends that")
    patience = calls.seconds(timeout, "--timeout")
    wanted = [targets.one(each, "worker") for each in names]
    pairs = safety.each_target(call, wanted, missing_ok=False)
    more = None if longer is None else timedelta(seconds=calls.seconds(longer, "--extend"))
    if dry_run:
        for target, obj in pairs:
            output.say(f"{target} {_would(call, target, obj, undo=undo)} (dry run)")
        return exits.OK
    if undo:
        return _verb(call, pairs, "cancel-drain", {}, ("no longer draining", "was not draining"))
    if more is not None:
        code = _longer(call, pairs, more)
        return _drained(call, pairs, patience) if wait and code == exits.OK else code
    for target, obj in pairs:
        effect = "ends" if force or now else "concerns"
        safety.ask(call, "Draining", target, obj, yes=yes, effect=effect)
    if now:
        code = _now(call, pairs, reason)
    else:
        code = _verb(call, pairs, "drain", body, ("draining", "drains so already"))
    return _drained(call, pairs, patience) if wait and code == exits.OK else code


def _longer(call: Call, pairs: Pairs, by: timedelta) -> int:
    """Move each deadline; an instant is sent, so that a repeated call moves it once."""
    for target, obj in pairs:
        before = human_units.instant(paths.simple(obj or {}, "spec.drain.deadline"))
        later = max(before or call.now(), call.now()) + by
        body = {"deadline": clock.format_instant(later)}
        said = f"drains until {human_units.when(body['deadline'], call.now())}"
        code = _verb(
            call, [(target, obj)], "change-drain", body, (said, "has that deadline already")
        )
        if code != exits.OK:
            return code
    return exits.OK


def _would(call: Call, target: targets.Target, obj: Any, *, undo: bool) -> str:
    """Return what draining a worker, or undoing it, would do."""
    if undo:
        drained = paths.simple(obj, "spec.drain") is not None
        return "would no longer drain" if drained else "is not draining"
    used = human_units.count(len(safety.connected_people(call, target, obj)), "lab")
    return f"would drain; people use {used} there now"


def _now(call: Call, pairs: Pairs, reason: str) -> int:
    """End what runs at once; a worker that nobody drained yet is drained first."""
    fresh = [(target, obj) for target, obj in pairs if not _leaving(obj)]
    if fresh:
        code = _verb(call, fresh, "drain", {"reason": reason}, ("draining", "drains so already"))
        if code != exits.OK:
            return code
    said = "ends what still runs"
    return _verb(call, pairs, "change-drain", {"force": True}, (said, f"{said} already"))


def _leaving(obj: dict[str, Any] | None) -> bool:
    found = obj or {}
    desired = paths.simple(found, "spec.desired")
    return paths.simple(found, "spec.drain") is not None or desired not in {None, "Ready"}


@click.command("stop", short_help="Stop a worker once it is empty; its disk stays.")
@_worker
@click.option("-y", "--yes", is_flag=True, help="Do not ask, even when people are connected.")
@connected
def stop(call: Call, *, names: tuple[str, ...], yes: bool) -> int:
    """Stop a worker once its sessions have ended; it can be started again."""
    wanted = [targets.one(each, "worker") for each in names]
    pairs = safety.each_target(call, wanted, missing_ok=False)
    for target, obj in pairs:
        safety.ask(call, "Stopping", target, obj, yes=yes, effect="concerns")
    body = {"desired": "Stopped"}
    return _verb(call, pairs, "desired", body, ("is to stop", "is to stop already"))


@click.command("start", short_help="Start a stopped worker.")
@_worker
@connected
def start(call: Call, *, names: tuple[str, ...]) -> int:
    """Start a stopped worker, or take back that it is to stop."""
    pairs = safety.workers(call, names)
    body = {"desired": "Ready"}
    return _verb(call, pairs, "desired", body, ("is to start", "is to run already"))


def _drained(call: Call, pairs: Pairs, seconds: float) -> int:
    wish = waiting.WaitTarget("condition", "Drained", "True")
    meant = [(target, wish, waiting.uid_of(obj)) for target, obj in pairs]
    code, _ = waiting.for_each(call, meant, seconds, lambda target, _: f"{target} is drained.")
    return code


@click.command("cordon", short_help="Place nothing more on a worker.")
@_worker
@connected
def cordon(call: Call, *, names: tuple[str, ...]) -> int:
    """Place nothing more on a worker; what runs there stays."""
    pairs = safety.workers(call, names)
    return _verb(call, pairs, "cordon", {}, ("cordoned", "was cordoned already"))


@click.command("uncordon", short_help="Place sessions on a worker again.")
@_worker
@connected
def uncordon(call: Call, *, names: tuple[str, ...]) -> int:
    """Place sessions on a worker again."""
    pairs = safety.workers(call, names)
    return _verb(call, pairs, "uncordon", {}, ("uncordoned", "was not cordoned"))


@click.command("extend", short_help="Give a session or a group more time.")
@click.argument("names", nargs=-1, metavar="SESSION|group/NAME...",
                shell_complete=completing.of_kind("session"))  # fmt: skip
@click.option("-l", "--selector", metavar="LABELS", help="All sessions with these labels.")
@click.option("--by", metavar="DURATION", help="So much longer, for example 30m.")
@click.option("--to", metavar="INSTANT", help="Until then, for example 2026-11-27T18:00:00Z.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before many are extended.")
@connected
def extend(
    call: Call,
    *,
    names: tuple[str, ...],
    selector: str | None,
    by: str | None,
    to: str | None,
    yes: bool,
) -> int:
    """Give sessions more time; refused when their worker has promised the time to others.

    With -l every session that is not over; those that are refused are named, the others extended.
    group/NAME is a group: all its seats that are not over, or none of them.
    """
    if (by is None) == (to is None):
        raise exits.usage("give exactly one of --by and --to", "For example --by 30m.")
    until = None if to is None else calls.ahead(calls.instant(to, "--to"), "--to", call.now())
    more = None if by is None else calls.seconds(by, "--by")
    meant = groups.named(names, selector)
    if meant:
        later = groups.wanted(until, timedelta(seconds=more or 0))
        return groups.change(call, meant, "extend", "end", later)
    pairs = safety.chosen_sessions(call, names, selector)
    if not pairs:
        call.out.note("No session that is not over has these labels.")
        return exits.OK
    if selector:
        call.confirm(safety.many(pairs, "extended"), yes=yes)

    def moved(target: targets.Target, obj: Any) -> Any:
        if safety.is_over(obj):
            raise safety.over(target, obj)
        wanted = until if more is None else _later(target, obj, more)
        return _extend(call, target, obj, wanted)

    answers, failed = safety.asked_of_each(pairs, moved)
    if call.out.structured and answers:
        kind = pairs[0][0].kind
        if len(pairs) == 1:
            call.out.show(kind, answers[0])
        else:
            call.out.objects([kind], answers, spaces=False)
    call.raise_last(failed)
    return exits.OK


def _extend(call: Call, target: targets.Target, obj: Any, wanted: datetime | None) -> Any:
    """Move one session's end, and say so."""
    body = {"end": None if wanted is None else clock.format_instant(wanted)}
    answer = call.api.post(
        f"{target.path}/extend",
        body,
        namespace=call.settings.namespace,
        uid=waiting.uid_of(obj),
    )
    end = paths.simple(answer, "spec.slot.end") or paths.simple(answer, "status.end")
    if call.out.quiet and not call.out.structured:
        output.say(target.name)
    elif not call.out.structured:
        output.say(f"{target} ends {human_units.when(end, call.now())}")
    return answer


def _later(target: targets.Target, obj: Any, seconds: float) -> datetime:
    """Return the session's present end and so much more."""
    end = human_units.instant(paths.simple(obj, "status.end") or paths.simple(obj, "spec.slot.end"))
    if end is None:
        cause = f"{target} has no end yet: its time counts from its start"
        hint = "There is nothing to extend yet."
        raise exits.Failure(exits.CONFLICT, cause, hint=hint, reason="NoSlot")
    return end + timedelta(seconds=seconds)


def _verb(call: Call, pairs: Pairs, verb: str, body: dict[str, Any], words: tuple[str, str]) -> int:
    """Ask for each; `words` are of what changed, and of what was so already."""
    said, already = words
    for target, before in pairs:
        after = call.api.post(f"{target.path}/{verb}", body, namespace=call.settings.namespace)
        deeds.tell(call, target, before, after, said=said, already=already)
    return exits.OK
