"""A simulator for tests of other programs: a process of its own, started and ended around them.

Use: `with running(version="2.8") as cml: ClientLibrary(cml.url, cml.username, cml.password, ...)`.
Three lines around it make it a pytest fixture; pytest itself is no dependency of the simulator.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

END_WITHIN = 10


@dataclass(frozen=True, slots=True)
class Running:
    """Where a simulator answers, and how to log in."""

    url: str
    control: str
    pid: int
    username: str = "admin"
    password: str = field(default="cml", repr=False)


@contextmanager
def running(
    *options: str, version: str = "2.9", speed: float = 1.0, rules: Sequence[str] = ()
) -> Iterator[Running]:
    """Start `python -m cml_simulator`, yield it when it answers, and end it in order."""
    argv = [sys.executable, "-m", "cml_simulator", "--port", "0", "--speed", str(speed)]
    argv += ["--version", version, *options]
    for rule in rules:
        argv += ["--rule", rule]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - ours
        try:
            line = process.stdout.readline() if process.stdout is not None else ""
            if not line:
                raise RuntimeError(f"the simulator did not start: {argv}")
            said = json.loads(line)
            yield Running(said["url"], said["control"], process.pid)
        finally:
            process.terminate()
            try:
                process.wait(END_WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()
