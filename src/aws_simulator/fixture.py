"""A simulator for tests of other programs, in a process of its own or inside this one.

Use: `with running(seed=1) as aws: boto3.client("ec2", endpoint_url=aws.url, ...)`. Any credentials
will do. `inside` is the same in a thread of this process: quicker to start and to debug, but there
can be one at a time, because moto keeps its classes and its state per process.
"""

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

from aws_simulator.main import ENVIRONMENT

END_WITHIN = 10
DEADLINE = 30


class ControlError(Exception):
    """An error of the control endpoint: the HTTP status and its message."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


@dataclasses.dataclass
class Running:
    """Where a simulator answers, what it said when it was ready, and its control endpoint."""

    url: str
    ready: dict[str, Any]
    pid: int

    @property
    def image(self) -> str:
        """The id of the CML image."""
        return str(self.ready["ami_id"])

    @property
    def subnets(self) -> list[str]:
        """The subnets of the default network, one for each zone in the zones' order."""
        return [subnet["id"] for subnet in self.ready["subnets"]]

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Call `/_control/PATH`; ControlError when it objects."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310 - loopback
            f"{self.url}/_control/{path}", data=data, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE) as reply:  # noqa: S310
                return json.load(reply)
        except urllib.error.HTTPError as error:
            with error:
                raise ControlError(error.code, json.load(error)["error"]) from None

    def config(self, **changes: Any) -> Any:
        """Change settings; returns all of them."""
        return self.ask("POST", "config", changes)

    def rule(self, fault: str, **fields: Any) -> Any:
        """Add a fault rule; returns all rules."""
        return self.ask("POST", "rules", {"fault": fault, **fields})

    def hand(self, verb: str, *ids: str, **fields: Any) -> Any:
        """Act on instances from outside the API; returns their real states."""
        return self.ask("POST", "hand", {"verb": verb, "ids": list(ids), **fields})

    def advance(self, seconds: float) -> float:
        """Let simulated seconds pass; returns the simulated Unix time."""
        return float(self.ask("POST", "clock", {"advance": seconds})["now"])

    def now(self) -> float:
        """Return the simulated Unix time."""
        return float(self.ask("GET", "clock")["now"])

    def state(self) -> Any:
        """Return instances, volumes and addresses as they truly are."""
        return self.ask("GET", "state")

    def summary(self) -> Any:
        """Return the numbers a run is judged by."""
        return self.ask("GET", "summary")

    def journal(self, after: int = 0, **wanted: str) -> list[dict[str, Any]]:
        """Return every journal entry after a number that equals the wanted fields."""
        found: list[dict[str, Any]] = []
        more = "".join(f"&{name}={value}" for name, value in wanted.items())
        while True:
            page = self.ask("GET", f"journal?after={after}{more}")["entries"]
            if not page:
                return found
            found += page
            after = page[-1]["number"]

    def calls(self, action: str) -> int:
        """Return how often an action was called since the start or the reset."""
        return int(self.ask("GET", "journal?limit=0")["counts"].get(action, 0))

    def invariants(self, **facts: Any) -> list[dict[str, str]]:
        """Return the violations that the facts allow to judge; see docs/reference."""
        return list(self.ask("POST", "invariants", facts))

    def reset(self, **fields: Any) -> dict[str, Any]:
        """Begin anew (`seed`, `config`); keeps the new image and subnets in `ready`."""
        self.ready.update(self.ask("POST", "reset", fields))
        return self.ready


@contextlib.contextmanager
def running(
    *options: str, clock: float = 1.0, seed: int | None = None, epoch: float | None = None
) -> Iterator[Running]:
    """Start `python -m aws_simulator.main`, yield it when it answers, and end it in order."""
    argv = [sys.executable, "-m", "aws_simulator.main", "--port", "0", "--clock", str(clock)]
    argv += [] if seed is None else ["--seed", str(seed)]
    argv += [] if epoch is None else ["--epoch", str(epoch)]
    argv += options
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - ours
        try:
            line = process.stdout.readline() if process.stdout is not None else ""
            if not line:
                raise RuntimeError(f"the simulator did not start: {argv}")
            said = json.loads(line)
            yield Running(said["url"], said, process.pid)
        finally:
            process.terminate()
            try:
                process.wait(END_WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()


@contextlib.contextmanager
def inside(
    *,
    clock: float = 1.0,
    seed: int | None = None,
    epoch: float | None = None,
    region: str = "us-east-1",
    cml: str | None = None,
) -> Iterator[Running]:
    """Serve from a thread of this process; without the command's settling thread."""
    os.environ.update(ENVIRONMENT)
    from aws_simulator import server  # moto reads the environment when it is imported

    started = time.time() if epoch is None else epoch
    served = server.Server(port=0, epoch=started, speed=clock, region=region, seed=seed, cml=cml)
    served.start()
    try:
        yield Running(served.url, {"url": served.url, **served.furnished}, os.getpid())
    finally:
        served.stop()
