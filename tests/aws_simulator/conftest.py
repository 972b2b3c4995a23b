"""One simulator process for the folder, reset before each test; its clock stands until advanced."""

import pytest
from aws_simulator_process import end_simulator, launch_simulator


@pytest.fixture(scope="session")
def simulator_process():
    fake = launch_simulator()
    yield fake
    end_simulator(fake)


@pytest.fixture
def fake(simulator_process):
    simulator_process.reset(config=True)
    simulator_process.ask("POST", "clock", {"offset": 0, "speed": 0})
    return simulator_process


@pytest.fixture(scope="session")
def shared_client(simulator_process):
    return simulator_process.client()


@pytest.fixture
def ec2(fake, shared_client):
    return shared_client


@pytest.fixture
def launch(fake, ec2):
    def run(**changes):
        fields = {
            "ImageId": fake.image,
            "InstanceType": "m5zn.metal",
            "MinCount": 1,
            "MaxCount": 1,
            "ClientToken": "token-1",
            "SubnetId": fake.ready["subnets"][0]["id"],
        }
        reply = ec2.run_instances(**{**fields, **changes})
        return [item["InstanceId"] for item in reply["Instances"]]

    return run


@pytest.fixture
def state_of(ec2):
    def ask(instance_id):
        reply = ec2.describe_instances(InstanceIds=[instance_id])
        return reply["Reservations"][0]["Instances"][0]

    return ask
