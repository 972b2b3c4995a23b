"""A template's VPC is judged alike in the rehearsal's world, over its XML, and against moto's EC2."""

from __future__ import annotations

from typing import cast

import msgspec
import pytest
from compute_places import REGION, Place
from test_compute_rules import Play, play, simulator_process

from labfleet.adapters.aws.paced import Ec2Calls
from labfleet.kernel import errors
from labfleet.resources.providers.aws import AwsSettings

__all__ = ["play", "simulator_process"]


def test_a_vpc_that_is_not_that_of_its_parts_is_refused_before_a_launch(play: Play) -> None:
    """What lies elsewhere is named with its VPC; a template that names no VPC is not asked about."""

    async def story(place: Place) -> None:
        vpc, group, far_subnet, far_group = place.networks()
        calls = cast("Ec2Calls", place.compute)
        right = AwsSettings(vpc_id=vpc, subnet_ids=place.subnets, security_group_ids=(group,))
        await calls.check_network(REGION, right)
        await calls.check_network(REGION, AwsSettings(subnet_ids=(far_subnet,)))
        await calls.check_network(REGION, AwsSettings(vpc_id=vpc, subnet_ids=place.subnets))
        for changes, told in (
            ({"subnet_ids": (place.subnets[0], far_subnet)}, ("aws.subnetIds", far_subnet)),
            ({"security_group_ids": (far_group,)}, ("aws.securityGroupIds", far_group)),
        ):
            wrong = msgspec.structs.replace(right, **changes)
            with pytest.raises(errors.Invalid) as caught:
                await calls.check_network(REGION, wrong)
            assert caught.value.reason == "VpcMismatch"
            ((field, what),) = caught.value.problems
            assert field == told[0]
            assert told[1] in what
            assert vpc in caught.value.message
            assert what in caught.value.message

    play(story)
