"""Many callers at once, with faults: nothing breaks, nothing is lost, nothing is left behind."""

import random
from concurrent.futures import ThreadPoolExecutor

from aws_simulator_process import end_simulator, launch_simulator
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from aws_simulator.fixture import ControlError

OWNER = {"Key": "labfleet:owner", "Value": "me"}
FAULTS = ("throttle", "drop_after", "drop_before", "truncated", "internal", "empty_page")
CALLERS, STEPS = 8, 30


def launch(fake, client, token, rng):
    """Launch one instance with its owner tag."""
    reply = client.run_instances(
        ImageId=fake.image,
        InstanceType="m5zn.metal",
        MinCount=1,
        MaxCount=1,
        ClientToken=token,
        SubnetId=rng.choice(fake.subnets[:4]),
        TagSpecifications=[{"ResourceType": "instance", "Tags": [OWNER]}],
    )
    return reply["Instances"][0]["InstanceId"]


def step(fake, client, ids, token, rng):
    """Do one thing of a caller's day."""
    if not ids or rng.random() < 0.35:
        ids.append(launch(fake, client, token, rng))
        return
    one = rng.choice(ids)
    tags = [{"Key": "k", "Value": token}]
    deeds = (
        lambda: client.stop_instances(InstanceIds=[one]),
        lambda: client.start_instances(InstanceIds=[one]),
        lambda: client.terminate_instances(InstanceIds=[one]),
        lambda: client.create_tags(Resources=[one], Tags=tags),
        lambda: client.describe_instances(Filters=[{"Name": "tag:k", "Values": ["*"]}]),
        lambda: client.describe_instance_status(IncludeAllInstances=True),
        lambda: fake.hand(rng.choice(["stop", "impair", "interrupt", "fail"]), one),
        lambda: fake.ask("POST", "snapshot", {"name": "s"}),
        lambda: fake.advance(20),
    )
    rng.choice(deeds)()


def day(fake, number):
    """Let one caller act; refusals and lost replies are part of it."""
    rng, client, ids = random.Random(number), fake.client(attempts=2), []
    for count in range(STEPS):
        try:
            step(fake, client, ids, f"{number}-{count}", rng)
        except (ClientError, BotoCoreError, ResponseParserError, ControlError):
            continue


def test_many_callers_break_nothing():
    """Eight callers under faults: no error of our own, and all that was launched can be ended."""
    fake = launch_simulator("--seed", "3", "--clock", "0")
    try:
        fake.config(lags={"instance": 2, "tags": 2, "state": 2, "flap": 0.02}, jitter=0.3)
        for fault in FAULTS:
            fake.rule(fault, p=0.03)
        with ThreadPoolExecutor(CALLERS) as pool:
            list(pool.map(lambda number: day(fake, number), range(CALLERS)))
        own = [entry for entry in fake.journal() if entry["status"] >= 500 and not entry["fault"]]
        assert own == []
        fake.ask("DELETE", "rules")
        fake.advance(1000)
        assert fake.summary()["instances_total"] > 20
        left = [each["id"] for each in fake.state()["instances"] if each["state"] != "terminated"]
        fake.client().terminate_instances(InstanceIds=left)
        fake.advance(1000)
        assert (fake.summary()["instances_left"], fake.summary()["volumes_left"]) == (0, 0)
        assert fake.invariants(owner="me") == []
    finally:
        end_simulator(fake)
