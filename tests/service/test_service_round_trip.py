"""What the API showed can be sent back with a change: `get -o yaml`, edit, `apply`."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from fleet_world import ADMIN, World, world

from labfleet.kernel import errors
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import OwnerReference
from labfleet.service.verbs import objects


async def held(w: World) -> dict[str, Any]:
    """Return a worker as JSON shows it once it has an instance and a pool."""
    await w.template()
    made = await w.make("Worker", "w", {"template": "metal"})
    metadata = msgspec.structs.replace(
        made.metadata,
        finalizers=("labfleet/machine", "labfleet/cml-licence"),
        owner_references=(OwnerReference(kind="Pool", name="exam", uid="u-1"),),
    )
    made = msgspec.structs.replace(made, metadata=metadata)
    _, stored = await w.services.objects.save(made, cause=w.services.cause(ADMIN, "Launched"))
    shown: dict[str, Any] = json.loads(msgspec.json.encode(stored[0]))
    shown.pop("status")
    return shown


@pytest.mark.asyncio
async def test_an_object_with_finalizers_can_be_sent_back_changed() -> None:
    """JSON's lists are what the server keeps as tuples, not an attempt to set them."""
    async with world() as w:
        shown = await held(w)
        shown["spec"]["tags"] = {"team": "blue"}
        changed = await objects.replace(
            w.services, ADMIN, KINDS["Worker"], "w", shown, namespace="default"
        )
        assert changed.spec.tags == {"team": "blue"}
        assert changed.metadata.finalizers == ("labfleet/machine", "labfleet/cml-licence")
        assert [each.name for each in changed.metadata.owner_references] == ["exam"]


@pytest.mark.asyncio
@pytest.mark.parametrize("finalizers", [["labfleet/machine"], ["x"], "labfleet/machine"])
async def test_other_finalizers_are_still_refused(finalizers: Any) -> None:
    """People never take away what holds a machine."""
    async with world() as w:
        shown = await held(w)
        shown["metadata"]["finalizers"] = finalizers
        with pytest.raises(errors.Invalid, match="set by the server"):
            await objects.replace(
                w.services, ADMIN, KINDS["Worker"], "w", shown, namespace="default"
            )
