"""Verbs on a session's time beside `extend`: shorten, move, check-in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import click

from labfleet.cli.commands import groups, waiting
from labfleet.cli.kit import call as calls
from labfleet.cli.kit import completing, exits, human_units, output, paths, safety, targets
from labfleet.cli.kit.call import Call, connected
from labfleet.kernel import clock

Pairs = Sequence[tuple[targets.Target, Any]]
_sessions = click.argument("names", nargs=-1, metavar="SESSION...",
                           shell_complete=completing.of_kind("session"))  # fmt: skip
_or_groups = click.argument("names", nargs=-1, metavar="SESSION|group/NAME...",
                            shell_complete=completing.of_kind("session"))  # fmt: skip
_selector = click.option(
    "-l", "--selector", metavar="LABELS", help="All sessions with these labels."
)
_yes = click.option("-y", "--yes", is_flag=True, help="Do not ask before many are changed.")


@click.command("shorten", short_help="End a session or a group earlier; what it frees is free.")
@_or_groups
@_selector
@click.option("--by", metavar="DURATION", help="So much earlier, for example 30m.")
@click.option("--to", metavar="INSTANT", help="At that time, for example 2026-11-27T18:00:00Z.")
@_yes
@connected
def shorten(
    call: Call,
    *,
    names: tuple[str, ...],
    selector: str | None,
    by: str | None,
    to: str | None,
    yes: bool,
) -> int:
    """Give sessions an earlier end; the time after it is free for others at once.

    To end one now: labfleet cancel. group/NAME is a group: all its seats that are not over.
    """
    if (by is None) == (to is None):
        raise exits.usage("give exactly one of --by and --to", "For example --by 30m.")
    until = None if to is None else calls.ahead(calls.instant(to, "--to"), "--to", call.now())
    less = None if by is None else calls.seconds(by, "--by")
    meant = groups.named(names, selector)
    if meant:
        earlier = groups.wanted(until, -timedelta(seconds=less or 0))
        return groups.change(call, meant, "shorten", "end", earlier)

    def shortened(target: targets.Target, obj: Any) -> Any:
        end = until
        if less is not None:
            end = _time_of(target, obj, "end") - timedelta(seconds=less)
        return _ask(call, target, obj, "shorten", {"end": end})

    return _each(call, names, selector, yes=yes, deed="shortened", ask=shortened)


@click.command("move", short_help="Move a session's slot, or a group, to another start.")
@_or_groups
@_selector
@click.option("--to", metavar="INSTANT", help="New start, for example 2026-11-27T18:00:00Z.")
@click.option("--later", metavar="DURATION", help="So much later, for example 1h.")
@click.option("--earlier", metavar="DURATION", help="So much earlier.")
@_yes
@connected
def move(
    call: Call,
    *,
    names: tuple[str, ...],
    selector: str | None,
    to: str | None,
    later: str | None,
    earlier: str | None,
    yes: bool,
) -> int:
    """Move slots that have not begun; each stays as long as it is.

    Where the new slot does not fit, the nearest that do are named, and the old one is kept.
    group/NAME is a group: all its seats in one step, or none of them.
    """
    if sum(each is not None for each in (to, later, earlier)) != 1:
        raise exits.usage(
            "give exactly one of --to, --later and --earlier", "For example --later 1h."
        )
    until = None if to is None else calls.ahead(calls.instant(to, "--to"), "--to", call.now())
    span = timedelta()
    if later is not None:
        span = timedelta(seconds=calls.seconds(later, "--later"))
    if earlier is not None:
        span = -timedelta(seconds=calls.seconds(earlier, "--earlier"))
    meant = groups.named(names, selector)
    if meant:
        return groups.change(call, meant, "move", "start", groups.wanted(until, span))
    how = f"--to {to}" if to else f"--later {later}" if later else f"--earlier {earlier}"
    groups.refuse_seats(call, selector, how)

    def moved(target: targets.Target, obj: Any) -> Any:
        start = until or _time_of(target, obj, "start") + span
        answer = _ask(call, target, obj, "move", {"start": start})
        left.add(str(paths.simple(obj, "status.seat.group") or ""))
        return answer

    left = set[str]()
    code = _each(call, names, selector, yes=yes, deed="moved", ask=moved)
    for each in sorted(left - {""}):
        call.out.note(
            human_units.printable(
                f"group/{each} keeps its own start: labfleet explain group/{each}"
            )
        )
    return code


@click.command("check-in", short_help="Say that a session's person has come.")
@_sessions
@_selector
@_yes
@connected
def check_in(call: Call, *, names: tuple[str, ...], selector: str | None, yes: bool) -> int:
    """Say that the people of sessions have come.

    Where a definition sets noShowMinutes, a session to which nobody checked in is released then.
    """

    def came(target: targets.Target, obj: Any) -> Any:
        return _ask(call, target, obj, "check-in", {})

    return _each(call, names, selector, yes=yes, deed="checked in to", ask=came)


def _each(
    call: Call,
    names: tuple[str, ...],
    selector: str | None,
    *,
    yes: bool,
    deed: str,
    ask: Callable[[targets.Target, Any], Any],
) -> int:
    """Change each session that is named or chosen; those that are refused are named."""
    pairs = safety.chosen_sessions(call, names, selector)
    if not pairs:
        call.out.note("No session that is not over has these labels.")
        return exits.OK
    if selector:
        call.confirm(safety.many(pairs, deed), yes=yes)

    def asked(target: targets.Target, obj: Any) -> Any:
        if safety.is_over(obj):
            raise safety.over(target, obj)
        return ask(target, obj)

    answers, failed = safety.asked_of_each(pairs, asked)
    if call.out.structured and answers:
        kind = pairs[0][0].kind
        if len(pairs) == 1:
            call.out.show(kind, answers[0])
        else:
            call.out.objects([kind], answers, spaces=False)
    call.raise_last(failed)
    return exits.OK


def _ask(
    call: Call, target: targets.Target, obj: Any, verb: str, times: dict[str, datetime | None]
) -> Any:
    """Ask for one session's other time, and say what it is now."""
    body = {field: None if at is None else clock.format_instant(at) for field, at in times.items()}
    answer = call.api.post(
        f"{target.path}/{verb}",
        body,
        namespace=call.settings.namespace,
        uid=waiting.uid_of(obj),
    )
    if call.out.quiet and not call.out.structured:
        output.say(target.name)
    elif not call.out.structured:
        start, end = (paths.simple(answer, f"status.{each}") for each in ("start", "end"))
        said = f"ends {human_units.when(end, call.now())}"
        if verb == "move":
            said = f"starts {human_units.when(start, call.now())} and {said}"
        if verb == "check-in":
            said = f"is checked in; it {said}"
        output.say(f"{target} {said}")
    return answer


def _time_of(target: targets.Target, obj: Any, field: str) -> datetime:
    """Return the session's present start or end."""
    known = paths.simple(obj, f"status.{field}") or paths.simple(obj, f"spec.slot.{field}")
    at = human_units.instant(known)
    if at is None:
        cause = f"{target} has no {field} yet: its time counts from when it runs"
        raise exits.Failure(exits.CONFLICT, cause, hint="There is nothing to change yet.",
                            reason="NoSlot")  # fmt: skip
    return at
