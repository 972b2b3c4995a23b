"""What clients of earlier revisions send and read: manifests apply, documents differ as listed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import pytest
import record_surface
import recording
from api_caller import api as opened
from surface_differences import DIFFERENCES
from surface_of_operations import EVERYWHERE

from labfleet.resources import kinds, spellings
from labfleet.service.core import intake

pytestmark = pytest.mark.timeout(300)
"""Reading whole documents is work; a busy machine takes its time."""
recorded = pytest.mark.parametrize("revision", recording.REVISIONS)


@cache
def surface(revision: str) -> dict[str, Any]:
    """What was recorded of a revision."""
    found: dict[str, Any] = recording.read(recording.HERE / revision / "surface.json.xz")
    return found


def leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every plain value of a document with its place, names joined by slashes."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from leaves(inner, f"{place}/{name.replace('/', '~')}")
    elif isinstance(value, list) and value:
        for number, inner in enumerate(value):
            yield from leaves(inner, f"{place}/{number}")
    else:
        yield place, value


def shape_of(document: Any) -> Iterator[tuple[str, Any]]:
    """What programs read of a document: of a description only that there is one."""
    for place, value in leaves(document):
        prose = place.endswith("/description") and isinstance(value, str)
        yield place, bool(value) if prose else value


MOVED = {
    "/spec/machine/aws": "/spec/machine/provider",
    **{f"/status/ec2/{old}": f"/status/machine/{new}" for old, new in spellings.STATUS.items()},
    "/status/ec2": "/status/machine",
}
"""Place in a stored object of an earlier revision -> where its value is now."""


def today(place: str) -> str:
    """Where a value of an earlier revision's object is now."""
    for old, new in MOVED.items():
        if below(place, old):
            return new + place.removeprefix(old)
    return place


def below(place: str, above: str) -> bool:
    """Whether a place is another one or lies in it."""
    return place == above or place.startswith(above + "/")


@recorded
def test_the_openapi_document_differs_as_listed(revision: str) -> None:
    """Today's document is the recorded one but for the listed places, and each of them differs."""

    async def asked() -> Any:
        async with opened() as api:
            return (await api.call("GET", "/api/v1/openapi.json", role=None)).json

    before = dict(shape_of(surface(revision)["openapi"]))
    now = dict(shape_of(asyncio.run(asked())))
    assert len(before) > 5000
    absent = object()
    other = sorted(place for place in before.keys() | now.keys()
                   if before.get(place, absent) != now.get(place, absent))  # fmt: skip
    patterns = EVERYWHERE[revision]
    assert [each for each in patterns if not any(map(re.compile(each).fullmatch, other))] == []
    other = [place for place in other if not any(re.fullmatch(each, place) for each in patterns)]
    listed = DIFFERENCES[revision]
    assert [place for place in other if not any(below(place, each) for each in listed)] == []
    assert [each for each in listed if not any(below(place, each) for place in other)] == []
    assert all(listed.values())


@recorded
def test_manifests_still_apply(revision: str) -> None:
    """Every manifest of the recorded tutorials, guides and demo passes today's intake."""
    rows = surface(revision)["manifests"]
    assert {row["kind"] for row in rows} >= {"Template", "Pool", "Definition", "Session", "Webhook"}
    for body in rows:
        row = kinds.KINDS[body["kind"]]
        made = msgspec.to_builtins(intake.typed(row, intake.shaped(row, body)))
        assert made["metadata"]["name"] == body["metadata"]["name"]
        assert body["spec"].keys() <= made["spec"].keys()


@recorded
def test_objects_with_every_field_are_read(revision: str) -> None:
    """Stored objects of each recorded kind, every field set, are read, and no value is lost."""
    for kind, rows in surface(revision)["objects"].items():
        assert rows
        for row in rows:
            facts = row.get("status", {}).get("conditions", [])
            facts.sort(key=lambda each: each["type"])  # as they are kept when a name changes
            if "ec2" in row.get("status", {}):
                row["status"]["ec2"]["state"] = "running"  # an example of then is no state of EC2
            made = kinds.encode(kinds.decode(kind, msgspec.json.encode(row), 7))
            kept = dict(leaves(msgspec.json.decode(made)))
            plain = {today(place): value for place, value in leaves(row)
                     if place != "/metadata/resourceVersion"}  # fmt: skip
            assert {place: kept.get(place) for place in plain} == plain


@recorded
def test_a_renamed_field_is_noticed(revision: str) -> None:
    """Stored objects are read strictly: one field under another name makes the test above fail."""
    for kind, rows in surface(revision)["objects"].items():
        part = "spec" if rows[0]["spec"] else "status"
        name, value = min(rows[0][part].items())
        others = {key: kept for key, kept in rows[0][part].items() if key != name}
        renamed = {**rows[0], part: {**others, f"{name}Anew": value}}
        with pytest.raises(msgspec.ValidationError, match=f"{name}Anew"):
            kinds.decode(kind, msgspec.json.encode(renamed), 7)


def test_every_field_of_every_kind_is_set_somewhere() -> None:
    """The maker of examples leaves out no field, so that the test above misses no renaming."""
    missing = []
    for kind, rows in record_surface.fullest().items():
        for part in ("metadata", "spec", "status"):
            parts = [row[part] for row in rows if part in row]
            named = {name for each in parts for name in each}
            record = getattr(kinds.decode(kind, msgspec.json.encode(rows[0]), 1), part)
            missing += [f"{kind}.{part}.{each.encode_name}"
                        for each in msgspec.structs.fields(record)
                        if each.encode_name not in named and part != "metadata"]  # fmt: skip
    assert missing == []
