"""`hand-over` and `take`: a session is given to another person."""

from __future__ import annotations

from typing import Any

import click

from labfleet.cli.commands import waiting
from labfleet.cli.kit import completing, exits, human_units, output, paths, safety, targets
from labfleet.cli.kit.call import Call, connected

_email = click.option("--email", metavar="ADDRESS", help="E-mail address of who gets it.")
_values = click.option(
    "--set", "values", multiple=True, metavar="NAME=VALUE", help="A value of a variable for them."
)


@click.command("hand-over", short_help="Give a session to another person.")
@click.argument("name", metavar="SESSION", shell_complete=completing.of_kind("session"))
@click.option("--to", "person", required=True, metavar="PERSON",
              help="Who gets it, by the name of their token; your own takes an offer back.")  # fmt: skip
@_email
@_values
@click.option("-y", "--yes", is_flag=True, help="Do not ask, even when its lab is in use.")
@connected
def hand_over(
    call: Call, *, name: str, person: str, email: str | None, values: tuple[str, ...], yes: bool
) -> int:
    """Give a session to another person.

    Your own is offered: it is theirs once they take it. Operators give at once, and so does whoever
    booked a group with its seats. E-mail address, values and check-in of before do not pass on.
    """
    ((target, obj),) = safety.each_target(call, [targets.one(name, "session")], missing_ok=False)
    safety.ask(call, "Handing over", target, obj, yes=yes, effect="concerns")
    body = {"to": person, **_said(email, values)}
    answer = _post(call, target, "hand-over", body, waiting.uid_of(obj))
    if call.out.structured:
        call.out.show(target.kind, answer)
    elif call.out.quiet:
        output.say(target.name)
    else:
        output.say(human_units.printable(f"{target} {_told(answer, person)}"))
    return exits.OK


@click.command("take", short_help="Take a session that somebody offers to you.")
@click.argument("name", metavar="SESSION")
@_email
@_values
@connected
def take(call: Call, *, name: str, email: str | None, values: tuple[str, ...]) -> int:
    """Take a session that its person offers to you: it is yours, and counts for you, from then on."""
    target = targets.one(name, "session")
    answer = _post(call, target, "take", _said(email, values), None)
    if call.out.structured:
        call.out.show(target.kind, answer)
    elif call.out.quiet:
        output.say(target.name)
    else:
        end = paths.simple(answer, "status.end")
        until = "" if end is None else f"; it ends {human_units.when(end, call.now())}"
        output.say(human_units.printable(f"{target} is yours{until}"))
    return exits.OK


def _post(
    call: Call, target: targets.Target, verb: str, body: dict[str, Any], uid: str | None
) -> Any:
    return call.api.post(
        f"{target.path}/{verb}", body, namespace=targets.space(call, target), uid=uid
    )


def _said(email: str | None, values: tuple[str, ...]) -> dict[str, Any]:
    """Return what was said of the new person, as the API spells it."""
    made: dict[str, Any] = {} if email is None else {"studentEmail": email}
    found = dict[str, str]()
    for each in values:
        variable, equals, value = each.partition("=")
        if not equals or not variable:
            raise exits.usage(f"--set {each!r} is no NAME=VALUE")
        found[variable] = value
    return {**made, "environment": found} if found else made


def _told(answer: Any, person: str) -> str:
    """Return what became of it, in a sentence."""
    if paths.simple(answer, "status.offer.to") == person:
        return f"is offered to {person}, who takes it with: labfleet take {output.name_of(answer)}"
    if paths.simple(answer, "status.handedOver") is None:
        return "is offered to nobody"
    return f"is {person}'s now"
