"""Machines that EC2 would refuse are refused where templates and workers are written."""

from __future__ import annotations

from typing import Any

import pytest
from fleet_world import ADMIN, MACHINE, World

from labfleet.kernel import errors
from labfleet.resources.kinds import KINDS
from labfleet.resources.worker import Worker
from labfleet.service.verbs import objects


def made_of(**aws: Any) -> dict[str, Any]:
    """Return a machine with other AWS settings."""
    return {**MACHINE, "provider": {**MACHINE["provider"], **aws}}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("aws", "field"),
    [
        ({"volumeSizeGib": 100}, "volumeIops"),
        ({"volumeType": "gp3", "volumeIops": 100}, "volumeIops"),
        ({"volumeThroughputMibps": 250}, "volumeThroughputMibps"),
        ({"nestedVirtualization": True}, "nestedVirtualization"),
        ({"vpcId": "vpc-1"}, "subnetIds"),
        ({"userData": "x" * 16385}, "userData"),
        ({"tags": {"aws:a": "b"}}, "tags.aws:a"),
        ({"tags": {"labfleet:owner": "b"}}, "tags.labfleet:owner"),
    ],
)
async def test_a_wrong_machine_names_its_field(
    world: World, aws: dict[str, Any], field: str
) -> None:
    """Templates and workers both say which field and what would do."""
    for kind in ("Template", "Worker"):
        with pytest.raises(errors.Invalid) as caught:
            await world.make(kind, "m", {"machine": made_of(**aws)})
        ((where, what),) = caught.value.problems
        assert where == f"spec.machine.provider.{field}"
        assert what


@pytest.mark.asyncio
async def test_images_are_never_looked_for_among_everybodys(world: World) -> None:
    """A name pattern without owners is refused."""
    aws = {"amiNamePattern": "cml*", "amiOwners": []}
    with pytest.raises(errors.Invalid) as caught:
        await world.make(
            "Template", "m", {"machine": {**MACHINE, "provider": {"kind": "aws", **aws}}}
        )
    assert caught.value.problems[0][0] == "spec.machine.provider.amiOwners"


@pytest.mark.asyncio
async def test_tags_of_a_worker_change_at_any_time_within_the_rules(world: World) -> None:
    """A live worker takes new tags; those that say whose it is are refused by key."""
    await world.make("Worker", "w", {"machine": MACHINE, "tags": {"team": "a"}})
    row = KINDS["Worker"]
    changed = await objects.patch(
        world.services, ADMIN, row, "w", {"spec": {"tags": {"team": "b"}}}, namespace="default"
    )
    assert isinstance(changed, Worker)
    assert changed.spec.tags == {"team": "b"}
    with pytest.raises(errors.Invalid) as caught:
        await objects.patch(
            world.services, ADMIN, row, "w", {"spec": {"tags": {"aws:x": "b"}}}, namespace="default"
        )
    assert caught.value.problems[0][0] == "spec.tags.aws:x"
