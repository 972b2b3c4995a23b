"""How the simulator starts: the self-test of moto, and the helper for other programs' tests."""

import boto3
import pytest

from aws_simulator import fixture, main, patches


def test_a_moto_that_has_moved_ends_the_command(monkeypatch, capsys):
    """A patch point that is gone is named on stderr, with an exit code of its own."""
    monkeypatch.setattr(patches, "ORIGINALS", {})

    def gone():
        raise patches.PatchPointGoneError("Instance.reboot is gone")

    monkeypatch.setattr(patches, "check", gone)
    assert main.main(["--port", "0"]) == 3
    assert "Instance.reboot is gone" in capsys.readouterr().err


def test_every_patch_that_is_made_is_checked():
    """Each original that is kept belongs to a patch point of the self-test."""
    checked = {name for _, name, _ in patches.POINTS} | {name for _, name in patches.NAMES}
    assert set(patches.ORIGINALS) <= checked


def test_the_helper_starts_a_process_for_other_tests():
    """`running` gives the URL, the control endpoint and the state, and ends what it started."""
    with fixture.running(clock=60.0, seed=1) as aws:
        client = boto3.client(
            "ec2",
            region_name="us-east-1",
            endpoint_url=aws.url,
            aws_access_key_id="x",
            aws_secret_access_key="x",
        )
        fields = {"ImageId": aws.image, "InstanceType": "m5zn.metal", "SubnetId": aws.subnets[0]}
        reply = client.run_instances(**fields, MinCount=1, MaxCount=1, ClientToken="t")
        (instance_id,) = (item["InstanceId"] for item in reply["Instances"])
        aws.advance(481)
        assert aws.hand("impair", instance_id) == {instance_id: "running"}
        assert aws.calls("RunInstances") == len(aws.journal(action="RunInstances")) == 1
        assert aws.reset(seed=2)["ami_id"] == aws.image
        assert aws.state()["instances"] == []
        with pytest.raises(fixture.ControlError, match="verb"):
            aws.hand("kick")
