"""Acts that change fields of an object as `labfleet apply` does: tried first, then written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Resource
from labfleet.service.verbs import applying, objects
from labfleet.web.acts.act import Doing
from labfleet.web.acts.fields import Field

VERSION = "version"
"""Name of the hidden field that says which version of the object a form was made of."""


def version(obj: Resource | None) -> Field:
    """Return that field: what somebody else changed meanwhile is not overwritten unseen."""
    first = "" if obj is None else obj.metadata.resource_version
    return Field(name=VERSION, label="Version", show="hidden", first=first, most=19)


async def write(doing: Doing, kind: str, spec: Mapping[str, Any]) -> Resource:
    """Change some fields; Stale when the object is not the one that the form was made of."""
    metadata: dict[str, Any] = {}
    if doing.text(VERSION):
        metadata["resourceVersion"] = doing.text(VERSION)
    body = {"metadata": metadata, "spec": dict(spec)}
    return await objects.patch(
        doing.services, doing.caller, KINDS[kind], doing.name, body, namespace=doing.namespace
    )


async def tried(doing: Doing, bodies: list[dict[str, Any]]) -> Resource | None:
    """Return what writing bodies would come to, the last one's object; raise what is refused."""
    done = await applying.apply(
        doing.services, doing.caller, bodies, namespace=doing.namespace,
        mode=applying.Mode.DRY_RUN,
    )  # fmt: skip
    for each in done:
        if each.error is not None:
            raise each.error
    return done[-1].obj
