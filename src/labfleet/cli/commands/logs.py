"""`logs`: the console text that was kept of a worker's failed boot."""

from __future__ import annotations

import click

from labfleet.cli.kit import completing, exits, human_units, output, targets
from labfleet.cli.kit.call import Call, connected


@click.command("logs", short_help="Show the console text kept of a worker's failed boot.")
@click.argument("name", metavar="WORKER", shell_complete=completing.of_kind("worker"))
@connected
def logs(call: Call, *, name: str) -> int:
    """Show the end of a worker's console text, as it was kept.

    It is fetched after a boot that failed and when a check of the provider fails, at most 4 KiB,
    with secrets masked as far as they are known. A live console is in the AWS console.
    """
    target = targets.one(name, "worker")
    answer = call.api.get(f"{target.path}/logs", namespace=call.settings.namespace)
    if not isinstance(answer, dict):
        raise call.api.unexpected("console text was expected")
    if call.out.structured or call.out.format == "jsonpath":
        call.out.value(answer, "")
        return exits.OK
    text = str(answer.get("text") or "")
    if not text:
        call.out.note(f"{target}: {answer.get('reason') or 'the console shows nothing'}")
        return exits.OK
    call.out.note(f"{target}: console of {answer.get('boot')}, read {answer.get('readAt')}")
    for line in text.splitlines():
        output.say(human_units.printable(line))
    return exits.OK
