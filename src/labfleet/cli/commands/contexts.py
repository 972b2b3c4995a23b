"""`context`: named servers in the configuration file. Tokens are never shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from labfleet.cli.kit import deeds, exits, output, settings
from labfleet.cli.kit.call import Call, connected


@click.group("context", short_help="Choose among servers.")
def context() -> None:
    """Choose among servers; kept in the configuration file, readable by its owner only."""


@context.command("list", short_help="List contexts; * marks the one in use.")
@click.option("--no-headers", is_flag=True, help="Rows without headings.")
@connected
def listed(call: Call) -> int:
    """List contexts; * marks the one in use."""
    config = settings.read_config(call.environment)
    items = [
        {
            "name": name,
            "current": name == config["current"],
            "url": entry.get("url"),
            "namespace": entry.get("namespace"),
            "output": entry.get("output"),
            "token_file": entry.get("tokenFile"),
            "ca_file": entry.get("caFile"),
            "has_token": bool(entry.get("token") or entry.get("tokenFile")),
        }
        for name, entry in sorted(config["contexts"].items())
    ]
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value({"kind": "List", "items": items}, "")
        return exits.OK
    if call.out.quiet:
        output.write("".join(f"{each['name']}\n" for each in items))
        return exits.OK
    rows = [
        [
            "*" if each["current"] else "",
            str(each["name"]),
            str(each["url"] or settings.DEFAULT_URL),
            str(each["namespace"] or "default"),
            str(each["token_file"] or ("(kept here)" if each["has_token"] else "-")),
        ]
        for each in items
    ]
    call.out.table(["CURRENT", "NAME", "URL", "NAMESPACE", "TOKEN FILE"], rows)
    if not items:
        call.out.note("No contexts; make one with labfleet context set NAME --url URL.")
    return exits.OK


@context.command("use", short_help="Use this context from now on.")
@click.argument("name")
@click.pass_context
def use(ctx: click.Context, *, name: str) -> int:
    """Use this context from now on."""
    environment = ctx.find_root().obj
    config = settings.read_config(environment)
    if name not in config["contexts"]:
        known = ", ".join(sorted(config["contexts"])) or "none"
        raise exits.Failure(
            exits.NOT_FOUND, f"there is no context {name!r}", hint=f"Known contexts: {known}."
        )
    if config["current"] == name:
        output.say(f"context {name} is in use already; {deeds.NOTHING}")
        return exits.OK
    settings.write_config(environment, {**config, "current": name})
    output.say(f"context {name} in use")
    return exits.OK


@context.command("set", short_help="Make or change a context.")
@click.argument("name")
@click.option("--url", help="Server.")
@click.option("--token-file", help="File that holds the bearer token.")
@click.option("--ca-file", help="Certificate authority for https.")
@click.option("-n", "--namespace", help="Namespace.")
@click.option("-o", "--output", "format_", help="Output format.")
@click.pass_context
def set_(ctx: click.Context, /, *, name: str, **given: Any) -> int:
    """Make or change a context; only what is given changes. The first one is used at once."""
    environment = ctx.find_root().obj
    config = settings.read_config(environment)
    entry = dict(config["contexts"].get(name) or {})
    for option, key in (("url", "url"), ("namespace", "namespace"), ("format_", "output")):
        if given[option]:
            entry[key] = given[option]
    for option, key in (("token_file", "tokenFile"), ("ca_file", "caFile")):
        if given[option]:
            # Stored as an absolute path, because labfleet may be run from another folder later.
            entry[key] = str(Path(given[option]).expanduser().absolute())
    contexts = {**config["contexts"], name: entry}
    path = settings.write_config(
        environment, {"current": config["current"] or name, "contexts": contexts}
    )
    output.say(f"context {name} kept in {path}")
    return exits.OK


@context.command("delete", short_help="Forget a context.")
@click.argument("name")
@click.pass_context
def delete(ctx: click.Context, *, name: str) -> int:
    """Forget a context; its server and its token file stay."""
    environment = ctx.find_root().obj
    config = settings.read_config(environment)
    if name not in config["contexts"]:
        raise exits.Failure(exits.NOT_FOUND, f"there is no context {name!r}")
    contexts = {key: entry for key, entry in config["contexts"].items() if key != name}
    current = None if config["current"] == name else config["current"]
    settings.write_config(environment, {"current": current, "contexts": contexts})
    output.say(f"context {name} forgotten")
    return exits.OK
