"""The scaled clock: simulated time runs at a factor of real time from a given epoch.

Network deadlines and SigV4 stay in real time; only instance states and stamps use this clock.
"""

import dataclasses
import datetime as dt
import time
from collections.abc import Callable


@dataclasses.dataclass
class ScaledClock:
    """Simulated Unix seconds = epoch + (real - epoch) * speed + whatever was skipped by hand."""

    epoch: float
    speed: float
    real: Callable[[], float] = time.time
    skipped: float = 0.0

    def now(self) -> float:
        """Return the simulated time in Unix seconds."""
        return self.epoch + (self.real() - self.epoch) * self.speed + self.skipped

    def utc(self) -> dt.datetime:
        """Return the simulated time as naive UTC, the form moto keeps inside."""
        stamp = dt.datetime.fromtimestamp(self.now(), tz=dt.UTC)
        return stamp.replace(tzinfo=None)

    def advance(self, seconds: float) -> None:
        """Jump ahead by simulated seconds; tests use it instead of waiting."""
        self.skipped += seconds
