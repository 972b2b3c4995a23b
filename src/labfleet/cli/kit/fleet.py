"""Fleet time in this client: read from the server once, then computed from this machine's clock.

In a demo the fleet's clock runs faster than this machine's; ages and deadlines are in fleet
time. If the server does not answer, this machine's clock is used.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from labfleet.cli.kit import client, exits, human_units

_PATIENCE = 3.0


@dataclass
class FleetTime:
    """Answers `now` from one look at the server's version page."""

    api: client.Client
    _seen: tuple[datetime, float, float] | None = field(default=None, repr=False)

    def now(self) -> datetime:
        """Return the fleet's time."""
        environment = self.api.environment
        if self._seen is None:
            then, rate = self._ask()
            self._seen = (then or environment.now(), environment.monotonic(), rate)
        at, began, rate = self._seen
        return at + timedelta(seconds=(environment.monotonic() - began) * rate)

    def rate(self) -> float:
        """Return how many seconds of the fleet's time pass in one of this machine's."""
        if self._seen is None:
            self.now()
        return 1.0 if self._seen is None else self._seen[2]

    def _ask(self) -> tuple[datetime | None, float]:
        quick = replace(self.api, seconds=_PATIENCE, attempts=1, keep=False, heard=None)
        try:
            answer = quick.get("/api/v1/version")
        except exits.Failure:
            return None, 1.0
        if not isinstance(answer, dict):
            return None, 1.0
        rate = answer.get("rate")
        return human_units.instant(answer.get("time")), float(rate) if rate else 1.0
