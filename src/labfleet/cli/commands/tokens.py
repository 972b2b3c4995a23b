"""`token`: make, list and revoke API tokens. The text of a token is shown once, when made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from labfleet.cli.kit import call as calls
from labfleet.cli.kit import client, deeds, exits, human_units, output, settings
from labfleet.cli.kit.call import Call, connected
from labfleet.kernel import clock

PATH = "/api/v1/tokens"


@click.group("token", short_help="Make, list and revoke API tokens.")
def token() -> None:
    """Make, list and revoke API tokens."""


@token.command("create", short_help="Make a token and show it once.")
@click.option(
    "--role",
    type=click.Choice(["admin", "operator", "user", "controller", "runner"]),
    required=True,
    help="What it may do.",
)
@click.option("--owner", required=True, help="Whose it is; role user sees this owner's sessions.")
@click.option("--expires", metavar="DURATION|INSTANT",
              help="Until when: 30d, or 2026-12-31T18:00:00Z; default: never.")  # fmt: skip
@click.option("--write", "file", metavar="FILE", help="Write it here (mode 0600) and do not show.")
@connected
def create(call: Call, *, role: str, owner: str, expires: str | None, file: str | None) -> int:
    """Make a token. Only its hash is kept, so this is the only time that it is shown."""
    if file is not None and Path(file).exists():
        # The file may hold a valid token, perhaps the one that this call uses.
        raise exits.usage(f"{file} exists already", "Name another file, or remove it first.")
    body: dict[str, Any] = {"role": role, "owner": owner}
    if expires is not None:
        body["expires"] = clock.format_instant(calls.deadline(expires, "--expires", call.now()))
    made = call.api.post(PATH, body)
    text = str(made.get("token") or "") if isinstance(made, dict) else ""
    if not text:
        raise call.api.unexpected("a token was expected")
    if file is not None:
        try:
            settings.write_private(Path(file), text + "\n")
        except OSError as error:
            # The token exists but cannot be shown again: say how to revoke it.
            hint = f"The token was made but not kept: labfleet token revoke {made.get('id')}."
            raise exits.Failure(
                exits.ERROR, f"cannot write {file}: {error.strerror}", hint=hint
            ) from None
        made = {**made, "token": None, "file": file}
    call.out.value(made, str(made.get("id")) if file else text)
    call.out.note(
        f"Token {made.get('id')} of {owner} (role {role})"
        + (f" written to {file}." if file else "; it is not shown again.")
    )
    return exits.OK


@token.command("list", short_help="List tokens, without their secrets.")
@click.option("--no-headers", is_flag=True, help="Rows without headings.")
@connected
def listed(call: Call) -> int:
    """List tokens; their secrets cannot be shown."""
    page = call.api.get(PATH)
    items = page.get("items", []) if isinstance(page, dict) else page
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value({"kind": "List", "items": items}, "")
        return exits.OK
    if call.out.quiet:
        output.write("".join(f"{each.get('id')}\n" for each in items))
        return exits.OK
    csv = call.out.format == "csv"
    rows = [
        [
            human_units.plain(each.get("id")),
            human_units.plain(each.get("role")),
            human_units.plain(each.get("owner")),
            call.out.when(each.get("created")) if csv else call.out.age(each.get("created")),
            call.out.when(each.get("expires")),
            call.out.when(each.get("revoked")),
        ]
        for each in items
    ]
    made = "CREATED" if csv else "AGE"
    call.out.table(["ID", "ROLE", "OWNER", made, "EXPIRES", "REVOKED"], rows)
    return exits.OK


@token.command("revoke", short_help="End a token at once.")
@click.argument("names", nargs=-1, required=True, metavar="ID...")
@connected
def revoke(call: Call, *, names: tuple[str, ...]) -> int:
    """End tokens at once; what was revoked before is no error."""
    page = call.api.get(PATH)
    known = page.get("items", []) if isinstance(page, dict) else page
    over = {each.get("id") for each in known if each.get("revoked")}
    for name in names:
        answer = call.api.call("DELETE", f"{PATH}/{client.part(name)}").body
        if call.out.structured:
            call.out.value(answer or {"id": name, "revoked": True}, "")
        else:
            said = f"was revoked already; {deeds.NOTHING}" if name in over else "revoked"
            output.say(name if call.out.quiet else f"token/{name} {said}")
    return exits.OK
