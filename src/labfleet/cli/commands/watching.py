"""`watch` and `get -w`: the state first, then every change; lost connections are resumed.

Lists, then follows the event stream from the list's cursor. A broken stream is resumed with
Last-Event-ID after a back-off; when the server answers `resync`, the list is taken again.
"""

from __future__ import annotations

import dataclasses
import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import click

from labfleet.cli.kit import completing, exits, output, paths, sse, targets
from labfleet.cli.kit.call import Call, connected
from labfleet.kernel import backoff
from labfleet.resources import selectors
from labfleet.resources.kinds import Kind

STREAM = "/api/v1/events"
_CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})


@dataclass(frozen=True)
class Scope:
    """What is followed; an empty `names` means every object of the kinds."""

    kinds: list[Kind]
    namespace: str | None
    selector: str | None = None
    names: set[tuple[str, str]] = field(default_factory=set)

    def holds(self, obj: Any) -> bool:
        """Tell whether a change of this object belongs to what is followed."""
        kind = obj.get("kind")
        if kind not in {each.name for each in self.kinds}:
            return False
        name = output.name_of(obj)
        space = paths.simple(obj, "metadata.namespace")
        if self.namespace is not None and space != self.namespace:
            return False
        if self.names and (kind, name) not in self.names:
            return False
        labels = paths.simple(obj, "metadata.labels") or {}
        return selectors.matches(selectors.parse(self.selector or ""), labels)


@dataclass(frozen=True)
class Change:
    """One line of a watch: a whole list (SNAPSHOT, RESYNC) or one object's change."""

    type: str
    cursor: str | None
    items: list[Any]


@click.command("watch", short_help="Follow objects as they change.")
@click.argument("args", nargs=-1, metavar="KIND[,KIND] [NAME...] | KIND/NAME...",
                shell_complete=completing.kind_or_name)  # fmt: skip
@click.option("-l", "--selector", metavar="LABELS", help="Labels: a=b,c!=d,e.")
@click.option("-A", "--all-namespaces", is_flag=True, help="In every namespace.")
@click.option("--no-headers", is_flag=True, help="Rows without headings.")
@connected
def watch(call: Call, *, args: tuple[str, ...], selector: str | None, all_namespaces: bool) -> int:
    """Follow objects as they change, until Ctrl-C.

    With -o json, one JSON object for each line: first {"type":"SNAPSHOT","items":[...]},
    then {"type":"ADDED|MODIFIED|DELETED","object":{...}}; {"type":"RESYNC","items":[...]}
    replaces all that was said before.
    """
    wanted, chosen = targets.selected(args or ("all",))
    space = None if all_namespaces else call.settings.namespace
    names = {(each.kind.name, each.name) for each in wanted}
    return follow(call, Scope(chosen, space, selector, names))


def follow(call: Call, scope: Scope) -> int:
    """Print changes until the reader or the person ends it."""
    if call.out.format not in {"json", "table", "wide", "name"}:
        raise exits.usage(f"a watch cannot be shown as {call.out.format}", "Use -o json.")
    headers = call.out.headers
    for change in changes(call, scope):
        if call.out.format == "json":
            output.say(output.json_text(_line(change)))
        else:
            _print(call, scope, change, headers=headers)
            headers = False
        output.flush()
        call.tell_pause()
    return exits.OK


def changes(call: Call, scope: Scope) -> Iterator[Change]:
    """Yield the snapshot and then every change, for ever; Failure when denied or gone."""
    cursor: str | None = None
    failures, kind, told = 0, "SNAPSHOT", False
    while True:
        if cursor is None:
            items, cursor = _list(call, scope)
            yield Change(kind, cursor, items)
        try:
            for message in _stream(call, scope, cursor):
                failures, told = 0, False
                cursor = message.id or cursor
                if message.type == "unauthorized":
                    raise exits.Failure(exits.DENIED, "the token has ended meanwhile")
                if message.type == "resync":
                    cursor, kind = None, "RESYNC"
                    break
                yield from _changes(call, scope, message, cursor)
        except (OSError, http.client.HTTPException) as error:
            # A stopping server ends its streams in order; only the next connection is refused.
            if not told:
                call.out.note(f"The stream broke ({error}); resuming.")
                told = True
        failures += 1
        call.environment.sleep(
            backoff.delay(failures, call.environment.rng(), base=0.5, limit=15.0)
        )


def _stream(call: Call, scope: Scope, cursor: str) -> Iterator[sse.Message]:
    names = ",".join(each.name for each in scope.kinds)
    return call.api.stream(
        STREAM, last_id=cursor, kinds=names, namespace=scope.namespace, snapshot=False
    )


def _list(call: Call, scope: Scope) -> tuple[list[Any], str]:
    """List every kind; return the first list's cursor: changes may repeat but are never lost."""
    found: list[Any] = []
    first = ""
    for kind, (items, cursor, _) in targets.lists(
        call, scope.kinds, namespace=scope.namespace, labelSelector=scope.selector
    ):
        found += [{"kind": kind.name, **each} for each in items]
        first = first or cursor
    return [each for each in found if scope.holds(each)], first


def _changes(call: Call, scope: Scope, message: sse.Message, cursor: str) -> Iterator[Change]:
    if message.type not in _CHANGES:
        return
    try:
        data = json.loads(message.data)
    except ValueError:
        raise call.api.unexpected("an event is not JSON") from None
    obj = data.get("object") if isinstance(data, dict) else None
    if isinstance(obj, dict) and scope.holds(obj):
        yield Change(message.type, cursor, [obj])


def _line(change: Change) -> dict[str, Any]:
    if change.type in _CHANGES:
        return {"type": change.type, "cursor": change.cursor, "object": change.items[0]}
    return {"type": change.type, "cursor": change.cursor, "items": change.items}


def _print(call: Call, scope: Scope, change: Change, *, headers: bool) -> None:
    out = call.out
    if change.type == "RESYNC":
        out.note("The server began the list again; this is the present state:")
    if change.type == "DELETED":
        output.note(f"{output.full_name(change.items[0])} is gone.")
        return
    shown = dataclasses.replace(out, headers=headers)
    kinds = scope.kinds
    if change.type in _CHANGES:
        kinds = [each for each in kinds if each.name == change.items[0].get("kind")]
    shown.listing(kinds, change.items, spaces=scope.namespace is None)
