"""The AWS simulator inside this process and in virtual time, behind the real EC2 adapter.

boto3 builds, signs and parses every request; what would be the network is a function call into
the simulator's own WSGI application, so that its faults, buckets, clocks and journal are those
of `labfleet aws-simulator`. CML servers on the instances are the rehearsal's (`cml_on_aws`).
"""

from __future__ import annotations

import asyncio
import functools
import io
import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

from botocore.awsrequest import HeadersDict

from aws_simulator.main import ENVIRONMENT

os.environ.update(ENVIRONMENT)  # moto reads it when it is imported

from moto.cloudwatch.models import cloudwatch_backends
from moto.ec2.models import ec2_backends
from moto.moto_api._internal import mock_random

from aws_simulator import faults, images, patches, views
from aws_simulator.clock import ScaledClock
from aws_simulator.control import Control
from aws_simulator.dispatch import Dispatcher
from aws_simulator.gate import Gate
from aws_simulator.world import World as Sky
from labfleet.adapters.aws import inline
from labfleet.adapters.aws.clients import RETRIES, Clients, Credentials
from labfleet.adapters.aws.compute import Ec2
from labfleet.rehearsal.time.virtual_host import EPOCH

REGION = "us-east-1"
LATENCY = 0.05
T = TypeVar("T")


@dataclass(frozen=True)
class Machine:
    """One instance as the CML server on its disk sees it: since when it runs (Unix seconds)."""

    server_id: str
    since: float = 0.0


@dataclass
class AwsCloud:
    """One simulated account, its console, and how CML servers find their machines."""

    clock: Any
    seed: int = 1
    _addresses: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        loop = asyncio.get_running_loop()
        epoch = EPOCH.timestamp()
        ticking = ScaledClock(epoch, 1.0, real=lambda: epoch + loop.time())
        self.sky = Sky(clock=ticking, region=REGION, seed=self.seed)
        mock_random.seed(random.Random(self.seed).getrandbits(64))
        patches.install(self.sky)
        self.ready = self._begin()
        self.gate = Gate(
            self.sky,
            _application(),
            Control(self.sky, self._begin),  # type: ignore[arg-type]
        )

    def _begin(self) -> dict[str, Any]:
        with self.sky.lock:
            self.sky.clear()
            for service in (ec2_backends, cloudwatch_backends):
                for account in list(service.values()):
                    for backend in list(account.values()):
                        backend.reset()
            return dict(images.furnish(self.sky))

    # --- the way in ----------------------------------------------------------------------

    def adapter(self, owner: str, *, key: str = "labfleet") -> Ec2:
        """Return the real adapter of one installation, with an access key of its own."""
        clients = _clients(key)
        _CURRENT[key] = self
        return Ec2(owner=owner, clients=clients, runner=Patient())

    def console(self) -> Any:
        """Return boto3's client of somebody at the console."""
        _CURRENT["console"] = self
        return _clients("console").get(REGION, "read")

    def answer(self, request: Any) -> inline.Answer:
        """Serve a prepared request from the simulator's application."""
        status: list[str] = []
        headers: list[tuple[str, str]] = []

        def start(code: str, given: list[tuple[str, str]], *_: Any) -> Callable[[bytes], None]:
            status.append(code)
            headers.extend(given)
            return lambda _: None

        body = b"".join(self.gate(_environ(request), start))
        if not status:
            raise inline.lost("closed")  # the simulator hung up
        return inline.Answer(int(status[0].split()[0]), body, HeadersDict(dict(headers)))

    # --- hands and eyes ------------------------------------------------------------------

    def rule(self, fault: str, **fields: Any) -> faults.Rule:
        """Add a fault rule, as `/_control/rules` does."""
        self.sky.rule_number += 1
        made = faults.parse_rule({"fault": fault, **fields}, self.sky.rule_number)
        self.sky.rules.append(made)
        return made

    def config(self, **changes: Any) -> None:
        """Change settings, as `/_control/config` does."""
        self.sky.config.merge(changes)

    def hand(self, verb: str, *ids: str, **fields: Any) -> Any:
        """Let somebody act from outside, as `/_control/hand` does."""
        return self.ask("POST", "hand", {"verb": verb, "ids": list(ids), **fields})

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Call the control endpoint."""
        status: list[str] = []
        content = b"" if body is None else json.dumps(body).encode()
        environ = {
            "REQUEST_METHOD": method, "PATH_INFO": f"/_control/{path.partition('?')[0]}",
            "QUERY_STRING": path.partition("?")[2], "CONTENT_LENGTH": str(len(content)),
            "wsgi.input": io.BytesIO(content),
        }  # fmt: skip
        reply = b"".join(self.gate(environ, lambda code, *_: status.append(code)))
        found = json.loads(reply)
        assert status[0].startswith("200"), found
        return found

    def instances(self, worker: str | None = None) -> list[dict[str, Any]]:
        """Return the true state of what costs money, of one worker or all."""
        self.sky.settle()
        return [
            each
            for each in views.state(self.sky)["instances"]
            if each["state"] != "terminated"
            and worker in {None, each["tags"].get("labfleet:worker")}
        ]

    def stray(self, tags: dict[str, str]) -> str:
        """Launch a machine that no record stands for, from the console; return its id."""
        ready = self.ready
        made = self.console().run_instances(
            ImageId=ready["ami_id"], InstanceType="m5zn.metal", MinCount=1, MaxCount=1,
            SubnetId=ready["subnets"][0]["id"],
            ClientToken=f"console-{self.calls('RunInstances')}",
            TagSpecifications=[
                {"ResourceType": kind, "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}
                for kind in ("instance", "volume", "network-interface")
            ],
        )  # fmt: skip
        return str(made["Instances"][0]["InstanceId"])

    def calls(self, action: str) -> int:
        """Return how often an action was called."""
        return int(self.sky.journal.counts[action])

    def violations(self, **facts: Any) -> list[dict[str, str]]:
        """Return which of I1 to I9 do not hold, by the facts given."""
        return list(self.ask("POST", "invariants", facts))

    # --- what the CML servers ask ----------------------------------------------------------

    def alive(self, worker: str | None = None) -> list[Machine]:
        """Return the machines of a worker that are not terminated."""
        return [Machine(each["id"]) for each in self.instances(worker)]

    def at(self, address: str) -> Machine | None:
        """Return the running machine at an address."""
        self.sky.settle()
        known = self._addresses.get(address)
        if known is None or address not in self._where(known):
            self._addresses = {
                place: name
                for name, machine in self.sky.machines.items()
                if machine.state == "running"
                for place in self._where(name)
            }
            known = self._addresses.get(address)
        if known is None:
            return None
        since = self.running_since(known)
        return None if since is None else Machine(known, since)

    def _where(self, instance_id: str) -> tuple[str, ...]:
        nic = self.sky.instances[instance_id].nics.get(0)
        found = () if nic is None else (nic.public_ip, nic.private_ip_address)
        return tuple(each for each in found if each)

    def running_since(self, instance_id: str) -> float | None:
        """Return since when an instance runs; None when it does not, or there is none."""
        self.sky.settle()
        found = self.sky.machines.get(instance_id)
        return found.since if found is not None and found.state == "running" else None


class Patient:
    """The adapter's runner: a call takes a moment of virtual time and runs here."""

    async def run(self, call: Callable[[], T], *, change: bool = False) -> T:
        """Run the call at the far side of a small delay."""
        del change
        await asyncio.sleep(LATENCY)
        return call()

    def close(self) -> None:
        """Hold nothing."""


