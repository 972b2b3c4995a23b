"""The state machine of one instance: pure, computed on read, without a timer of its own.

A state that takes time carries its due time; `advance` says what is to be done next. The world
does it (moto bookkeeping, CML control calls) and confirms. Time is an argument everywhere.
"""

import dataclasses
import math

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


class IllegalStateError(Exception):
    """The verb is not allowed in the instance's state (IncorrectInstanceState)."""


@dataclasses.dataclass
class Machine:
    """One instance's state, when it changed, when it is due to settle, and open CML calls."""

    state: str
    since: float
    due: float
    before: str = ""
    running_since: float | None = None
    terminated_at: float | None = None
    visible_at: float = 0.0
    tags_visible_at: float = 0.0
    addresses_visible_at: float = 0.0
    impaired: bool = False
    nested: bool = False
    calls: list[str] = dataclasses.field(default_factory=list)
    busy: bool = False
    retry_at: float = 0.0
    boot_asked: bool = False

    def enter(self, state: str, now: float, lasts: float = math.inf) -> None:
        """Move to a state at a time; `lasts` is how long a transient state takes."""
        self.before, self.state, self.since = self.state, state, now
        self.due = now + lasts if state in TRANSIENT else math.inf
        if state == "running":
            self.running_since = now
        if state == "terminated":
            self.terminated_at = now

    def start(self, now: float, pending: float) -> bool:
        """Begin a start; True when something changed, IllegalStateError when not allowed."""
        if self.state in ("running", "pending"):
            return False
        if self.state != "stopped":
            raise IllegalStateError(self.state)
        self.boot_asked = False
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
        self.enter("stopping", now, stopping)
        return True

    def terminate(self, now: float, terminating: float) -> bool:
        """Begin a termination; repeating it changes nothing."""
        if self.state in ("shutting-down", "terminated"):
            return False
        self.calls = [call for call in self.calls if call != "boot"]
        if self.state != "stopped":
            self.calls.append("stop")
        self.calls.append("destroy")
        self.enter("shutting-down", now, terminating)
        return True

    def seen(self, now: float, state_lag: float) -> str:
        """Return the state a Describe shows, which may be old for `state_lag` seconds."""
        if self.before and now - self.since < state_lag:
            return self.before
        return self.state

    def advance(self, now: float) -> str | None:
        """Return the next thing to do: a CML call, or the state to settle in; None when idle."""
        if self.busy:
            return None
        if self.state == "pending" and now >= self.due and not self.boot_asked:
            self.boot_asked = True
            self.calls.append("boot")
        if self.calls:
            call = self.calls[0]
            if call == "destroy" and now < self.due:
                return None
            return call
        if self.state in TRANSIENT and now >= self.due:
            return SETTLED[self.state]
        return None
