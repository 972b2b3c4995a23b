"""`describe`: everything about an object for people, with units, ages and its last events."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click

from labfleet.cli.commands import events, explain
from labfleet.cli.kit import completing, exits, human_units, output, paths, targets
from labfleet.cli.kit.call import Call, connected

_LONG = 160
_EVENTS = 10
_APART = {"conditions", "decision", "phase", "phaseSince"}


@click.command("describe", short_help="Show everything about an object, for people.")
@click.argument("args", nargs=-1, metavar="KIND NAME... | KIND/NAME...",
                shell_complete=completing.kind_or_name)  # fmt: skip
@click.option("--no-events", is_flag=True, help="Without the last events.")
@connected
def describe(call: Call, *, args: tuple[str, ...], no_events: bool) -> int:
    """Show everything about objects, for people; for programs there is get -o json."""
    for at, target in enumerate(targets.parse(args)):
        obj = targets.need(call, target)
        if call.out.structured:
            call.out.show(target.kind, obj)
            continue
        if at:
            output.say("\n---\n")
        output.write("".join(f"{line}\n" for line in lines(obj, call.now())))
        _conditions(call, obj)
        _decision(call, target, obj)
        if not no_events:
            _events(call, target)
    return exits.OK


def lines(obj: dict[str, Any], now: datetime) -> Iterator[str]:
    """Yield the object's head, spec and status."""
    metadata, status = obj.get("metadata") or {}, obj.get("status") or {}
    head = {
        "Name": metadata.get("name"),
        "Kind": obj.get("kind"),
        "Namespace": metadata.get("namespace"),
        "Phase": status.get("phase"),
        "Since": human_units.when(status.get("phaseSince"), now),
        "Created": human_units.when(metadata.get("creationTimestamp"), now),
        "Deleting": human_units.when(metadata.get("deletionTimestamp"), now),
        "Labels": _pairs(metadata.get("labels")),
        "Annotations": _pairs(metadata.get("annotations")),
        "Held by": human_units.plain(metadata.get("finalizers")),
        "Version": f"{metadata.get('resourceVersion')} (generation {metadata.get('generation')})",
    }
    for title, value in head.items():
        if value not in (None, "-", ""):
            yield f"{title + ':':<13}{human_units.printable(str(value))}"
    for title, part in (("Spec", obj.get("spec")), ("Status", status)):
        shown = {key: value for key, value in (part or {}).items() if key not in _APART}
        if shown:
            yield f"{title}:"
            yield from _tree(shown, 1, now)


def _tree(value: dict[str, Any], depth: int, now: datetime) -> Iterator[str]:
    pad = "  " * depth
    for key, inner in value.items():
        if inner is None or inner in ("", [], {}):
            continue
        if isinstance(inner, dict):
            yield f"{pad}{key}:"
            # The time limits of a machine are in seconds, although their names do not say so.
            named = {f"{k}Seconds": v for k, v in inner.items()} if key == "limits" else inner
            yield from _tree(named, depth + 1, now)
        elif isinstance(inner, list) and any(isinstance(each, dict) for each in inner):
            yield f"{pad}{key}:"
            yield from _entries(inner, depth + 1, now)
        elif isinstance(inner, str) and (len(inner) > _LONG or "\n" in inner):
            size = (
                f"{len(inner):,} characters in {human_units.count(len(inner.splitlines()), 'line')}"
            )
            yield f"{pad}{key}: {size} (shown by get -o yaml)"
        else:
            yield f"{pad}{key}: {human_units.labelled(key, inner, now)}"


def _entries(items: list[Any], depth: int, now: datetime) -> Iterator[str]:
    pad = "  " * depth
    for each in items:
        if not isinstance(each, dict):
            yield f"{pad}- {human_units.plain(each)}"
            continue
        inner = list(_tree(each, depth + 1, now))
        if inner:
            yield f"{pad}- {inner[0].strip()}"
            yield from inner[1:]


def _pairs(value: Any) -> str:
    return ", ".join(f"{key}={each}" for key, each in (value or {}).items())


def _conditions(call: Call, obj: dict[str, Any]) -> None:
    found = paths.simple(obj, "status.conditions") or []
    if not found:
        return
    output.say("Conditions:")
    rows = [
        [
            f"  {each.get('type')}",
            str(each.get("status")),
            human_units.plain(each.get("reason")),
            human_units.when(each.get("lastTransitionTime"), call.now()),
            human_units.plain(each.get("message")),
        ]
        for each in found
    ]
    call.out.table(["  TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"], rows)


def _decision(call: Call, target: targets.Target, obj: dict[str, Any]) -> None:
    decision = paths.simple(obj, "status.decision")
    if decision:
        output.say(f"Decision:    {explain.summary(call, decision)}")
        output.say(f"             (labfleet explain {target})")


def _events(call: Call, target: targets.Target) -> None:
    try:
        found = events.history(call, target, _EVENTS)
    except exits.Failure as failure:
        call.out.note(f"Its events could not be read: {failure.cause}")
        return
    if found:
        output.say(f"Last events (all: labfleet events {target}):")
        events.show(call, found)
