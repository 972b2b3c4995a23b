"""Made past runs for the tests of predictions."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from labfleet.decisions.prediction.learner import Learner
from labfleet.resources.history import KeptRun, Run, RunKind, Use
from labfleet.resources.prediction import Forecast

NOW = datetime(2026, 11, 29, tzinfo=UTC)
MEMORY = "memory_mib"


def past(
    place: int, memory: float | None, *, family: str = "waku", seconds: float | None = 60.0,
    **more: Any,
) -> KeptRun:  # fmt: skip
    """Return a run that used so much memory."""
    use = {} if memory is None else {MEMORY: Use(peak=memory)}
    fields = {"kind": RunKind.SIMULATION, "name": f"{family}-{place}", "ended_at": NOW, **more}
    return KeptRun(
        place=place,
        run=Run(uid=str(place), family=family, use=use, duration_seconds=seconds, **fields),
    )


def learned(runs: Iterable[KeptRun], **how: Any) -> Learner:
    """Return a learner that was fed with these runs."""
    learner = Learner(**how)
    for run in runs:
        learner.learn(run)
    return learner


def memory(
    learner: Learner, parameters: dict[str, Any] | None = None, *, family: str = "waku",
    declared: float | None = None, **more: Any,
) -> Forecast:  # fmt: skip
    """Return the forecast of memory."""
    given = {} if declared is None else {MEMORY: declared}
    found = learner.predict(
        RunKind.SIMULATION, "default", family, parameters or {}, given, **more
    ).of(MEMORY)
    assert found is not None
    return found


def scattered(count: int, seed: int = 1, spread: float = 0.3, **more: Any) -> list[KeptRun]:
    """Return runs of one family whose memory scatters around 100 MiB."""
    rng = random.Random(seed)
    return [past(at, 100 * rng.lognormvariate(0, spread), **more) for at in range(1, count + 1)]
