"""Programs that a command starts: directly, never through a shell."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Protocol


class Child(Protocol):
    """A program that was started and not yet waited for."""

    def wait(self) -> int:
        """Return its exit code once it ended; minus the number of the signal that ended it."""

    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""

    def send_signal(self, sig: int) -> None:
        """Pass a signal on to it; nothing happens when it has ended."""

    def kill(self) -> None:
        """End it now."""


class Processes:
    """Starts programs of this machine."""

    def find(self, program: str, env: Mapping[str, str]) -> str | None:
        """Return where a program is, by its path or along PATH; None when it is nowhere."""
        return shutil.which(program, path=env.get("PATH"))

    def start(self, argv: Sequence[str], env: Mapping[str, str]) -> Child:
        """Start a program with this terminal and these variables; OSError when it cannot be."""
        import subprocess

        # The caller's own command is what is to be run.
        return subprocess.Popen(list(argv), env=dict(env))  # noqa: S603

    def look(self, argv: Sequence[str], env: Mapping[str, str], seconds: float) -> int | None:
        """Run a program that says nothing and return its exit code; None when it gave none.

        None is for one that cannot be started, takes longer than that, or was ended by a signal.
        """
        import subprocess

        nothing = subprocess.DEVNULL
        try:
            done = subprocess.run(  # noqa: S603 - as above
                list(argv), env=dict(env), stdin=nothing, stdout=nothing, stderr=nothing,
                timeout=seconds, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.returncode if done.returncode >= 0 else None

    def foreground(self) -> bool:
        """Tell whether a terminal sends its Ctrl-C to this program, and so to those it started."""
        try:
            terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
        except OSError:
            return False
        try:
            return os.tcgetpgrp(terminal) == os.getpgrp()
        except OSError:
            return False
        finally:
            os.close(terminal)
