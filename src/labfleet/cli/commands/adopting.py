"""`adopt`, `garbage`, `discovery`, `resolve`: servers of others, leftovers, leaked licences."""

from __future__ import annotations

import re
from typing import Any

import click

from labfleet.cli.kit import completing, deeds, exits, human_units, output, safety, targets
from labfleet.cli.kit.call import Call, connected

_INSTANCE = re.compile(r"i-[0-9a-f]{8,17}")


@click.command("adopt", short_help="Manage a server that is there already.")
@click.argument("what", metavar="worker/NAME | INSTANCE | URL",
                shell_complete=completing.of_kind("worker"))  # fmt: skip
@click.option("--region", help="The region of the instance.")
@click.option("--template", help="Template with login, limits and licence of the worker.")
@click.option("--name", help="Name of the new worker; default: made from the server's.")
@click.option("--username", default="admin", show_default=True, help="With a URL: who logs in.")
@click.option("--password-env", metavar="VARIABLE",
              help="With a URL: variable of the labfleet server that holds the password.")  # fmt: skip
@click.option("--password-file", metavar="PATH",
              help="With a URL: file on the labfleet server that holds the password.")  # fmt: skip
@click.option("--fingerprint", help="With a URL: SHA-256 of its certificate; default: first seen.")
@connected
def adopt(
    call: Call,
    *,
    what: str,
    region: str | None,
    template: str | None,
    name: str | None,
    username: str,
    password_env: str | None,
    password_file: str | None,
    fingerprint: str | None,
) -> int:
    """Manage a server that is there already: from then on it hosts sessions.

    An instance gets our owner tags and is from then on stopped and ended like our own. A URL
    is a CML server that nothing here starts or stops.
    """
    space = call.settings.namespace
    body: dict[str, Any] = {"name": name, "template": template}
    before: Any = None
    if "://" in what:
        body["url"] = what
        if template is None or password_env is not None or password_file is not None:
            body["username"] = username
            body["password"] = _password(password_env, password_file)
            body["fingerprint"] = fingerprint
        answer = _sent(call, "/api/v1/fleet/adopt", body, space)
    elif _INSTANCE.fullmatch(what):
        if region is None or template is None:
            raise exits.usage("an instance needs --region and --template")
        body |= {"instanceId": what, "region": region}
        answer = _sent(call, "/api/v1/fleet/adopt", body, space)
    else:
        [(target, before)] = safety.workers(call, (what,))
        answer = _sent(call, f"{target.path}/adopt", {"template": template}, space)
    if call.out.structured or call.out.quiet:
        call.out.show(targets.kind_of("worker"), answer)
        return exits.OK
    made = answer["metadata"]["name"]
    if before is not None and deeds.unchanged(before, answer):
        output.say(f"worker/{made} is managed already; {deeds.NOTHING}")
        return exits.OK
    output.say(f"worker/{made} adopted")
    call.out.note(f"See how it goes: labfleet get worker/{made} --watch")
    return exits.OK


def _password(env: str | None, file: str | None) -> dict[str, str]:
    if (env is None) == (file is None):
        hint = "The password itself is never sent; the labfleet server reads it there."
        raise exits.usage("give --template, or one of --password-env and --password-file", hint)
    return {"env": env} if env is not None else {"file": str(file)}


def _sent(call: Call, path: str, body: dict[str, Any], space: str) -> Any:
    given = {key: value for key, value in body.items() if value is not None}
    return call.api.post(path, given, namespace=space)


@click.command("garbage", short_help="Show what seems left behind and what happens next.")
@connected
def garbage(call: Call) -> int:
    """Show machines, volumes, addresses and labs without owner, what happens next, and what was ended."""
    found = call.api.get("/api/v1/fleet/garbage")
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(found, "")
        return exits.OK
    for region, why in sorted(found.get("waits", {}).items()):
        call.out.note(f"{region}: {human_units.printable(str(why))}")
    if found.get("paused"):
        call.out.note(
            f"Nothing is ended while paused: {human_units.printable(str(found['paused']))}"
        )
    elif not found.get("enabled"):
        call.out.note("Garbage collection is switched off (settings garbage.enabled).")
    elif found.get("dryRun"):
        call.out.note("Dry run: nothing is ended (settings garbage.dryRun).")
    rows = [_suspect(call, each) for each in found.get("suspects", ())]
    if rows:
        call.out.table(["KIND", "ID", "NAME", "REGION", "AGE", "DUE", "WHY", "NEXT"], rows)
    else:
        call.out.note("Nothing seems left behind.")
    leaks = int(found.get("leaks") or 0)
    others = human_units.count(int(found.get("endedOutside") or 0), "machine")
    told = f"{human_units.count(int(found.get('ended') or 0), 'thing')} ended so far, {others} by others"
    call.out.note(f"{told}; {human_units.count(leaks, 'licence leak')} (labfleet get leaks).")
    return exits.OK


def _suspect(call: Call, row: dict[str, Any]) -> list[str]:
    each = row.get("suspect") or {}
    return [
        str(each.get("kind")),
        human_units.printable(str(each.get("id"))),
        human_units.printable(str(each.get("name") or "-")),
        human_units.printable(str(row.get("region") or "-")),
        call.out.span(float(row.get("ageSeconds") or 0)),
        call.out.when(each.get("due")),
        call.out.text(each.get("why")),
        call.out.text(each.get("next")),
    ]


@click.command("discovery", short_help="Show what discovery does and found.")
@connected
def discovery(call: Call) -> int:
    """Show which regions are scanned, what was found and imported, and the last errors."""
    found = call.api.get("/api/v1/fleet/discovery")
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(found, "")
        return exits.OK
    state = "on" if found.get("enabled") else "off (settings discovery.enabled)"
    if found.get("paused"):
        state = f"paused: {found['paused']}"
    output.say(f"Discovery is {human_units.printable(state)}")
    output.say(
        f"Scans {', '.join(found.get('regions') or ())} for images "
        f"{found.get('ami_name_pattern')} every {found.get('scan_interval_seconds')} s; "
        f"imports with template {found.get('template') or 'none: nothing is imported'}"
    )
    rows = [_scan(call, each) for each in found.get("scans") or ()]
    if rows:
        titles = ["REGION", "LAST SCAN", "FOUND", "IMPORTED", "OTHERS", "IGNORED", "ERROR"]
        call.out.table(titles, rows)
    return exits.OK


def _scan(call: Call, each: dict[str, Any]) -> list[str]:
    at = each.get("last_run_at")
    return [
        human_units.printable(str(each.get("region"))),
        "never" if at is None and call.out.format != "csv" else call.out.when(at),
        str(each.get("discovered")),
        str(each.get("imported")),
        str(each.get("foreign")),
        str(len(each.get("ignored") or ())),
        human_units.printable(str(each.get("last_error") or "-")),
    ]


@click.command("resolve", short_help="Close a licence leak once the licence was freed.")
@click.argument("name", metavar="LEAK", shell_complete=completing.of_kind("leak"))
@click.option("--note", "-m", default="", help="What was done, for the record.")
@connected
def resolve(call: Call, *, name: str, note: str) -> int:
    """Close a licence leak after somebody has freed the licence at Cisco."""
    target = targets.one(name, "leak")
    space = call.settings.namespace
    answer = call.api.post(f"{target.path}/resolve", {"note": note}, namespace=space)
    if call.out.structured:
        call.out.show(target.kind, answer)
    else:
        output.say(f"{target} resolved")
    return exits.OK
