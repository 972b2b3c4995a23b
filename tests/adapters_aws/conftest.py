"""The adapter against the AWS simulator in a process of its own, on a free loopback port."""

import dataclasses
import json
import subprocess
import sys
import urllib.request

import pytest
import pytest_asyncio

from labfleet.adapters.aws.clients import Clients, Credentials, Deadlines
from labfleet.adapters.aws.compute import Ec2
from labfleet.adapters.aws.runner import ThreadRunner
from labfleet.interfaces.compute import LaunchRequest
from labfleet.resources.providers.aws import AwsSettings

OWNER = "3f0e7f5e-0000-4000-8000-000000000001"
REGION = "us-east-1"


class Cloud:
    """The simulator's control endpoint, and requests that fit it."""

    def __init__(self, ready):
        self.ready = ready
        self.url = ready["url"]

    def ask(self, method, path, body=None):
        """Call the control endpoint."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/_fake/{path}", data=data, method=method)
        with urllib.request.urlopen(request, timeout=10) as reply:
            return json.load(reply)

    def advance(self, seconds):
        """Let simulated seconds pass."""
        self.ask("POST", "clock", {"advance": seconds})

    def rule(self, **fields):
        """Add a fault rule."""
        self.ask("POST", "rules", fields)

    def hand(self, verb, *ids, **fields):
        """Do something from the console."""
        self.ask("POST", "hand", {"verb": verb, "ids": list(ids), **fields})

    def summary(self):
        """Return the numbers."""
        return self.ask("GET", "summary")

    def calls(self, action):
        """Return how often an action was called."""
        return self.ask("GET", "journal")["counts"].get(action, 0)

    def request(self, worker="w-1", aws=None, kind="m5zn.metal", subnet="", **changes):
        """Return a launch request; subnet None lets EC2 choose."""
        where = {} if subnet is None else {"subnet": subnet or self.ready["subnets"][0]["id"]}
        request = LaunchRequest(
            region=REGION,
            token=f"token-{worker}",
            worker=worker,
            worker_uid=f"uid-{worker}",
            attempt=1,
            choice={"image": self.ready["ami_id"], "type": kind, **where},
            settings=AwsSettings(**(aws or {})),
            pool="pool-a",
        )
        return dataclasses.replace(request, **changes)


@pytest.fixture(scope="session")
def cloud_process():
    process = subprocess.Popen(
        [sys.executable, "-m", "aws_simulator.main", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
    )
    cloud = Cloud(json.loads(process.stdout.readline()))
    cloud.defaults = cloud.ask("GET", "config")
    yield cloud
    process.terminate()
    process.wait()
    process.stdout.close()


@pytest.fixture
def cloud(cloud_process):
    cloud_process.ready.update(cloud_process.ask("POST", "reset", {}))
    cloud_process.ask("POST", "config", cloud_process.defaults)
    return cloud_process


@pytest.fixture(scope="session")
def shared_clients(cloud_process):
    clients = Clients(
        credentials=Credentials("any", "any"),
        endpoint_url=cloud_process.url,
        deadlines=Deadlines(connect=2, read=5),
    )
    yield clients
    clients.close()


@pytest_asyncio.fixture
async def ec2(cloud, shared_clients):
    runner = ThreadRunner(4)
    yield Ec2(owner=OWNER, clients=shared_clients, runner=runner)
    runner.close()


@pytest_asyncio.fixture
async def stranger(cloud, shared_clients):
    """A second installation in the same account."""
    runner = ThreadRunner(1)
    yield Ec2(owner="another-installation", clients=shared_clients, runner=runner)
    runner.close()
