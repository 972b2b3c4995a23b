"""What a worker's status keeps of the time that is paid for its machine."""

from __future__ import annotations

from datetime import datetime

from labfleet.resources.meta import Record


class PaidTime(Record, frozen=True, kw_only=True):
    """What of a worker's machine is paid since when; time that is over is in the ledger.

    machine: The provider's name for the machine.
    disk_since: Since when its disk is paid.
    launched: When it was launched, or last started, as the provider told it.
    running_since: Since when it runs and that is paid; null while it does not run.
    uncertain_seconds: By how much that may be too early or too late, since it was not seen to begin.
    ready_at: When it could host sessions for the first time since; null before.
    until: When its last paid time ended; null before.
    """

    machine: str
    disk_since: datetime
    launched: datetime | None = None
    running_since: datetime | None = None
    uncertain_seconds: float = 0.0
    ready_at: datetime | None = None
    until: datetime | None = None
