"""`describe`: everything about an object for people, with units, ages and its last events."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click
from msgspec import inspect

from labfleet.cli.commands import events, explain
from labfleet.cli.kit import completing, exits, human_units, output, paths, targets
from labfleet.cli.kit.call import Call, connected
from labfleet.resources import kinds

_LONG = 160
_EVENTS = 10
_APART = {"conditions", "decision", "phase", "phaseSince"}


@click.command("describe", short_help="Show everything about an object, for people.")
@click.argument("args", nargs=-1, metavar="KIND [NAME...] | KIND/NAME...",
                shell_complete=completing.kind_or_name)  # fmt: skip
@click.option("-l", "--selector", metavar="LABELS", help="All of a kind with these labels.")
@click.option("--no-events", is_flag=True, help="Without the last events.")
@connected
def describe(call: Call, *, args: tuple[str, ...], selector: str | None, no_events: bool) -> int:
    """Show everything about objects, for people; for programs there is get -o json.

    Without a name, every object of the kind.
    """
    wanted, chosen = targets.selected(args) if args else (targets.parse(args), [])
    if selector and wanted:
        raise exits.usage("-l takes one KIND and no name")
    found = [(each.kind, targets.need(call, each)) for each in wanted]
    if not wanted:
        space = call.settings.namespace
        for kind, (items, _, _) in targets.lists(
            call, chosen, namespace=space, labelSelector=selector
        ):
            found += [(kind, {"kind": kind.name, **each}) for each in items]
        if not found:
            plurals = " or ".join(each.plural for each in chosen)
            call.out.note(f"No {plurals} in namespace {space}.")
    if call.out.structured and len(found) == 1 and wanted:
        call.out.show(*found[0])
        return exits.OK
    if call.out.structured:
        call.out.objects(chosen, [obj for _, obj in found], spaces=False)
        return exits.OK
    for at, (kind, obj) in enumerate(found):
        if at:
            output.say("\n---\n")
        _one(call, targets.Target(kind, output.name_of(obj)), obj, no_events=no_events)
    return exits.OK


def _one(call: Call, target: targets.Target, obj: dict[str, Any], *, no_events: bool) -> None:
    output.write("".join(f"{line}\n" for line in lines(obj, call.now())))
    _conditions(call, obj)
    _decision(call, target, obj)
    if not no_events:
        _events(call, target)


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
    kind = kinds.KINDS.get(str(obj.get("kind")))
    for title, part in (("Spec", obj.get("spec")), ("Status", status)):
        shown = {key: value for key, value in (part or {}).items() if key not in _APART}
        if shown:
            yield f"{title}:"
            info = None if kind is None else _field(_type(kind.type), title.lower())
            yield from _tree(shown, info, 1, now)


@functools.cache
def _type(of: Any) -> inspect.Type:
    return inspect.type_info(of)


def _field(info: inspect.Type | None, key: str) -> inspect.Type | None:
    """Return the type of a record's field; None where keys are data, or nothing is known."""
    for each in _options(info):
        if isinstance(each, inspect.StructType):
            for field in each.fields:
                if field.encode_name == key:
                    return field.type
    return None


def _options(info: inspect.Type | None) -> tuple[inspect.Type, ...]:
    """Return what a value may be, without the notes on it."""
    if isinstance(info, inspect.Metadata):
        return _options(info.type)
    if isinstance(info, inspect.UnionType):
        return tuple(one for each in info.types for one in _options(each))
    return () if info is None else (info,)


def _items(info: inspect.Type | None) -> inspect.Type | None:
    """Return the type of a list's items."""
    for each in _options(info):
        if isinstance(each, inspect.VarTupleType | inspect.ListType):
            return each.item_type
    return None


def _tree(
    value: dict[str, Any], info: inspect.Type | None, depth: int, now: datetime
) -> Iterator[str]:
    pad = "  " * depth
    # Keys of a free mapping (tags, labels) are somebody's data and stay as they were written.
    free = any(isinstance(each, inspect.DictType) for each in _options(info))
    for key, inner in value.items():
        if inner is None or inner in ("", [], {}):
            continue
        title = human_units.printable(key) if free else human_units.titled(key)
        below = _field(info, key)
        if isinstance(inner, dict):
            yield f"{pad}{title}:"
            # The time limits of a machine are in seconds, although their names do not say so.
            named = {f"{k}Seconds": v for k, v in inner.items()} if key == "limits" else inner
            yield from _tree(named, below, depth + 1, now)
        elif isinstance(inner, list) and any(isinstance(each, dict) for each in inner):
            yield f"{pad}{title}:"
            yield from _entries(inner, _items(below), depth + 1, now)
        elif isinstance(inner, str) and (len(inner) > _LONG or "\n" in inner):
            size = (
                f"{len(inner):,} characters in {human_units.count(len(inner.splitlines()), 'line')}"
            )
            yield f"{pad}{title}: {size} (shown by get -o yaml)"
        else:
            yield f"{pad}{title}: {human_units.labelled(key, inner, now)}"


def _entries(
    items: list[Any], info: inspect.Type | None, depth: int, now: datetime
) -> Iterator[str]:
    pad = "  " * depth
    for each in items:
        if not isinstance(each, dict):
            yield f"{pad}- {human_units.plain(each)}"
            continue
        inner = list(_tree(each, info, depth + 1, now))
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
            call.out.when(each.get("lastTransitionTime")),
            human_units.plain(each.get("message")),
        ]
        for each in found
    ]
    call.out.table(["  TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"], rows)


def _decision(call: Call, target: targets.Target, obj: dict[str, Any]) -> None:
    decision = paths.simple(obj, "status.decision")
    if decision:
        said = human_units.printable(explain.summary(call, decision))
        output.say(f"Decision:    {said}")
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