_CURRENT: dict[str, AwsCloud] = {}


@functools.cache
def _clients(key: str) -> Clients:
    """Return the SDK's clients of an access key; making them takes a second, so once."""

    def answer(request: Any) -> inline.Answer:
        return _CURRENT[key].answer(request)  # whichever cloud there is now

    return Clients(
        credentials=Credentials(key, "secret"),
        endpoint_url="http://127.0.0.1:5000",
        before_send=answer,
        retries={**RETRIES, "read": ("standard", 1)},  # waiting for reads would take real time
    )


@functools.cache
def _application() -> Any:
    return Dispatcher()


def _environ(request: Any) -> dict[str, Any]:
    """Return a prepared request as a WSGI server would hand it over."""
    parts = urlsplit(request.url)
    body = request.body or b""
    content = body.encode() if isinstance(body, str) else bytes(body)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method, "PATH_INFO": parts.path or "/",
        "QUERY_STRING": parts.query, "CONTENT_LENGTH": str(len(content)),
        "SERVER_NAME": "127.0.0.1", "SERVER_PORT": "5000", "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1", "wsgi.url_scheme": "http", "wsgi.version": (1, 0),
        "wsgi.input": io.BytesIO(content), "wsgi.errors": io.StringIO(), "wsgi.multithread": False,
        "wsgi.multiprocess": False, "wsgi.run_once": False, "HTTP_HOST": "127.0.0.1:5000",
    }  # fmt: skip
    for name, value in request.headers.items():
        text = value.decode() if isinstance(value, bytes) else str(value)
        word = name.upper().replace("-", "_")
        environ["CONTENT_TYPE" if word == "CONTENT_TYPE" else f"HTTP_{word}"] = text
    return environ
