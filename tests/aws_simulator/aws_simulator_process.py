"""Starts the AWS simulator as a process and talks to it: what the tests of this folder share."""

import json
import subprocess
import sys
import tempfile

import boto3
import botocore.config
import pytest
from botocore.exceptions import ClientError

from aws_simulator.fixture import ControlError, Running


class Fake(Running):
    """The running simulator: its control endpoint and boto3 clients."""

    def __init__(self, ready, process):
        super().__init__(ready["url"], ready, process.pid)
        self.process = process

    def refusal(self, method, path, body=None):
        """Call the control endpoint and return (status, error)."""
        with pytest.raises(ControlError) as caught:
            self.ask(method, path, body)
        return caught.value.status, caught.value.sentence

    def client(self, service="ec2", attempts=1, region="us-east-1", key="any", **config):
        """Return a boto3 client with its own retries off."""
        return boto3.client(
            service,
            region_name=region,
            endpoint_url=self.url,
            aws_access_key_id=key,
            aws_secret_access_key="any",
            config=botocore.config.Config(
                retries={"mode": "standard", "total_max_attempts": attempts},
                **{"read_timeout": 10, "connect_timeout": 2, **config},
            ),
        )


def code_of(call, **fields):
    """Return (HTTP status, code) of a refusal."""
    with pytest.raises(ClientError) as caught:
        call(**fields)
    reply = caught.value.response
    return reply["ResponseMetadata"]["HTTPStatusCode"], reply["Error"]["Code"]


def launch_simulator(*args):
    """Start a simulator process on a free port and wait for its ready line."""
    # A file, not a pipe: a pipe that nobody reads stops who writes into it.
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "aws_simulator.main", "--port", "0", *args],
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        )
        line = process.stdout.readline()
        if not line:
            process.wait()
            said.seek(0)
            raise RuntimeError(said.read())
    return Fake(json.loads(line), process)


def end_simulator(fake):
    """Stop a simulator in order."""
    fake.process.terminate()
    code = fake.process.wait()
    fake.process.stdout.close()
    return code
