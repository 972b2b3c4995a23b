"""`calendar-file` and `calendar-feed`: slots in a calendar program, as a file or by an address."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from labfleet.cli.kit import exits, output
from labfleet.cli.kit.call import Call, connected

FILE, FEED = "/api/v1/calendar.ics", "/api/v1/calendar-feed"


@click.command("calendar-file", short_help="Write sessions as a calendar file (ICS).")
@click.option("-l", "--selector", metavar="LABELS", help="Only sessions with these labels.")
@click.option("--owner", metavar="NAME", help="Only this owner's sessions.")
@click.option("--write", "file", metavar="FILE", type=click.Path(dir_okay=False),
              help="Into this new file; default: to stdout.")  # fmt: skip
@connected
def calendar_file(call: Call, *, selector: str | None, owner: str | None, file: str | None) -> int:
    """Write the sessions that you may see as a calendar file, for any calendar program.

    It is of this moment. An address that a calendar program reads again by itself is made by
    `labfleet calendar-feed create`.
    """
    found = call.api.get(
        FILE, namespace=call.settings.namespace, labelSelector=selector, owner=owner
    )
    if not isinstance(found, bytes):
        raise call.api.unexpected("a calendar file was expected")
    if file is None:
        output.write(found.decode("utf-8", "replace"))
        return exits.OK
    try:
        with Path(file).open("xb") as target:
            target.write(found)
    except FileExistsError:
        raise exits.usage(
            f"{file} exists already", "Name another file, or remove it first."
        ) from None
    except OSError as error:
        raise exits.Failure(exits.ERROR, f"cannot write {file}: {error.strerror}") from None
    many = found.count(b"BEGIN:VEVENT")
    call.out.note(f"{many} session{'' if many == 1 else 's'} written to {file}.")
    return exits.OK


@click.group("calendar-feed", short_help="Make, show or end the address of your calendar.")
def calendar_feed() -> None:
    """Make, show or end the address from which a calendar program reads your own sessions.

    Whoever knows the address reads when your labs are, and nothing else. There is one; it ends when
    another one is made, when you end it, and after a year.
    """


@calendar_feed.command("create", short_help="Make a new address and show it once.")
@connected
def create(call: Call) -> int:
    """Make a new address for your calendar; the one before it ends at once."""
    made = _feed(call, call.api.post(FEED, None))
    url = str(made.get("url") or "")
    if url.startswith("/"):
        url = call.settings.url.rstrip("/") + url
    call.out.value({**made, "url": url}, url)
    call.out.note("It is not shown again. Whoever has it reads when your labs are.")
    return exits.OK


@calendar_feed.command("show", short_help="Show whether there is an address, never which.")
@connected
def show(call: Call) -> int:
    """Show since when and until when your calendar has an address; exit 4 without one."""
    found = _feed(call, call.api.get(FEED))
    until = call.out.when(found.get("expires"))
    said = f"open until {until}" if not found.get("revoked") else "ended"
    call.out.value(found, f"The calendar feed of {found.get('owner')} is {said}.")
    return exits.OK


@calendar_feed.command("end", short_help="End the address at once.")
@connected
def end(call: Call) -> int:
    """End the address: calendar programs that have it read nothing more."""
    found = _feed(call, call.api.call("DELETE", FEED).body)
    call.out.value(found, f"The calendar feed of {found.get('owner')} is ended.")
    return exits.OK


def _feed(call: Call, answer: Any) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise call.api.unexpected("a calendar feed was expected")
    return answer
