"""The few kinds of errors that the product distinguishes.

Adapters and stores translate every outside error into one of these; nobody above them sees
a botocore, aiohttp or sqlite3 exception. The queue decides by type: `Temporary` backs off,
`Permanent` waits for a new generation, `Conflict` decides again from fresh state, and after
`Ambiguous` the outcome must be looked up before the call is repeated.
"""

from __future__ import annotations


class LabfleetError(Exception):
    """Base class of all errors that the product expects.

    `reason` is a CamelCase word from a closed list of its module, for conditions and
    problem documents; `retry_after` is machine seconds, when the other side said so. `inner` is
    for the log and the console alone: the words of a driver, which may name hosts and files.
    """

    reason = "Error"

    def __init__(
        self,
        message: str,
        *,
        reason: str | None = None,
        retry_after: float | None = None,
        inner: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.inner = inner
        if reason is not None:
            self.reason = reason
        self.retry_after = retry_after

    def __str__(self) -> str:
        """Return the message with the inner words, for logs."""
        return f"{self.message} ({self.inner})" if self.inner else self.message


class Temporary(LabfleetError):
    """It may work later: unreachable, booting, busy, server trouble."""

    reason = "Temporary"


class Throttled(Temporary):
    """The other side asked us to slow down."""

    reason = "Throttled"


class OutOfCapacity(Temporary):
    """The other side has no room: EC2 stock, CML licence or launch queue, disk."""

    reason = "OutOfCapacity"


class QuotaExceeded(Temporary):
    """An account limit is reached; only a person can change it."""

    reason = "QuotaExceeded"


class Booting(Temporary):
    """The server is there but not up: refused connection, 502/503/504, not ready."""

    reason = "Booting"


class Unreachable(Temporary):
    """No connection at all: time-out or no route."""

    reason = "Unreachable"


class Permanent(LabfleetError):
    """It will not work until somebody changes something."""

    reason = "Permanent"


class Denied(Permanent):
    """Credentials are wrong, expired or do not allow this."""

    reason = "Denied"


class Invalid(Permanent):
    """The request itself is wrong.

    `problems` lists (where, what) pairs, where being a path such as `spec.slot.end` or a
    line number of a manifest.
    """

    reason = "Invalid"

    def __init__(
        self,
        message: str,
        *,
        reason: str | None = None,
        problems: tuple[tuple[str, str], ...] = (),
        inner: str = "",
    ) -> None:
        super().__init__(message, reason=reason, inner=inner)
        self.problems = problems


class Gone(LabfleetError):
    """The thing named does not exist (any more)."""

    reason = "NotFound"


class Conflict(LabfleetError):
    """Another writer was first: stale version, name or port taken, ledger row changed."""

    reason = "Conflict"


class Fenced(Conflict):
    """The caller's lease is no longer the newest; it must stop writing."""

    reason = "Fenced"


class Ambiguous(LabfleetError):
    """The call may or may not have happened; look before doing it again."""

    reason = "Ambiguous"


class Protocol(Temporary):
    """The other side answered something that is not its protocol (broken JSON, HTML)."""

    reason = "ProtocolError"


class TooOld(LabfleetError):
    """The watch position is behind the horizon, or from another epoch: list again."""

    reason = "Expired"
