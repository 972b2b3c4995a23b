"""`apply` and `diff`: manifests against the server's state.

Create or merge: what a manifest names is set, what it leaves out stays as the server has it. Both
ask the server's admission, so `diff` and a dry run say what `apply` will say.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import click
import msgspec

from labfleet.cli.commands import waiting
from labfleet.cli.kit import call as calls
from labfleet.cli.kit import exits, manifest_sending, output, paths, safety, sources
from labfleet.cli.kit.call import Call, connected
from labfleet.cli.kit.manifest_sending import Outcome
from labfleet.kernel import clock
from labfleet.resources import yamltext
from labfleet.resources.kinds import Kind
from labfleet.resources.session import RETRIABLE

_STOPS = frozenset({exits.UNREACHABLE, exits.DENIED})


@click.command("apply", short_help="Create or change objects from manifests.")
@click.option("-f", "--filename", "files", multiple=True, required=True, metavar="FILE",
              help="File, folder or - for stdin; may be repeated.")  # fmt: skip
@click.option("-R", "--recursive", is_flag=True, help="Folders within folders too.")
@click.option("--dry-run", type=click.Choice(["client", "server"]),
              help="Only check: client sends nothing, server says what apply would say.")  # fmt: skip
@click.option("--when-full", type=click.Choice(["refuse", "wait"]),
              help="New sessions whose slot has no room: refuse them (the default), or let them wait "
              "for it. What a manifest says itself stays.")  # fmt: skip
@click.option("--wait", "wait", is_flag=True, help="Wait until each is ready.")
@click.option("--timeout", default="20m", show_default=True, help="With --wait: exit 8 after.")
@connected
def apply(
    call: Call,
    *,
    files: tuple[str, ...],
    recursive: bool,
    dry_run: str | None,
    when_full: str | None,
    wait: bool,
    timeout: str,
) -> int:
    """Create or change objects from manifests.

    The server judges all of them before it changes anything. Ctrl-C while waiting ends only the
    waiting.
    """
    seconds = calls.seconds(timeout, "--timeout")
    found = sources.in_order(sources.load(files, recursive=recursive))
    _tell_dropped(call, found)
    if when_full is not None:
        found = [_when_full(each, when_full) for each in found]
    done: list[Outcome] = []
    failed: list[exits.Failure] = []
    try:
        for outcome in _outcomes(call, found, dry_run):
            if outcome.failure is None:
                done.append(outcome)
                _tell(call, outcome, dry_run)
                continue
            failed.append(outcome.failure)
            if outcome.failure.code in _STOPS:
                break
    except exits.Failure as failure:
        failed.append(failure)
    if call.out.structured:
        _structured(call, done)
    call.raise_last(failed)
    if wait and not dry_run:
        return _wait(call, done, seconds)
    return exits.OK


def _when_full(source: sources.Source, said: str) -> sources.Source:
    """Return a session with what becomes of its slot without room, unless its manifest says so."""
    spec = source.raw.get("spec") or {}
    if source.target.kind.name != "Session" or "whenFull" in spec:
        return source
    return replace(source, raw={**source.raw, "spec": {**spec, "whenFull": said}})


def _outcomes(call: Call, found: list[sources.Source], dry_run: str | None) -> Iterator[Outcome]:
    if dry_run == "client":
        return (Outcome(each, "valid", each.raw) for each in found)
    if dry_run == "server":
        return manifest_sending.rehearsed(call, found)
    return manifest_sending.applied(call, found)


def _tell_dropped(call: Call, found: list[sources.Source]) -> None:
    """Say what was written by hand and not sent; of what `get` printed nobody asks."""
    for each in found:
        dropped = each.written.dropped
        if dropped and not {"metadata.uid", "metadata.resourceVersion"} & {*dropped}:
            call.out.note(
                f"{each.where}: not sent, because only the server sets it: {', '.join(dropped)}"
            )


def _comparable(kind: Kind, obj: Any) -> dict[str, Any]:
    """Return the fields that people set in one spelling: `+01:00` as `Z`, 1.0 as 1.

    An object of a newer server may not fit our types; then it is compared as it is.
    """
    shown = {
        "labels": obj["metadata"].get("labels") or {},
        "annotations": obj["metadata"].get("annotations") or {},
        "spec": obj.get("spec") or {},
    }
    fields = {each.name: each.type for each in msgspec.structs.fields(kind.type)}
    try:
        typed = msgspec.convert(shown["spec"], fields["spec"])
    except (msgspec.ValidationError, TypeError):
        return shown
    return {**shown, "spec": _spelt(msgspec.to_builtins(typed, builtin_types=(datetime,)))}


def _spelt(value: Any) -> Any:
    """Return plain values with every instant spelled as the API spells it."""
    if isinstance(value, datetime):
        return clock.format_instant(value)
    if isinstance(value, dict):
        return {key: _spelt(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_spelt(each) for each in value]
    return value


def _tell(call: Call, done: Outcome, dry_run: str | None) -> None:
    if call.out.structured:
        return
    target = done.source.target
    if target.kind.name == "Session" and safety.is_over(done.obj):
        # Applying a file again is how people try again what has ended; it starts nothing.
        phase = paths.simple(done.obj, "status.phase")
        again = f"labfleet retry {target.name}, or " if phase in RETRIABLE else ""
        call.out.note(f"{target} is over ({phase}); to run it again: {again}apply another name.")
    if call.out.quiet or call.out.format == "name":
        output.say(str(target) if call.out.format == "name" else target.name)
        return
    output.say(f"{target} {done.result}{' (dry run)' if dry_run else ''}")


def _structured(call: Call, done: list[Outcome]) -> None:
    items = [{**each.obj, "result": each.result} for each in done]
    call.out.value(items[0] if len(items) == 1 else {"kind": "List", "items": items}, "")


def _wait(call: Call, done: list[Outcome], seconds: float) -> int:
    meant = [
        (each.source.target, waiting.WaitTarget("phase", value=phase), waiting.uid_of(each.obj))
        for each in done
        if (phase := waiting.READY_PHASE.get(each.source.target.kind.name)) is not None
    ]
    code, _ = waiting.for_each(call, meant, seconds, lambda target, _: f"{target} is ready.")
    return code


class Diff(click.Command):
    """A command whose error codes start at 20, so that the code for `changes` is no failure."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Raise the base before parsing, so that usage errors count too."""
        parent = kwargs.get("parent")
        if parent is not None and parent.obj is not None:
            parent.obj.error_base = exits.DIFF_ERROR
        return super().make_context(*args, **kwargs)


