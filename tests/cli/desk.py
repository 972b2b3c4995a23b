"""A command's inputs by hand: time that only waiting moves, programs that are played, real signals."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labfleet.cli.kit import environment
from labfleet.kernel.clock import parse_instant

TURN = 0.002
"""Real seconds that the thread of a lease rests where it would rest for half a minute."""
Play = Callable[["Played"], int]


def until(reached: Callable[[], Any]) -> None:
    """Return when something is so; fail after ten seconds."""
    end = time.monotonic() + 10
    while not reached():
        assert time.monotonic() < end
        time.sleep(0.001)


def lease_over() -> bool:
    """Tell whether no thread reports that a run lives any more."""
    return not any(each.name.startswith("lease of ") for each in threading.enumerate())


@dataclass
class Played:
    """A program that a test plays; `signals` is what it was sent."""

    argv: list[str]
    env: dict[str, str]
    play: Play
    signals: list[int] = field(default_factory=list)
    killed: threading.Event = field(default_factory=threading.Event)

    def wait(self) -> int:
        """Play it and return its exit code."""
        return self.play(self)

    def poll(self) -> int | None:
        """Return None: it is asked only while it runs."""

    def send_signal(self, sig: int) -> None:
        """Note a signal."""
        self.signals.append(sig)

    def kill(self) -> None:
        """Note its end."""
        self.killed.set()

    def signalled(self, number: int) -> None:
        """Send this process a signal, as a person does, and return when it has come through."""
        before = len(self.signals)
        os.kill(os.getpid(), number)
        until(lambda: len(self.signals) > before or self.killed.is_set())


@dataclass
class PlayedPrograms:
    """Programs of a machine: each is `play`, looks give `looks` in order."""

    play: Play = lambda _: 0
    looks: list[int | None] = field(default_factory=list)
    looked: list[list[str]] = field(default_factory=list)
    started: list[Played] = field(default_factory=list)
    terminal: bool = False

    def find(self, program: str, env: Any) -> str | None:
        """Return a place for every program but `nosuch`."""
        del env
        return None if program == "nosuch" else f"/bin/{program}"

    def start(self, argv: Any, env: Any) -> Played:
        """Start a program; `broken` cannot be."""
        if argv[0] == "broken":
            raise OSError(8, "Exec format error")
        made = Played(list(argv), dict(env), self.play)
        self.started.append(made)
        return made

    def look(self, argv: Any, env: Any, seconds: float) -> int | None:
        """Return the next look's exit code."""
        del env, seconds
        self.looked.append(list(argv))
        return self.looks.pop(0)

    def foreground(self) -> bool:
        """Tell whether a terminal's Ctrl-C reaches the programs too."""
        return self.terminal


@dataclass
class Desk:
    """`elapsed` is how long the command has waited; `resting` is called when it rests."""

    programs: PlayedPrograms = field(default_factory=PlayedPrograms)
    elapsed: float = 0.0
    resting: Callable[[float], None] | None = None
    keys: Iterator[int] = field(default_factory=itertools.count)

    def rest(self, seconds: float) -> None:
        """Let time pass."""
        self.elapsed += seconds
        if self.resting is not None:
            self.resting(seconds)

    def pause(self, event: threading.Event, seconds: float) -> bool:
        """Rest until an event; the thread of a lease turns quickly instead."""
        if threading.current_thread() is not threading.main_thread():
            return event.wait(TURN)
        self.rest(seconds)
        return event.is_set()

    def environment(self, home: Path, **env: str) -> environment.CommandEnvironment:
        """Return the inputs of one command."""
        return environment.CommandEnvironment(
            env=env,
            home=home,
            now=lambda: parse_instant("2026-11-29T12:00:00Z"),
            monotonic=lambda: self.elapsed,
            sleep=self.rest,
            pause=self.pause,
            processes=self.programs,  # type: ignore[arg-type]  # plays its part
            rng=lambda: 0.5,
            key=lambda: f"key-{next(self.keys)}",
            terminal_in=lambda: False,
            terminal_out=lambda: False,
        )
