"""`labfleet server` as a process of its own, for tests of several of them over one store."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

PATIENCE = 120.0


class ServerProcess:
    """One child; `call` asks its API as the first admin."""

    def __init__(self, folder: Path, store: str, *options: str, **environment: str) -> None:
        self.token = folder / "token"
        arguments = [
            sys.executable, "-m", "labfleet", "server", "--data", str(folder), "--port", "0",
            "--log-format", "json", "--aws-endpoint-url", "http://127.0.0.1:9",
            "--admin-token-file", str(self.token), *(["--store", store] if store else []), *options,
        ]  # fmt: skip
        self.log = folder / f"log-{time.monotonic_ns()}"
        with self.log.open("wb") as file:
            self.process = subprocess.Popen(
                arguments, stdout=subprocess.PIPE, stderr=file, env={**os.environ, **environment}
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log.read_text("utf-8")[-3000:]
        self.url = json.loads(line)["url"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """End it as a lost machine ends."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=30)

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Return status and body, whatever they are."""
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, content, method=method)
        request.add_header("Authorization", f"Bearer {self.token.read_text('utf-8').strip()}")
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, refused.read()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Return the JSON of a call that succeeds."""
        status, content = self.ask(method, path, body)
        assert status < 300, (method, path, status, content)
        return json.loads(content or b"null")

    def said(self) -> list[dict[str, Any]]:
        """Return the lines of its log."""
        lines = self.log.read_text("utf-8").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]


def until(reached: Callable[[], Any], what: str) -> Any:
    """Return what is reached as soon as it is true."""
    end = time.monotonic() + PATIENCE
    while not (found := reached()):
        assert time.monotonic() < end, f"not within {PATIENCE:g} s: {what}"
        time.sleep(0.1)
    return found
