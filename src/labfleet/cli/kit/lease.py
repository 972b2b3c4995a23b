"""Keeps the lease of an admitted run: reports from a thread of its own that it lives."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from labfleet.cli.kit import exits, fleet, human_units
from labfleet.cli.kit.gate import OVER, Gate

SHORTEST = 0.2
AGAIN = 5.0
"""After a report that nobody answered the next one is at most so many seconds away."""


class Lease:
    """Reports while it is open; `lost` says why the run holds nothing any more, "" while it does.

    `on_lost` is called once, in the lease's thread. A server that does not answer is asked again
    and again: only its word ends the lease, and when it is asked too late, that word is no.
    """

    def __init__(
        self,
        gate: Gate,
        name: str,
        *,
        ttl_seconds: int,
        on_lost: Callable[[str], None] | None = None,
    ) -> None:
        self.lost = ""
        self.over = threading.Event()
        self._gate = gate
        self._name = name
        # Twice in each period that was promised; the server counts in the fleet's time.
        self._every = ttl_seconds / 2 / max(fleet.FleetTime(gate.api).rate(), 0.01)
        self._on_lost = on_lost
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"lease of {name}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closed.set()
        self._thread.join(1.0)  # a report that hangs is not waited for

    def _run(self) -> None:
        wait, silent = max(SHORTEST, self._every), False
        while not self._gate.api.environment.pause(self._closed, wait):
            wait = max(SHORTEST, self._every)
            try:
                self._gate.beat(self._name)
            except exits.Failure as failure:
                if self._closed.is_set():
                    return
                if failure.reason in OVER:
                    self._lose(failure.cause)
                    return
                if not silent:
                    self._say(f"{failure.cause}; the run goes on, and so do its reports.")
                silent, wait = True, min(wait, AGAIN)
            else:
                if silent and not self._closed.is_set():
                    self._say("the server answers again.")
                silent = False

    def _lose(self, why: str) -> None:
        self.lost = human_units.printable(why) or "the server has ended it"
        self.over.set()
        if self._on_lost is not None:
            self._on_lost(self.lost)

    def _say(self, text: str) -> None:
        self._gate.say(human_units.printable(f"{self._name}: {text}"))
