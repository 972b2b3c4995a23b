"""`apply` and `diff`: manifests against the server's state.

Create or merge: what a manifest names is set, what it leaves out stays as the server has it.
A replace carries the version that was read; after a conflict the change is planned again from
fresh state.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import click
import msgspec

from labfleet.cli.commands import waiting
from labfleet.cli.kit import call as calls
from labfleet.cli.kit import exits, output, sources, yamltext
from labfleet.cli.kit.call import Call, connected
from labfleet.kernel import clock
from labfleet.resources.kinds import Kind

_STOPS = frozenset({exits.UNREACHABLE, exits.DENIED})


@dataclass(frozen=True)
class ApplyPlan:
    """What apply does to one object: created, configured or unchanged, and its new form."""

    source: sources.Source
    result: str
    before: Any
    after: dict[str, Any]


@click.command("apply", short_help="Create or change objects from manifests.")
@click.option("-f", "--filename", "files", multiple=True, required=True, metavar="FILE",
              help="File, folder or - for stdin; may be repeated.")  # fmt: skip
@click.option("-R", "--recursive", is_flag=True, help="Folders within folders too.")
@click.option("--dry-run", type=click.Choice(["client", "server"]),
              help="Only check: client sends nothing, server compares with its state.")  # fmt: skip
@click.option("--wait", "wait", is_flag=True, help="Wait until each is ready.")
@click.option("--timeout", default="20m", show_default=True, help="With --wait: exit 8 after.")
@connected
def apply(
    call: Call,
    *,
    files: tuple[str, ...],
    recursive: bool,
    dry_run: str | None,
    wait: bool,
    timeout: str,
) -> int:
    """Create or change objects from manifests.

    Everything is checked before anything is sent. Ctrl-C while waiting ends only the waiting.
    """
    seconds = calls.seconds(timeout, "--timeout")
    found = sources.in_order(sources.load(files, recursive=recursive))
    done: list[dict[str, Any]] = []
    failed: list[exits.Failure] = []
    for source in found:
        try:
            result, obj = _one(call, source, dry_run)
        except exits.Failure as failure:
            failure.cause = f"{source.target}: {failure.cause}"
            failed.append(failure)
            if failure.code in _STOPS:
                break
            continue
        done.append({"result": result, "object": obj})
        _tell(call, source, result, dry_run)
    if call.out.structured:
        _structured(call, done)
    for each in failed[:-1]:
        call.out.note("\n".join(each.lines()))
    if failed:
        raise failed[-1]
    if wait and not dry_run:
        return _wait(call, found, seconds)
    return exits.OK


def _one(call: Call, source: sources.Source, dry_run: str | None) -> tuple[str, Any]:
    if dry_run == "client":
        return "valid", source.raw
    made = plan(call, source)
    if dry_run == "server" or made.result == "unchanged":
        return made.result, made.after
    try:
        return made.result, _send(call, made)
    except exits.Failure as failure:
        if failure.code != exits.CONFLICT:
            raise
    made = plan(call, source)
    if made.result == "unchanged":
        return made.result, made.after
    return made.result, _send(call, made)


def _send(call: Call, made: ApplyPlan) -> Any:
    kind = made.source.target.kind
    space = {"namespace": _space(call, made.source)}
    if made.before is None:
        path = f"/api/v1/{kind.plural}"
        return call.api.call("POST", path, query=space, body=made.after).body
    return call.api.call("PUT", made.source.target.path, query=space, body=made.after).body


def plan(call: Call, source: sources.Source) -> ApplyPlan:
    """Return what applying this object would do to the server's state as it is now."""
    space = _space(call, source)
    try:
        before = call.api.get(source.target.path, namespace=space)
    except exits.Failure as failure:
        if failure.code != exits.NOT_FOUND:
            raise
        metadata = {**source.raw["metadata"], "namespace": space}
        return ApplyPlan(source, "created", None, {**source.raw, "metadata": metadata})
    after = _merged(before, source.raw)
    same = _comparable(source.target.kind, before) == _comparable(source.target.kind, after)
    return ApplyPlan(source, "unchanged" if same else "configured", before, after)


def _space(call: Call, source: sources.Source) -> str:
    return str(source.raw["metadata"].get("namespace") or call.settings.namespace)


def _merged(before: dict[str, Any], raw: dict[str, Any]) -> dict[str, Any]:
    """Return the server's object with the manifest's labels, annotations and spec put in."""
    metadata = dict(before["metadata"])
    for part in ("labels", "annotations"):
        if part in raw["metadata"]:
            metadata[part] = _merge(metadata.get(part) or {}, raw["metadata"][part] or {})
    spec = _merge(before.get("spec") or {}, raw.get("spec") or {})
    kept = {key: value for key, value in before.items() if key != "status"}
    return {**kept, "metadata": metadata, "spec": spec}


def _merge(target: Any, patch: Any) -> Any:
    """Return target with the mapping put in, key by key; null takes a key away."""
    if not isinstance(patch, dict) or not isinstance(target, dict):
        return patch
    result = dict(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merge(result.get(key), value)
    return result


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


def _tell(call: Call, source: sources.Source, result: str, dry_run: str | None) -> None:
    if call.out.structured:
        return
    if call.out.quiet or call.out.format == "name":
        output.say(str(source.target) if call.out.format == "name" else source.target.name)
        return
    output.say(f"{source.target} {result}{' (dry run)' if dry_run else ''}")


def _structured(call: Call, done: list[dict[str, Any]]) -> None:
    if len(done) == 1:
        call.out.value({**done[0]["object"], "result": done[0]["result"]}, "")
    else:
        items = [{**each["object"], "result": each["result"]} for each in done]
        call.out.value({"kind": "List", "items": items}, "")


def _wait(call: Call, found: list[sources.Source], seconds: float) -> int:
    deadline = call.environment.monotonic() + seconds
    for source in found:
        phase = waiting.READY_PHASE.get(source.target.kind.name)
        if phase is None:
            continue
        try:
            left = max(0.0, deadline - call.environment.monotonic())
            waiting.until(call, source.target, waiting.WaitTarget("phase", value=phase), left)
        except KeyboardInterrupt:
            waiting.detached(source.target)
            return exits.INTERRUPTED
        call.out.note(f"{source.target} is ready.")
    return exits.OK


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
    plans = [plan(call, source) for source in found]
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
    return exits.CHANGES if changed else exits.OK


def _diff(made: ApplyPlan) -> str:
    kind = made.source.target.kind
    before = "" if made.before is None else yamltext.dump(_comparable(kind, made.before))
    after = yamltext.dump(_comparable(kind, made.after))
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
