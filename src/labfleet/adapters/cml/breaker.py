"""A circuit breaker: calls fail at once for a while after several failures of a server in a row.

Pure: machine time is an argument. Without a breaker a fleet spends its deadlines on servers that
are down, and a wrong password becomes a login loop (facts/cml-issues.md#f24).
"""

from __future__ import annotations

from labfleet.adapters.cml import errors as translate
from labfleet.kernel import errors
from labfleet.kernel.quantity import count

COUNTED = translate.LINK_REASONS | {"BadCredentials", "Unauthorized"}
"""Reasons that count. `Unauthorized` is a 401 that came again right after a new login: a server
that logs in and accepts nothing would else cost two logins for each call, for ever
(facts/cml-issues.md#f24)."""


class Breaker:
    """Counts failures of the link or the login in a row."""

    def __init__(self, *, failures: int, rest: float) -> None:
        self._limit = failures
        self._rest = rest
        self._failures = 0
        self._until = float("-inf")
        self._last: errors.LabfleetError | None = None

    def check(self, now: float, where: str) -> None:
        """Raise at once while the breaker is open: Denied for logins, else Unreachable."""
        if now >= self._until or self._last is None:
            return
        if isinstance(self._last, errors.Denied):
            raise errors.Denied(self._last.message, reason=self._last.reason)
        raise errors.Unreachable(
            f"{where}: not tried after {count(self._failures, 'failure')} in a row; "
            f"the last: {self._last.message}",
            reason="BreakerOpen",
            retry_after=self._until - now,
        )

    def failed(self, error: errors.LabfleetError, now: float) -> None:
        """Count an error of the link or login; an API refusal proves the server alive."""
        if error.reason not in COUNTED:
            self.succeeded()
            return
        self._failures += 1
        self._last = error
        if self._failures >= self._limit:
            self._until = now + self._rest

    def link_works(self) -> None:
        """Forget failures of the link; a wrong password stays wrong."""
        if not isinstance(self._last, errors.Denied):
            self.succeeded()

    def succeeded(self) -> None:
        """Forget the failures."""
        self._failures = 0
        self._until = float("-inf")
        self._last = None
