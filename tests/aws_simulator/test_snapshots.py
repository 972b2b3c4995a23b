"""Snapshots, seeds and the clock: the same state again, and the same ids from the same calls."""

import json
import time
import urllib.request

import pytest
from aws_simulator_process import code_of, end_simulator, launch_simulator


def shape(fake):
    """Return the true state."""
    return fake.state()


def test_a_snapshot_brings_the_whole_state_back(fake, ec2, launch, state_of):
    """Instances, volumes, tags, rules, settings, tokens, journal and time are as they were."""
    (instance_id,) = launch()
    fake.client("cloudwatch").list_metrics()
    fake.rule("throttle", action="StopInstances", times=3)
    fake.config(vcpu_limit=96)
    fake.advance(470)
    before, journal = shape(fake), fake.journal()
    fake.ask("POST", "snapshot", {"name": "early"})
    fake.ask("DELETE", "rules")
    fake.config(vcpu_limit=0)
    fake.client(region="eu-west-3").create_volume(Size=1, AvailabilityZone="eu-west-3a")
    fake.advance(1000)
    ec2.create_tags(Resources=[instance_id], Tags=[{"Key": "a", "Value": "b"}])
    ec2.terminate_instances(InstanceIds=[instance_id])
    fake.advance(1000)
    for _ in range(2):
        fake.ask("POST", "restore", {"name": "early"})
        assert shape(fake) == before
        assert fake.journal() == journal
        assert fake.ask("GET", "config")["vcpu_limit"] == 96
        assert state_of(instance_id)["State"]["Name"] == "pending"
        fake.advance(11)
        assert state_of(instance_id)["State"]["Name"] == "running"
        assert code_of(ec2.stop_instances, InstanceIds=[instance_id])[0] == 503
        assert launch() == [instance_id]
        ec2.terminate_instances(InstanceIds=[instance_id])


def test_what_follows_a_restored_snapshot_is_the_same(fake, launch):
    """The random numbers and the ids go back too: the next launch is the same launch again."""
    fake.ask("POST", "snapshot", {"name": "x"})
    first = launch()
    fake.ask("POST", "restore", {"name": "x"})
    assert launch() == first


def test_an_unknown_snapshot_is_refused(fake):
    """A name that was never taken is 400 with the names there are."""
    assert "no snapshot" in fake.refusal("POST", "restore", {"name": "never"})[1]


def test_a_reset_with_a_seed_begins_the_same_again(fake, launch):
    """The same seed and the same calls give the same image, nets and instances."""

    def play():
        fake.reset(seed=5, config=True)
        fake.config(jitter=0.3)
        fake.rule("throttle", action="StopInstances", p=0.5)
        ids = launch(MinCount=3, MaxCount=3)
        return (
            ids,
            fake.image,
            fake.subnets,
            [item["private_ip"] for item in fake.state()["instances"]],
        )

    assert play() == play()


def test_two_processes_with_one_seed_agree():
    """Ids, addresses, states and times are those of seed and calls, not of the process."""

    def play():
        fake = launch_simulator("--seed", "11", "--epoch", "1800000000", "--clock", "0")
        try:
            ec2 = fake.client()
            fake.config(jitter=0.2)
            for index in range(3):
                ec2.run_instances(
                    ImageId=fake.image,
                    InstanceType="m5zn.metal",
                    MinCount=1,
                    MaxCount=1,
                    ClientToken=f"t-{index}",
                )
            fake.advance(500)
            fake.hand("stop", fake.state()["instances"][1]["id"], after=100)
            fake.advance(1000)
            return fake.state(), fake.journal()
        finally:
            end_simulator(fake)

    assert play() == play()


def test_the_clock_changes_its_factor_without_a_jump(fake):
    """A new factor begins at the present moment."""
    before, begun = fake.now(), time.monotonic()
    fake.ask("POST", "clock", {"speed": 1000.0})
    fast = fake.ask("GET", "clock")
    took = time.monotonic() - begun
    fake.ask("POST", "clock", {"speed": 0.0})
    assert fast["speed"] == 1000.0
    assert 0 <= fast["now"] - before <= 1000.0 * took
    assert fake.refusal("POST", "clock", {"speed": -1})[0] == 400


@pytest.mark.parametrize("base", ["_control", "_fake"])
def test_the_older_name_of_the_endpoint_still_answers(fake, base):
    """`/_fake` is `/_control`."""
    with urllib.request.urlopen(f"{fake.url}/{base}/clock", timeout=10) as reply:
        assert json.load(reply)["speed"] == 0.0


def test_the_journal_can_be_asked_for_a_part(fake, ec2, launch):
    """Entries are found by action, key and error, page by page."""
    launch()
    ec2.describe_instances()
    code_of(ec2.describe_instances, InstanceIds=["i-bad"])
    assert [entry["action"] for entry in fake.journal()] == [
        "RunInstances",
        "DescribeInstances",
        "DescribeInstances",
    ]
    assert len(fake.journal(error="InvalidInstanceID.Malformed")) == 1
    assert fake.calls("DescribeInstances") == 2
