"""Do a template's subnets and security groups lie in its VPC? Pure; the calls are in `compute`.

EC2 launches by subnet and never asks for the VPC: a machine of a template that names another one
would boot, cost money and be in the wrong network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from labfleet.kernel import errors
from labfleet.resources.providers.aws import AwsSettings

Places = Mapping[str, str]
"""Id of a subnet or security group -> id of its VPC; what EC2 does not know is not in it."""
TOLD = 4


def mismatch(aws: AwsSettings, subnets: Places, groups: Places) -> errors.Invalid | None:
    """Return what is not in the VPC that the settings name, with what to do; None when all is."""
    wrong = [
        *_wrong("subnet", "subnetIds", aws.subnet_ids, subnets, aws),
        *_wrong("security group", "securityGroupIds", aws.security_group_ids, groups, aws),
    ]
    if not wrong:
        return None
    told = "; ".join(what for _, what in wrong[:TOLD])
    more = f" and {len(wrong) - TOLD} more" if len(wrong) > TOLD else ""
    message = (
        f"the template's vpcId is {aws.vpc_id}, but {told}{more}: name subnets and security groups "
        f"of {aws.vpc_id} in {aws.region}, or correct vpcId"
    )
    problems = tuple((f"aws.{field}", what) for field, what in wrong)
    return errors.Invalid(message, reason="VpcMismatch", problems=problems)


def _wrong(
    what: str, field: str, wanted: tuple[str, ...], places: Places, aws: AwsSettings
) -> Iterator[tuple[str, str]]:
    for each in wanted:
        place = places.get(each)
        if place is None:
            yield field, f"there is no {what} {each} in {aws.region}"
        elif place != aws.vpc_id:
            yield field, f"{what} {each} lies in {place}"
