"""`kept` and `continue`: what was configured in an ended session's lab, as a file or a new start."""

from __future__ import annotations

import os
from typing import Any

import click

from labfleet.cli.commands import waiting
from labfleet.cli.kit import completing, exits, human_units, output, paths, safety, targets
from labfleet.cli.kit.call import Call, connected

_session = click.argument("name", metavar="SESSION", shell_complete=completing.of_kind("session"))


@click.command("kept", short_help="Read or delete what was kept of an ended session's lab.")
@_session
@click.option("--write", "file", metavar="FILE", type=click.Path(dir_okay=False),
              help="Into this new file, readable by you alone; default: to stdout.")  # fmt: skip
@click.option("--delete", "gone", is_flag=True, help="Delete it before its time.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before it is deleted.")
@connected
def kept(call: Call, *, name: str, file: str | None, gone: bool, yes: bool) -> int:
    """Write the YAML of an ended session's lab, with what was configured in its nodes.

    It may hold passwords. CML imports it as any lab. `labfleet continue` begins a new session with it,
    where the definition allows that.
    """
    if gone and file is not None:
        raise exits.usage("give --write or --delete, not both", "Write it first, then delete it.")
    target = targets.one(name, "session")
    path, space = f"{target.path}/kept-lab", targets.space(call, target)
    if gone:
        obj = targets.need(call, target)
        call.confirm(f"What was kept of {target} would be deleted for good.", yes=yes)
        query = {"namespace": space, "uid": waiting.uid_of(obj)}
        answer = call.api.call("DELETE", path, query=query).body
        call.out.value(answer, f"what was kept of {target} is deleted")
        return exits.OK
    found = call.api.get(path, namespace=space)
    if not isinstance(found, bytes):
        raise call.api.unexpected("a lab's YAML was expected")
    if file is None:
        output.write(found.decode("utf-8", "replace"))
        return exits.OK
    _write(file, found)
    call.out.note(f"The lab of {target} is written to {file}; it may hold passwords.")
    return exits.OK


def _write(file: str, text: bytes) -> None:
    """Write a new file that nobody else may read."""
    try:
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise exits.usage(
            f"{file} exists already", "Name another file, or remove it first."
        ) from None
    except OSError as error:
        raise exits.Failure(exits.ERROR, f"cannot write {file}: {error.strerror}") from None
    with os.fdopen(opened, "wb") as target:
        target.write(text)


@click.command("continue", short_help="Begin a new session with what was kept of an ended one.")
@_session
@click.option("--as", "new", metavar="NAME", help="Name of the new session. Default: SESSION-next.")
@click.option("--definition", metavar="NAME", help="Another version of its lab. Default: the same.")
@click.option("--minutes", metavar="N", type=click.IntRange(1, 10_080),
              help="How long it lasts. Default: the definition's length.")  # fmt: skip
@connected
def go_on(
    call: Call, *, name: str, new: str | None, definition: str | None, minutes: int | None
) -> int:
    """Begin a new session whose nodes have what was configured in an ended one, as soon as there is room.

    For a slot at another time, apply a session with `continueFrom: SESSION`.
    """
    target = targets.one(name, "session")
    space = targets.space(call, target)
    before = targets.need(call, target)
    if not safety.is_over(before):
        said = f"{target} is {paths.simple(before, 'status.phase')}"
        raise exits.Failure(exits.CONFLICT, said, hint="Its lab is kept at its end.",
                            reason="NotOver")  # fmt: skip
    spec: dict[str, Any] = {
        "definition": definition or paths.simple(before, "spec.definition"),
        "continueFrom": target.name,
    }
    owner = paths.simple(before, "spec.owner")
    if owner:
        spec["owner"] = owner
    if minutes is not None:
        spec["durationMinutes"] = minutes
    values = paths.simple(before, "spec.environment")
    if values:
        spec["environment"] = values
    body = {"metadata": {"name": new or f"{target.name}-next", "namespace": space}, "spec": spec}
    made = call.api.post("/api/v1/sessions", body, namespace=space)
    if call.out.structured:
        call.out.show(target.kind, made)
    elif call.out.quiet:
        output.say(output.name_of(made))
    else:
        until = human_units.when(paths.simple(before, "status.kept.until"), call.now())
        output.say(
            f"session/{output.name_of(made)} goes on with what was kept of {target} (until {until})"
        )
    return exits.OK
