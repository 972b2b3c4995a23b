"""`plan`: what a class or an exam at one time would need of a pool, and cost; nothing is booked."""

from __future__ import annotations

import textwrap
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import click

from labfleet.cli.commands.cost import usd
from labfleet.cli.kit import call as calls
from labfleet.cli.kit import completing, exits, human_units, output, targets
from labfleet.cli.kit.call import Call, connected
from labfleet.kernel import clock
from labfleet.kernel.quantity import count
from labfleet.resources import zones

WIDTH, INDENT = 80, 12


@click.command("plan", short_help="Say what sessions at one time would need of a pool, and cost.")
@click.argument("args", nargs=-1, metavar="pool NAME", shell_complete=completing.of_kind("pool"))
@click.option("--at", required=True, metavar="DURATION|INSTANT",
              help="When they begin: 2027-03-01T09:00:00Z, or 14d (from now).")  # fmt: skip
@click.option("--sessions", required=True, type=click.IntRange(1, 5000), help="How many.")
@click.option("--definition", required=True, metavar="NAME", help="Definition that each runs.")
@click.option("--zone", metavar="ZONE", default="UTC", show_default=True,
              help="Zone of an instant without one, such as Europe/Warsaw.")  # fmt: skip
@click.option("--duration", default="", metavar="DURATION",
              help="How long each lasts. Default: as the definition says.")  # fmt: skip
@connected
def plan(
    call: Call,
    *,
    args: tuple[str, ...],
    at: str,
    sessions: int,
    definition: str,
    duration: str,
    zone: str,
) -> int:
    """Say whether so many sessions fit beside what is promised, what they need, and what that costs.

    Exits with 3 when not all of them fit. Times are shown in UTC.
    """
    name = _pool(args)
    minutes = None if not duration else max(1, int(calls.seconds(duration, "--duration") // 60))
    answer = call.api.get(
        f"/api/v1/pools/{quote(name, safe='')}/plan",
        namespace=call.settings.namespace, at=_instant(call, at, zone), sessions=sessions,
        definition=definition, minutes=minutes,
    )  # fmt: skip
    if call.out.structured or call.out.format in {"jsonpath", "csv"}:
        call.out.value(answer, "")
    else:
        _say(answer)
    return exits.OK if answer.get("fits") else exits.UNMET


def _pool(args: tuple[str, ...]) -> str:
    wanted = targets.parse(args) if args else []
    if len(wanted) != 1 or wanted[0].kind.name != "Pool":
        raise exits.usage("plan is of one pool", "Say labfleet plan pool NAME --at ... .")
    return str(wanted[0].name)


def _instant(call: Call, text: str, zone: str) -> str:
    if human_units.is_duration(text):
        return clock.format_instant(call.now() + timedelta(seconds=calls.seconds(text, "--at")))
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = calls.instant(text, "--at")
    if found.tzinfo is None:
        wall = None if zone == "UTC" else zones.at_wall(found, zone)
        if wall is None and zone != "UTC":
            hint = "Say for example --zone Europe/Warsaw."
            raise exits.usage(f"--zone: {zone[:60]!r} is no zone", hint)
        found = wall or found.replace(tzinfo=UTC)
    return clock.format_instant(found)


def _say(answer: dict[str, Any]) -> None:
    """Print the plan for people, a line for each thing that is asked first."""
    sessions, fit = answer["sessions"], answer["fit"]
    verdict = "fits" if answer["fits"] else f"does not fit: {fit} of {sessions} do"
    price = f"{usd(answer.get('usd'))} US dollars"
    if answer.get("usd") is None:
        price = f"price unknown for {answer.get('unpriced')}"
    needed, added, each = answer["needed"], answer["added"], answer["perWorker"]
    start, end = _minute(answer["workersStart"]), _minute(answer["workersEnd"])
    what = f"{count(sessions, 'session')} of {answer['definition']} in pool {answer['pool']}"
    lines = [
        ("Plan", f"{what}, {verdict}"),
        ("When", f"{_minute(answer['start'])} to {_minute(answer['end'])}"),
        (
            "Workers",
            f"{needed} needed, {added} of them for nothing else; {count(each, 'session')} on each",
        ),
        (
            "Pool",
            f"{count(answer['peak'], 'worker')} then in all, of {answer['maximum']} that it may have",
        ),
        ("Start them", f"{start}, free again {end}"),
        ("Cost", price),
    ]
    if answer.get("why"):
        lines.insert(1, ("Short", str(answer["why"])))
    if answer.get("lead"):
        lines.append(("Because", str(answer["lead"])))
    for number, way in enumerate(answer.get("cheaper") or []):
        told = f"{way['what']}: {count(way['workers'], 'worker')}, {usd(way.get('usd'))} US dollars"
        lines.append(("Cheaper" if not number else "", told))
    for title, text in lines:
        shown = human_units.printable(f"{title:<{INDENT - 1}} {text}")
        for line in textwrap.wrap(shown, WIDTH, subsequent_indent=" " * INDENT):
            output.say(line)


def _minute(text: Any) -> str:
    found = human_units.instant(text)
    return str(text) if found is None else clock.utc_text(found)
