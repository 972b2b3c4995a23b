"""Signals that end a command: while it waits, an exception; while a child runs, handed on to it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

ENDING = ("SIGINT", "SIGTERM", "SIGHUP")


class Interrupted(BaseException):
    """A signal ends what is being waited for; `number` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(named(number))
        self.number = number

    @property
    def code(self) -> int:
        """Return the exit code that shells give to what a signal ended."""
        return 128 + self.number


class Interruptions:
    """Catches the signals that end a program, from `with` on; only in the main thread.

    A signal raises Interrupted, unless `hand_on` or `keep` says otherwise. One that is ignored when
    the program starts, as under nohup, stays ignored.
    """

    def __init__(self) -> None:
        self.count = 0
        self._kept: list[int] = []
        self._keeps = False
        self._receiver: Callable[[int], None] | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for name in ENDING:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._came)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def keep(self) -> None:
        """Only note what comes, until `hand_on`: a child that is being started is not lost."""
        self._keeps = True

    def hand_on(self, receiver: Callable[[int], None]) -> None:
        """Give every signal to a receiver, those first that came meanwhile."""
        self._receiver = receiver
        self._deliver()

    def raise_again(self) -> None:
        """Let signals raise Interrupted, as at the beginning."""
        self._keeps, self._receiver = False, None

    def _came(self, number: int, _: FrameType | None) -> None:
        self.count += 1
        if self._receiver is None and not self._keeps:
            raise Interrupted(number)
        self._kept.append(number)
        self._deliver()

    def _deliver(self) -> None:
        # Taken out before it is handed on: a handler may come between any two of these lines.
        while self._receiver is not None and self._kept:
            self._receiver(self._kept.pop(0))


def named(number: int) -> str:
    """Return a signal's name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
