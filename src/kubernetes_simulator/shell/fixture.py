"""A simulator for tests of other programs: a process of its own, started and ended around them.

Use: `with running(folder, speed=60) as cluster: ...` and give `cluster.kubeconfig` to a client.
Three lines around it make it a pytest fixture; pytest itself is no dependency of the simulator.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

END_WITHIN = 10


@dataclass(frozen=True, slots=True)
class Running:
    """Where a simulator answers.

    url: of the API. control: of the control route. kubeconfig: the file by which clients reach it.
    """

    url: str
    control: str
    kubeconfig: Path
    pid: int
    token: str = field(repr=False)


@contextmanager
def running(
    folder: Path,
    *options: str,
    speed: float = 1.0,
    token: str = "for-tests",  # noqa: S107 - opens nothing else
) -> Iterator[Running]:
    """Start `python -m kubernetes_simulator`, yield it when it answers, and end it in order."""
    config = folder / "kubeconfig"
    argv = [sys.executable, "-m", "kubernetes_simulator", "--port", "0", "--speed", str(speed)]
    argv += ["--kubeconfig", str(config), "--token", token, *options]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603 - ours
        try:
            line = process.stdout.readline() if process.stdout is not None else ""
            if not line:
                raise RuntimeError(f"the simulator did not start: {argv}")
            said = json.loads(line)
            yield Running(said["url"], said["control"], config, process.pid, token)
        finally:
            process.terminate()
            try:
                process.wait(END_WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()
