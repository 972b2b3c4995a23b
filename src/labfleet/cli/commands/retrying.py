"""`retry`: try sessions again that failed or expired, each as a new session."""

from __future__ import annotations

from typing import Any

import click

from labfleet.cli.commands import waiting
from labfleet.cli.kit import call as calls
from labfleet.cli.kit import completing, exits, human_units, output, paths, safety, targets
from labfleet.cli.kit.call import Call, connected
from labfleet.kernel import clock
from labfleet.resources.session import RETRIABLE
from labfleet.resources.session_conditions import PhaseReason


@click.command("retry", short_help="Try a session again that failed or expired.")
@click.argument("names", nargs=-1, metavar="SESSION...",
                shell_complete=completing.of_kind("session"))  # fmt: skip
@click.option("-l", "--selector", metavar="LABELS", help="All failed sessions with these labels.")
@click.option("--now", "now", is_flag=True, help="Without a slot: as soon as there is room.")
@click.option("--start", metavar="INSTANT", help="With a new slot from then on.")
@click.option("--end", metavar="INSTANT", help="Until when; default: the definition's length.")
@click.option("--reason", "-m", default="", help="Why, for the record.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before many are tried again.")
@click.option("--dry-run", type=click.Choice(["client"]), help="Only say what would be tried.")
@connected
def retry(
    call: Call,
    *,
    names: tuple[str, ...],
    selector: str | None,
    now: bool,
    start: str | None,
    end: str | None,
    reason: str,
    yes: bool,
    dry_run: str | None,
) -> int:
    """Try sessions again that failed or expired: each as a new session that links to the old one.

    A session has one next attempt; asking again names it. It gets the old slot, or what is left of
    it. With -l those that were tried again already are left out.
    """
    if now and (start or end):
        raise exits.usage("give --now, or a slot by --start and --end")
    slot = _slot(start, end, now=now)
    if end is not None:
        calls.ahead(calls.instant(end, "--end"), "--end", call.now())
    pairs = safety.chosen_sessions(call, names, selector, meant=_left)
    if not pairs:
        call.out.note("No session with these labels failed and was not tried again.")
        return exits.OK
    if dry_run:
        for target, obj in pairs:
            output.say(f"{target} {_would(obj)} (dry run)")
        return exits.OK
    if selector:
        said = human_units.count(len(pairs), "session")
        call.confirm(f"{said} would be tried again.", yes=yes)
    body = {"reason": reason, "slot": slot}
    answers, failed = safety.asked_of_each(
        pairs, lambda target, obj: _retry(call, target, obj, body)
    )
    if call.out.structured and answers:
        many = {"kind": "List", "items": answers}
        call.out.value(answers[0] if len(pairs) == 1 else many, "")
    call.raise_last(failed)
    return exits.OK


def _left(obj: Any) -> bool:
    """Tell whether it failed and nobody has tried it again."""
    return _failed(obj) and _next(obj) is None


def _failed(obj: Any) -> bool:
    return paths.simple(obj, "status.phase") in RETRIABLE


def _next(obj: Any) -> Any:
    return paths.simple(obj, "status.retriedAs.name")


def _would(obj: Any) -> str:
    if _next(obj) is not None:
        return f"was tried again as session/{_next(obj)}"
    if not _failed(obj):
        return f"is {paths.simple(obj, 'status.phase')} and would be refused"
    if paths.simple(obj, "status.reason") == PhaseReason.NEVER_FITS:
        return "would be tried again, and fail again unless its definition or a template changed"
    return "would be tried again"


def _retry(call: Call, target: targets.Target, obj: Any, body: dict[str, Any]) -> Any:
    """Ask for one next attempt, and say which it is."""
    answer = call.api.post(
        f"{target.path}/retry", body, namespace=call.settings.namespace, uid=waiting.uid_of(obj)
    )
    name, before = output.name_of(answer), _next(obj) == output.name_of(answer)
    if call.out.quiet and not call.out.structured:
        output.say(name)
    elif not call.out.structured:
        phase = paths.simple(answer, "status.phase")
        said = f"was tried again before, as session/{name} ({phase})"
        output.say(f"{target} {said if before else f'is tried again as session/{name}'}")
    return answer


def _slot(start: str | None, end: str | None, *, now: bool) -> dict[str, Any] | None:
    """Return the new attempt's slot; None leaves it to the server: the old one, or its rest."""
    if not (now or start or end):
        return None
    return {"start": _instant("--start", start), "end": _instant("--end", end)}


def _instant(flag: str, text: str | None) -> str | None:
    if text is None:
        return None
    return clock.format_instant(calls.instant(text, flag))
