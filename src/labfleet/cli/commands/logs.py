"""`logs` and `console`: the console text of a worker's machine, as it was kept or as it is now."""

from __future__ import annotations

from typing import Any

import click

from labfleet.cli.kit import call as calls
from labfleet.cli.kit import completing, exits, human_units, output, paths, targets
from labfleet.cli.kit.call import Call, connected
from labfleet.kernel import backoff

_worker = click.argument("name", metavar="WORKER", shell_complete=completing.of_kind("worker"))


@click.command("logs", short_help="Show the console text kept of a worker.")
@_worker
@connected
def logs(call: Call, *, name: str) -> int:
    """Show the end of a worker's console text, as it was kept.

    It is fetched after a boot that failed, when a check of the provider fails, and when somebody
    asks (`console`); at most 4 KiB, with secrets masked as far as they are known.
    """
    target = targets.one(name, "worker")
    return _show(call, target, _kept(call, target))


@click.command("console", short_help="Read the console text of a worker's machine.")
@_worker
@click.option("--timeout", default="2m", show_default=True, help="Give up after (exit 8).")
@connected
def console(call: Call, *, name: str, timeout: str) -> int:
    """Read the end of the console text that the provider has of a worker's machine now.

    The worker's controller reads it, so this waits for its next look. EC2 renews the text some
    minutes after a boot or a stop. People's own servers have none.
    """
    target = targets.one(name, "worker")
    deadline = call.environment.monotonic() + calls.seconds(timeout, "--timeout")
    asked = call.api.post(f"{target.path}/console", {}, namespace=call.settings.namespace)
    since, looks = human_units.instant(paths.simple(asked, "spec.consoleAsked")), 0
    while True:
        found = _kept(call, target)
        answered = human_units.instant(found.get("answered"))
        if since is not None and answered is not None and answered >= since:
            break
        left = deadline - call.environment.monotonic()
        if left <= 0:
            hint = f"labfleet logs {target.name} shows it once it was read."
            raise exits.Failure(exits.TIMEOUT, f"{target}: not read in time", hint=hint)
        looks += 1
        call.environment.sleep(min(left, backoff.delay(looks, 1.0, base=0.2, limit=2.0)))
    if not found.get("text") and found.get("reason"):
        raise exits.Failure(exits.UNMET, human_units.printable(f"{target}: {found['reason']}"))
    return _show(call, target, found)


def _kept(call: Call, target: targets.Target) -> dict[str, Any]:
    answer = call.api.get(f"{target.path}/logs", namespace=call.settings.namespace)
    if not isinstance(answer, dict):
        raise call.api.unexpected("console text was expected")
    return answer


def _show(call: Call, target: targets.Target, answer: dict[str, Any]) -> int:
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
