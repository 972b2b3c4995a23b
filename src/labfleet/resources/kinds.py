"""The one table of kinds: REST, OpenAPI, CLI, pages and the reference come from it.

A new kind is one module with its fields and its `KIND`, a row here, and a module in `service/kinds`.
"""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from labfleet.kernel import errors
from labfleet.resources import (
    cluster_kind,
    course,
    definition,
    group,
    image,
    leak,
    pool_kind,
    queue,
    region,
    session_kind,
    settings_kind,
    simulation_kind,
    spellings,
    template,
    webhook,
    worker_kind,
)
from labfleet.resources.declaration import Column, Kind
from labfleet.resources.meta import Resource

__all__ = ["KINDS", "Column", "Kind", "by_word", "decode", "encode", "present"]

KINDS: dict[str, Kind] = {
    row.name: row
    for row in (
        worker_kind.KIND,
        pool_kind.KIND,
        template.KIND,
        definition.KIND,
        session_kind.KIND,
        group.KIND,
        course.KIND,
        cluster_kind.KIND,
        simulation_kind.KIND,
        queue.KIND,
        settings_kind.KIND,
        webhook.KIND,
        region.KIND,
        image.KIND,
        leak.KIND,
    )
}


def by_word(word: str) -> Kind:
    """Return the kind that a person means by its name, plural or short form; Invalid if none."""
    wanted = word.lower()
    for row in KINDS.values():
        if wanted in {row.name.lower(), row.plural, *row.short}:
            return row
    known = ", ".join(row.plural for row in KINDS.values())
    message = f"unknown kind {word!r}; the kinds are {known}"
    raise errors.Invalid(message, reason="UnknownKind")


def encode(obj: Resource) -> bytes:
    """Return the stored form: JSON without resourceVersion, which the store's row carries."""
    if obj.metadata.resource_version:
        bare = msgspec.structs.replace(obj.metadata, resource_version="")
        obj = msgspec.structs.replace(obj, metadata=bare)
    return msgspec.json.encode(obj)


@functools.cache
def _decoder(kind: type) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


_parts = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def present(kind: str, doc: bytes) -> bytes:
    """Return a stored form in today's spelling, for readers who get it as it is."""
    if not spellings.earlier(kind, doc):
        return doc
    return msgspec.json.encode(spellings.present(kind, msgspec.json.decode(doc)))


def shown(kind: str, doc: bytes, revision: int) -> bytes:
    """Return a stored form as clients see it: in today's spelling, with its resourceVersion."""
    whole = _parts(present(kind, doc))
    metadata = _parts(whole.get("metadata", b"{}"))
    metadata["resourceVersion"] = msgspec.Raw(b'"%d"' % revision)
    whole["metadata"] = msgspec.Raw(msgspec.json.encode(metadata))
    return msgspec.json.encode(whole)


def decode(kind: str, doc: bytes, revision: int) -> Any:
    """Return the typed object of a stored form, at this revision.

    Any, because the caller names the kind; `engine.objects` gives the typed faces.
    """
    decoder = _decoder(KINDS[kind].type)
    try:
        obj = decoder.decode(doc)
    except msgspec.ValidationError:
        if not spellings.earlier(kind, doc):
            raise
        obj = decoder.decode(present(kind, doc))
    metadata = msgspec.structs.replace(obj.metadata, resource_version=str(revision))
    return msgspec.structs.replace(obj, metadata=metadata)