@click.command("diff", cls=Diff, short_help="Show what apply would change; exit 10 when something.")
@click.option("-f", "--filename", "files", multiple=True, required=True, metavar="FILE",
              help="File, folder or - for stdin; may be repeated.")  # fmt: skip
@click.option("-R", "--recursive", is_flag=True, help="Folders within folders too.")
@connected
def diff(call: Call, *, files: tuple[str, ...], recursive: bool) -> int:
    """Show what apply would change, as a unified diff of server against manifest.

    Exit 0 when nothing would change, 10 when something would, 20 and more for errors.
    """
    found = sources.in_order(sources.load(files, recursive=recursive))
    judged = list(manifest_sending.rehearsed(call, found))
    plans = [each for each in judged if each.failure is None]
    changed = [each for each in plans if each.result != "unchanged"]
    if call.out.structured:
        items = [
            {"kind": each.source.target.kind.name, "name": each.source.target.name,
             "result": each.result, "diff": _diff(each)}
            for each in plans
        ]  # fmt: skip
        call.out.value({"kind": "List", "items": items}, "")
    else:
        output.write("".join(_diff(each) for each in changed))
    call.raise_last([each.failure for each in judged if each.failure is not None])
    return exits.CHANGES if changed else exits.OK


def _diff(made: Outcome) -> str:
    kind = made.source.target.kind
    before = "" if made.before is None else yamltext.dump(_comparable(kind, made.before))
    after = yamltext.dump(_comparable(kind, made.obj))
    name = str(made.source.target)
    if before == after:
        return ""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True),
        after.splitlines(keepends=True),
        fromfile=f"server/{name}",
        tofile=f"{made.source.where}",
    )
    return "".join(lines)
