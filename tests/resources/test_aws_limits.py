"""What EC2 would refuse of a machine's settings is named by field before a launch."""

from __future__ import annotations

import pytest

from labfleet.resources.providers import aws_limits
from labfleet.resources.providers.aws import AwsSettings


def fields(**aws: object) -> list[str]:
    """Return the fields that something is wrong with."""
    return [field for field, _ in aws_limits.problems(AwsSettings(**aws))]  # type: ignore[arg-type]


def test_the_defaults_are_fine() -> None:
    """A template that says nothing can be launched."""
    assert fields() == []


@pytest.mark.parametrize(
    ("kind", "size", "iops", "wrong"),
    [
        ("io1", 200, 10000, []),
        ("io1", 199, 10000, ["volumeIops"]),
        ("io1", 16385, 10000, ["volumeSizeGib"]),
        ("io1", 16384, 64001, ["volumeIops"]),
        ("io2", 8, 8000, []),
        ("io2", 8, 8001, ["volumeIops"]),
        ("io2", 65536, 256000, []),
        ("gp3", 8, 3000, []),
        ("gp3", 8, 4001, ["volumeIops"]),
        ("gp3", 500, 2999, ["volumeIops"]),
        ("gp3", 500, 80000, []),
        ("gp3", 500, 80001, ["volumeIops"]),
    ],
)
def test_sizes_and_iops_keep_to_their_type(
    kind: str, size: int, iops: int, wrong: list[str]
) -> None:
    """Ranges and ratios of io1, io2 and gp3 (facts/aws.md#volumes)."""
    assert fields(volume_type=kind, volume_size_gib=size, volume_iops=iops) == wrong


@pytest.mark.parametrize(
    ("kind", "iops", "rate", "wrong"),
    [
        ("gp3", 3000, 750, []),
        ("gp3", 3000, 751, ["volumeThroughputMibps"]),
        ("io1", 3000, 125, ["volumeThroughputMibps"]),
    ],
)
def test_throughput_is_gp3s_and_follows_iops(
    kind: str, iops: int, rate: int, wrong: list[str]
) -> None:
    """A quarter MiB/s for each of the IOPS, and no other type takes it."""
    assert fields(volume_type=kind, volume_iops=iops, volume_throughput_mibps=rate) == wrong


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("m8i.12xlarge", False),
        ("r8i-flex.4xlarge", False),
        ("x99z.4xlarge", False),
        ("m5zn.12xlarge", True),
        ("m5zn.metal", True),
        ("m8i.metal-48xl", True),
    ],
)
def test_only_what_can_nest_is_asked_to(name: str, wrong: bool) -> None:
    """Bare metal and old families are refused; an unknown family is EC2's to judge."""
    found = fields(instance_types=(name,), nested_virtualization=True)
    assert found == (["nestedVirtualization"] if wrong else [])
    assert fields(instance_types=(name,)) == []


def test_user_data_is_counted_in_bytes() -> None:
    """16 KiB of UTF-8, not of characters."""
    assert fields(user_data="a" * 16384) == []
    assert fields(user_data="ä" * 8193) == ["userData"]


def test_a_vpc_needs_its_subnets() -> None:
    """A VPC alone would be launched past: in the account's default one."""
    assert fields(vpc_id="vpc-1") == ["subnetIds"]
    assert fields(vpc_id="vpc-1", subnet_ids=("subnet-1",)) == []


@pytest.mark.parametrize(
    ("key", "value", "fine"),
    [
        ("team", "network", True),
        ("k8s.io/cluster", "a b", True),
        ("k" * 128, "v" * 256, True),
        ("k" * 129, "v", False),
        ("k", "v" * 257, False),
        ("", "v", False),
        ("aws:x", "v", False),
        ("AWS:x", "v", False),
        ("labfleet:owner", "thief", False),
        ("Name", "mine", False),
        ("a;b", "v", False),
        ("a", "v\n", False),
    ],
)
def test_tags_are_what_ec2_takes_and_not_ours(key: str, value: str, fine: bool) -> None:
    """Lengths, characters and reserved prefixes, with the key in the field's name."""
    found = aws_limits.tags({key: value}, "spec.tags")
    assert (found == ()) is fine
    assert all(field.startswith("spec.tags.") for field, _ in found)


def test_tags_are_counted() -> None:
    """Thirty of people's, so that ours fit beside them."""
    assert aws_limits.tags({f"k{number}": "" for number in range(30)}) == ()
    assert aws_limits.tags({f"k{number}": "" for number in range(31)}) != ()
