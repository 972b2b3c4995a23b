"""The state machine of one instance: pure, computed on read, without a timer of its own.

A state that takes time has a due time; `advance` returns the next thing to do. The world
does it (moto bookkeeping, CML control calls) and confirms. Time is an argument everywhere.
"""

import dataclasses
import math
from typing import Any

CODES = {
    "pending": 0,
    "running": 16,
    "shutting-down": 32,
    "terminated": 48,
    "stopping": 64,
    "stopped": 80,
}
SETTLED = {"pending": "running", "stopping": "stopped", "shutting-down": "terminated"}
TRANSIENT = frozenset(SETTLED)
FATES = ("stuck", "dies", "start_fails", "never_ok", "no_boot", "stuck_stopping")
CHECKS = ("system", "instance", "ebs")


class IllegalStateError(Exception):
    """The verb is not allowed in the instance's state (IncorrectInstanceState)."""


@dataclasses.dataclass
class ScheduledEvent:
    """A maintenance that AWS announces: code, Unix seconds, and whether it has happened."""

    id: str
    code: str
    description: str
    not_before: float
    not_after: float
    done: bool = False


@dataclasses.dataclass
class Machine:
    """One instance's state, when it changed, when it is due to settle, and open CML calls."""

    state: str
    since: float
    due: float
    number: int = 0
    launched: float = 0.0
    before: str = ""
    running_since: float | None = None
    terminated_at: float | None = None
    visible_at: float = 0.0
    tags_visible_at: float = 0.0
    old_tags: dict[str, str] = dataclasses.field(default_factory=dict)
    addresses_visible_at: float = 0.0
    checks: dict[str, tuple[str, float]] = dataclasses.field(default_factory=dict)
    events: list[ScheduledEvent] = dataclasses.field(default_factory=list)
    runs: list[tuple[float, float]] = dataclasses.field(default_factory=list)
    loads: list[tuple[float, dict[str, float]]] = dataclasses.field(default_factory=list)
    nested: bool = False
    console: str | None = None
    fate: str = ""
    calls: list[str] = dataclasses.field(default_factory=list)
    busy: bool = False
    retry_at: float = 0.0
    boot_asked: bool = False
    disks: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    def enter(self, state: str, now: float, lasts: float = math.inf) -> None:
        """Move to a state at a time; `lasts` is how long a transient state takes."""
        if self.state == "running" and state != "running" and self.runs:
            self.runs[-1] = (self.runs[-1][0], now)
        self.before, self.state, self.since = self.state, state, now
        self.due = now + lasts if state in TRANSIENT else math.inf
        if state == "running":
            self.running_since = now
            self.runs.append((now, math.inf))
        if state == "terminated":
            self.terminated_at = now

    def start(self, now: float, pending: float) -> bool:
        """Begin a start; True when something changed, IllegalStateError when not allowed."""
        if self.state in ("running", "pending"):
            return False
        if self.state != "stopped":
            raise IllegalStateError(self.state)
        self.boot_asked = False
        self.checks.clear()
        self.fate = ""
        self.enter("pending", now, pending)
        return True

    def stop(self, now: float, stopping: float, *, force: bool = False) -> bool:
        """Begin a stop; a forced one ends a stuck `stopping` at once."""
        if self.state in ("stopping", "stopped"):
            if self.state == "stopping" and force:
                self.due = now
            return False
        if self.state != "running":
            raise IllegalStateError(self.state)
        self.calls.append("stop")
        lasts = math.inf if self.fate == "stuck_stopping" and not force else stopping
        self.enter("stopping", now, lasts)
        return True

    def terminate(self, now: float, terminating: float) -> bool:
        """Begin a termination; True when something changed (repeating it is fine)."""
        if self.state in ("shutting-down", "terminated"):
            return False
        self.calls = [call for call in self.calls if call != "boot"]
        if self.state != "stopped":
            self.calls.append("stop")
        self.calls.append("destroy")
        self.enter("shutting-down", now, terminating)
        return True

    def fall_back(self, now: float) -> None:
        """End a start that failed: pending goes back to stopped."""
        self.calls = [call for call in self.calls if call != "boot"]
        self.enter("stopped", now)

    def seen(self, now: float, state_lag: float) -> str:
        """Return the state a Describe shows, which may be old for `state_lag` seconds."""
        if self.before and now - self.since < state_lag:
            return self.before
        return self.state

    def check_status(self, which: str, now: float, initial: float) -> str:
        """Return a status check's word; `initial` is how long it initialises after the boot."""
        if self.state != "running" or self.running_since is None:
            return "not-applicable"
        forced = self.checks.get(which)
        if forced is not None:
            return forced[0]
        if self.fate == "never_ok" or now - self.running_since < initial:
            return "initializing"
        return "ok"

    def load(self, at: float) -> dict[str, Any]:
        """Return the load that was set for a moment; empty when nobody set one."""
        found: dict[str, float] = {}
        for since, values in self.loads:
            if since <= at:
                found = {**found, **values}
        return found

    def advance(self, now: float) -> str | None:
        """Return the next thing to do: a CML call, or the state to settle in; None when idle."""
        if self.busy:
            return None
        if self.state == "pending" and now >= self.due and not self.boot_asked:
            self.boot_asked = True
            if self.fate != "no_boot":
                self.calls.append("boot")
        if self.calls:
            call = self.calls[0]
            if call == "destroy" and now < self.due:
                return None
            return call
        if self.state in TRANSIENT and now >= self.due:
            return SETTLED[self.state]
        return None
