"""The rule on failures that are put down to a server's silence: the worlds must show it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from labfleet.decisions.lifecycle.session.draft import PLACEMENTS
from labfleet.rehearsal.rules.outcomes import MOMENT_SECONDS, Outcomes
from labfleet.resources import conditions
from labfleet.resources.meta import Metadata
from labfleet.resources.session import (
    LabStatus,
    Session,
    SessionPhase,
    SessionSpec,
    SessionStatus,
)
from labfleet.resources.worker import Worker, WorkerPhase, WorkerSpec, WorkerStatus

NOW = datetime(2026, 11, 27, 9, tzinfo=UTC)
LAB = LabStatus(title="t", marker="u-1", id="l-1")


class Hours:
    """Stands for the loop: its time is set."""

    now = 0.0

    def time(self) -> float:
        """Return it."""
        return self.now


def worker(healthy: str) -> Worker:
    """A worker whose record says whether CML is healthy."""
    facts = conditions.put((), "CmlHealthy", healthy, "ControllerDown", now=NOW)
    status = WorkerStatus(phase=WorkerPhase.ACTIVE, conditions=facts)
    return Worker(metadata=Metadata(name="w1"), spec=WorkerSpec(), status=status)


def told(*, reason: str, placed: int, lab: LabStatus | None, ago: float | None) -> list[str]:
    """What the rule says to a session that failed; its server was silent until so long ago."""
    loop: Any = Hours()
    nobody: Any = None
    broken: list[str] = []
    rule = Outcomes(lambda _, text: broken.append(text), loop, nobody)
    rule.worker(worker("True" if ago is None else "False"), worker("True").key.label)
    rule.worker(worker("True"), worker("True").key.label)
    loop.now = ago or 0.0
    here = SessionStatus(phase=SessionPhase.INSTANTIATING, worker="w1", placements=placed, lab=lab)
    old = Session(metadata=Metadata(name="s1"), spec=SessionSpec(definition="d"), status=here)
    over = msgspec.structs.replace(
        here, phase=SessionPhase.STOPPING, outcome=SessionPhase.FAILED, reason=reason
    )
    rule.session(old, msgspec.structs.replace(old, status=over))
    return broken


@pytest.mark.parametrize("reason", ["WorkerUnfit", "WorkerSilent"])
@pytest.mark.parametrize(
    ("placed", "lab", "ago", "why"),
    [
        (PLACEMENTS, None, 0.0, None),
        (PLACEMENTS, None, MOMENT_SECONDS, None),
        (PLACEMENTS, None, MOMENT_SECONDS + 1, "w1 is not silent"),
        (PLACEMENTS, None, None, "w1 is not silent"),
        (PLACEMENTS, LAB, 0.0, "waits there, or moves"),
        (PLACEMENTS - 1, None, 0.0, "placed 4 times only"),
    ],
)
def test_silence_fails_only_what_was_never_imported_and_moved_too_often(
    reason: str, placed: int, lab: LabStatus | None, ago: float | None, why: str | None
) -> None:
    """Long seed 189 gave up a lab on a server whose core was down, though nothing was gained by it."""
    found = told(reason=reason, placed=placed, lab=lab, ago=ago)
    assert (why is None) == (found == [])
    assert all((why or "") in each for each in found)
