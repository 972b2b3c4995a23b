"""Starts the AWS simulator as a process and talks to it: what the tests of this folder share."""

import json
import subprocess
import sys
import urllib.error
import urllib.request

import boto3
import botocore.config
import pytest


class Fake:
    """The running simulator: its control endpoint and boto3 clients."""

    def __init__(self, ready, process):
        self.url = ready["url"]
        self.ready = ready
        self.process = process

    def ask(self, method, path, body=None):
        """Call the control endpoint."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/_fake/{path}", data=data, method=method)
        with urllib.request.urlopen(request, timeout=10) as reply:
            return json.load(reply)

    def refusal(self, method, path, body=None):
        """Call the control endpoint and return (status, error)."""
        with pytest.raises(urllib.error.HTTPError) as caught:
            self.ask(method, path, body)
        with caught.value as error:
            return error.code, json.load(error)["error"]

    def advance(self, seconds):
        """Let simulated seconds pass."""
        return self.ask("POST", "clock", {"advance": seconds})

    def rule(self, **fields):
        """Add a fault rule."""
        return self.ask("POST", "rules", fields)

    def client(self, service="ec2", attempts=1, **config):
        """Return a boto3 client with its own retries off."""
        return boto3.client(
            service,
            region_name="us-east-1",
            endpoint_url=self.url,
            aws_access_key_id="any",
            aws_secret_access_key="any",
            config=botocore.config.Config(
                retries={"mode": "standard", "total_max_attempts": attempts},
                read_timeout=10,
                connect_timeout=2,
                **config,
            ),
        )

    def image(self):
        """Return the id of the CML image."""
        return self.ready["ami_id"]


def launch_simulator(*args):
    """Start a simulator process on a free port and wait for its ready line."""
    process = subprocess.Popen(
        [sys.executable, "-m", "aws_simulator.main", "--port", "0", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(process.stderr.read())
    return Fake(json.loads(line), process)


def end_simulator(fake):
    """Stop a simulator in order."""
    fake.process.terminate()
    code = fake.process.wait(timeout=10)
    fake.process.stdout.close()
    fake.process.stderr.close()
    return code
