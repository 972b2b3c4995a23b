"""A command's inputs: environment variables, time, random numbers, ids, and the terminal.

One object, made by `real` for the program and by hand in tests; nothing else in this package
reads the environment, the clock or random numbers.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from labfleet.cli.kit.processes import Processes


def _now() -> datetime:
    return datetime.now(UTC)


def _key() -> str:
    return str(uuid.uuid4())


def _terminal_in() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _terminal_out() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _columns() -> int:
    return shutil.get_terminal_size().columns


def _pause(until: threading.Event, seconds: float) -> bool:
    return until.wait(seconds)


@dataclass
class CommandEnvironment:
    """Environment, clock, random numbers; `error_base` is added to the exit code of errors (diff: 20).

    `pause` rests for so many seconds, at most until the event, and returns whether that came.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    home: Path = field(default_factory=Path.home)
    now: Callable[[], datetime] = _now
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    pause: Callable[[threading.Event, float], bool] = _pause
    processes: Processes = field(default_factory=Processes)
    rng: Callable[[], float] = random.random
    key: Callable[[], str] = _key
    terminal_in: Callable[[], bool] = _terminal_in
    terminal_out: Callable[[], bool] = _terminal_out
    columns: Callable[[], int] = _columns
    error_base: int = 0


def real() -> CommandEnvironment:
    """Return the environment of this process."""
    return CommandEnvironment(env=os.environ)
