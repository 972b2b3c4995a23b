"""`version` and `completion`."""

from __future__ import annotations

from importlib import metadata
from typing import Any

import click
from click import shell_completion

from labfleet.cli.kit import exits, output
from labfleet.cli.kit.call import Call, connected


@click.command("version", short_help="Show the versions of client and server.")
@click.option("--client", "only_client", is_flag=True, help="Ask no server.")
@connected
def version(call: Call, *, only_client: bool) -> int:
    """Show the versions of client and server; exit 9 when there is no server."""
    mine = metadata.version("labfleet")
    shown: dict[str, Any] = {"client": mine, "server": None}
    failure: exits.Failure | None = None
    if not only_client:
        call.api.attempts = 1
        call.api.seconds = 5.0
        try:
            answer = call.api.get("/api/v1/version")
            shown["server"] = answer.get("version") if isinstance(answer, dict) else None
        except exits.Failure as error:
            failure = error
    if only_client:
        shown.pop("server")
    text = "\n".join(f"{key}: {value or 'no answer'}" for key, value in shown.items())
    call.out.value(shown, text)
    if failure is not None:
        raise failure
    server = shown.get("server")
    if server and minor(str(server)) != minor(mine):
        call.out.note("Client and server are of different minor versions; update the older one.")
    return exits.OK


def minor(text: str) -> tuple[str, ...]:
    """Return the part of a version within which all releases are compatible."""
    return tuple(text.split(".")[:2])


@click.command("completion", short_help="Print a shell's completion script.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, *, shell: str) -> int:
    """Print a completion script; for bash: eval "$(labfleet completion bash)"."""
    known = shell_completion.get_completion_class(shell)
    if known is None:
        raise exits.usage(f"no completion for {shell}")
    root = ctx.find_root().command
    made = known(root, {}, "labfleet", "_LABFLEET_COMPLETE")
    # The class's own `source` starts bash to look at its version; the text alone is enough.
    output.say(made.source_template % made.source_vars())
    return exits.OK
