"""The demo's child processes: the simulators and the server, which is restarted when it dies."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

READY_SECONDS = 60.0
STOP_SECONDS = 20.0


class NotStarted(RuntimeError):
    """A child ended or stayed silent before it was ready."""


class Ports:
    """Free TCP ports that are kept for the children until `close`.

    Each is bound on all addresses and never listened on. A child that sets SO_REUSEADDR may listen
    there, die, and listen again; the system gives the port to nobody else meanwhile.
    """

    def __init__(self) -> None:
        self._kept: list[socket.socket] = []

    def keep(self) -> int:
        """Return one more port."""
        made = socket.socket()
        self._kept.append(made)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("", 0))
        return int(made.getsockname()[1])

    def close(self) -> None:
        """Let all of them go."""
        while self._kept:
            self._kept.pop().close()


@dataclass
class Child:
    """One program under watch; its stderr goes to a file so that the screen stays ours."""

    name: str
    arguments: list[str]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0

    def start(self) -> None:
        """Start it; its stdout is a pipe for the ready line."""
        self.starts += 1
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603 - our own programs
                [sys.executable, "-m", "labfleet", self.name, *self.arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **self.environment},
                start_new_session=True,
            )

    def ready(self) -> dict[str, Any]:
        """Return the JSON of the ready line; NotStarted when it does not come."""
        process = self.process
        if process is None or process.stdout is None:
            raise NotStarted(f"{self.name} was not started")
        line = process.stdout.readline()
        try:
            told = json.loads(line)
        except ValueError:
            tail = self.log.read_text(errors="replace")[-1500:]
            raise NotStarted(f"{self.name} did not start: {line!r}\n{tail}") from None
        return dict(told)

    @property
    def running(self) -> bool:
        """Tell whether it lives."""
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """Kill it with SIGKILL, like a crash."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGKILL)
            self.process.wait(STOP_SECONDS)

    def stop(self) -> int | None:
        """Stop it in order; kill it when it does not end in time."""
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.terminate()
            deadline = time.monotonic() + STOP_SECONDS
            while self.process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            if self.process.poll() is None:
                self.kill()
        if self.process.stdout is not None:
            self.process.stdout.close()
        return self.process.returncode


@dataclass
class Stage:
    """All children of one demo."""

    cml: Child
    aws: Child
    kubernetes: Child
    server: Child
    ports: Ports
    restarts: int = 0

    def keep_alive(self) -> bool:
        """Start the server again when it died; tell whether that was needed."""
        if self.server.running:
            return False
        if self.server.process is not None and self.server.process.stdout is not None:
            self.server.process.stdout.close()
        self.server.start()
        self.restarts += 1
        return True

    def close(self) -> None:
        """Stop all children, the server first; then let their ports go."""
        for child in (self.server, self.kubernetes, self.aws, self.cml):
            child.stop()
        self.ports.close()
