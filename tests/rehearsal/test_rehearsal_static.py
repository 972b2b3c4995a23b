"""People's own servers in a rehearsal: they host, end and are given out again, under all faults."""

from __future__ import annotations

import pytest

from labfleet.rehearsal.seeds import run
from labfleet.rehearsal.seeds.run import Options
from labfleet.rehearsal.stage.stage import Stage
from labfleet.resources.worker import WorkerPhase


@pytest.mark.timeout(300)
def test_workers_on_own_servers_converge_with_everything_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No rule breaks; at the end those serve that nobody has ended, each on a server of its own."""
    ended: list[Stage] = []
    real = run.log_hash
    monkeypatch.setattr(run, "log_hash", lambda stage: (ended.append(stage), real(stage))[1])
    report = run.rehearse(2, Options(hours=3.0, workers=3, sessions=60, static=2))
    assert report.violations == []
    own = [each for each in ended[0].invariants.workers.values() if each.spec.template == "own"]
    serving = [each for each in own if each.status.phase is not WorkerPhase.TERMINATED]
    kept = [each.name for each in own if each.spec.desired != "Terminated"]
    assert kept
    assert [each.name for each in serving] == kept
    addresses = {each.status.machine.public_address for each in serving}
    assert len(addresses) == len(serving)
    assert all(each.status.machine.type == "static" for each in serving)
