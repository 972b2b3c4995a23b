"""The scaled clock: simulated time runs at a factor of real time from a given epoch.

Network deadlines and SigV4 stay in real time; only instance states and stamps use this clock.
"""

import contextlib
import dataclasses
import datetime as dt
import threading
import time
from collections.abc import Callable, Iterator


@dataclasses.dataclass
class ScaledClock:
    """Simulated Unix seconds = epoch + (real - epoch) * speed + whatever was skipped by hand."""

    epoch: float
    speed: float
    real: Callable[[], float] = time.time
    skipped: float = 0.0
    local: threading.local = dataclasses.field(default_factory=threading.local, repr=False)

    def now(self) -> float:
        """Return the simulated time in Unix seconds."""
        held: float | None = getattr(self.local, "at", None)
        return self._flow() if held is None else held

    def utc(self) -> dt.datetime:
        """Return the simulated time as naive UTC, the form moto keeps inside."""
        return naive(self.now())

    def advance(self, seconds: float) -> None:
        """Jump ahead by simulated seconds; tests use it instead of waiting."""
        self.skipped += seconds

    def jump(self, now: float) -> None:
        """Set the simulated time, back too: only a restored snapshot does this."""
        self.skipped += now - self._flow()

    def rescale(self, speed: float) -> None:
        """Run at another factor from now on, without a jump."""
        self.skipped += (self.real() - self.epoch) * (self.speed - speed)
        self.speed = speed

    @contextlib.contextmanager
    def held(self, at: float) -> Iterator[None]:
        """Let this thread see a past moment: what was due then is done as of then."""
        before, self.local.at = getattr(self.local, "at", None), at
        try:
            yield
        finally:
            self.local.at = before

    def _flow(self) -> float:
        return self.epoch + (self.real() - self.epoch) * self.speed + self.skipped


def naive(at: float) -> dt.datetime:
    """Return Unix seconds as naive UTC."""
    return dt.datetime.fromtimestamp(at, tz=dt.UTC).replace(tzinfo=None)
