"""Acts that every kind has by its declaration: made from a text, switched, deleted.

A kind of which more is to be said has acts of its own; then those stand in for these.
"""

from __future__ import annotations

import functools
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from labfleet.resources import descriptions, manifests
from labfleet.resources.kinds import KINDS, Kind
from labfleet.resources.meta import API_VERSION
from labfleet.service.core import intake
from labfleet.service.kinds import rules
from labfleet.service.verbs import objects
from labfleet.web import values
from labfleet.web.acts import edits
from labfleet.web.acts.act import Act, Doing, Outcome, same
from labfleet.web.acts.fields import Field

TEXT_LIMIT = 50_000
_SWITCH = "enabled"


@functools.lru_cache(maxsize=64)
def of(row: Kind) -> tuple[Act, ...]:
    """Return what can be done with every kind that people make: by its declaration alone."""
    return tuple(_of(row))


def _of(row: Kind) -> Iterator[Act]:
    if not row.creatable or row.single:
        return
    yield _made(row)
    if any(each.encode_name == _SWITCH and each.type is bool for each in _spec_fields(row)):
        yield _switched(row, on=False)
        yield _switched(row, on=True)
    yield Act(
        verb="delete", kind=row.name, title="Delete", right="delete", routes=f"delete{row.name}",
        does=_delete, follows=_delete_follows, grave=True, many=True,
        line=lambda doing: doing.line(f"delete {row.name.lower()}"),
        goes=lambda _doing: f"/{row.plural}",
    )  # fmt: skip


def _spec_fields(row: Kind) -> tuple[msgspec.structs.FieldInfo, ...]:
    types = {each.name: each.type for each in msgspec.structs.fields(row.type)}
    return msgspec.structs.fields(types["spec"])


def _made(row: Kind) -> Act:
    async def does(doing: Doing) -> Outcome:
        new = await objects.create(
            doing.services, doing.caller, row, _body(doing, row), key=doing.key
        )
        where = values.address(row.plural, new.name, new.namespace)
        return Outcome(f"Done: {row.name.lower()} {new.name} is made.", where)

    async def follows(doing: Doing) -> Sequence[str]:
        if not doing.text("text"):
            return [
                "Fill in what is needed, and look at what would be made. Nothing is saved before."
            ]
        tried: Any = await edits.tried(doing, [_body(doing, row)])
        message = getattr(getattr(tried, "status", None), "message", "")
        return [f"{row.one.capitalize()} {tried.name} would be made.", message]

    return Act(
        verb="create", kind=row.name, title=f"New {row.name.lower()} from YAML", right="create",
        routes=f"create{row.name}", does=does, follows=follows, whole=True, look=True,
        fields=lambda _s, _c, _o: (_text(row),),
        line=lambda _doing: f"labfleet apply -f {shlex.quote(row.name.lower())}.yaml",
        back="Delete takes it away again.",
    )  # fmt: skip


def _text(row: Kind) -> Field:
    return Field(
        name="text", label="YAML or JSON", show="long", required=True, most=TEXT_LIMIT,
        first=skeleton(row.name), help="As labfleet apply takes it; lines with # say nothing.",
    )  # fmt: skip


@functools.lru_cache(maxsize=64)
def skeleton(kind: str) -> str:
    """Return the text of an empty object of a kind: needed fields, and the others as comments."""
    fields = _spec_fields(KINDS[kind])
    types = {each.name: each.type for each in msgspec.structs.fields(KINDS[kind].type)}
    told = descriptions.fields(types["spec"])
    named = ("metadata:", "  name: ") if not KINDS[kind].named_by else ()
    lines = [f"apiVersion: {API_VERSION}", f"kind: {kind}", *named, "spec:"]
    for each in fields:
        sentence = " ".join(told.get(each.name, told.get(each.encode_name, "")).split())
        lines.append(f"  # {sentence}" if sentence else "  #")
        lines.append(f"  {'' if each.required else '# '}{each.encode_name}: ")
    return "\n".join(lines)


def _body(doing: Doing, row: Kind) -> dict[str, Any]:
    """Return the one object of this kind that the text describes; Invalid with the lines of mistakes."""
    found = manifests.written(doing.text("text"), name="the text")
    if len(found) != 1 or found[0].kind.name != row.name:
        raise intake.invalid(("YAML or JSON", f"must describe {row.one}, and nothing else"))
    return found[0].raw


def _switched(row: Kind, *, on: bool) -> Act:
    async def does(doing: Doing) -> str:
        await edits.write(doing, row.name, {_SWITCH: on})
        return f"Done: {doing.name} is {'enabled' if on else 'disabled'}."

    verb, other = ("enable", "disable") if on else ("disable", "enable")
    return Act(
        verb=verb, kind=row.name, title=verb.capitalize(), right="update", many=True,
        routes=f"patch{row.name}", does=does,
        opens=lambda _s, _c, obj: None if obj.spec.enabled is on else "",
        line=lambda doing: doing.applied(row.name, {_SWITCH: on}),
        undo=lambda doing: same(doing, row.plural, other),
    )  # fmt: skip


async def _delete(doing: Doing) -> str:
    row = KINDS[doing.obj.kind]
    done = await objects.delete(doing.services, doing.caller, row, *doing.where, uid=doing.uid)
    told = "goes once what is outside has ended" if done.metadata.finalizers else "is gone"
    return f"Asked: {row.name.lower()} {doing.name} {told}."


async def _delete_follows(doing: Doing) -> Sequence[str]:
    """Say that an object goes, and raise what would refuse that."""
    await rules.delete(doing.services, doing.caller, doing.obj)
    return ["It goes; its history stays in the log."]
