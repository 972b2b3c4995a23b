"""People of a rehearsal: operators who resume what paused itself, and requests over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from labfleet.interfaces.compute import Leftover
from labfleet.kernel import errors
from labfleet.rehearsal import faults
from labfleet.rehearsal.faults import FaultPlan, ScheduledFault
from labfleet.rehearsal.replicas import http_client
from labfleet.rehearsal.rules.pauses import Pauses
from labfleet.rehearsal.seeds.run import Options, rehearse
from labfleet.rehearsal.stage.scheduled_faults import play
from labfleet.rehearsal.stage.stage import Stage
from labfleet.rehearsal.time import loop as loops
from labfleet.rehearsal.worlds import ec2_client
from labfleet.resources.fleet_settings import Settings, SettingsSpec
from labfleet.resources.meta import Metadata
from labfleet.resources.pool import Pool, PoolSpec
from labfleet.resources.worker import Worker, WorkerSpec


@pytest.mark.timeout(120)
def test_a_pool_that_paused_itself_is_resumed_and_comes_to_rest() -> None:
    """A clean-up job ends machine after machine: the breaker trips, somebody resumes the pool."""
    report = rehearse(10, Options(hours=6))
    assert report.tripped >= 1
    assert report.violations == []


@pytest.mark.timeout(120)
def test_people_of_wire_seeds_ask_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request enters the real application; sessions are created with 201."""
    made: list[http_client.HttpClient] = []
    before = http_client.HttpClient

    def http(*args: Any) -> http_client.HttpClient:
        made.append(before(*args))
        return made[-1]

    monkeypatch.setattr(http_client, "HttpClient", http)
    assert rehearse(3, Options(hours=2, wire=True, harshness=faults.NONE)).violations == []
    assert made[0].replies[201] >= 5
    assert set(made[0].replies) <= {200, 201, 202, 404, 409, 400}


def test_acts_during_a_pause_are_told_apart() -> None:
    """A pause holds pool and idle rule; people, other pools and pools that people end are free."""
    found: list[str] = []
    pauses = Pauses(lambda rule, text: found.append(f"{rule}: {text}"))
    pool = Pool(metadata=Metadata(name="main"), spec=PoolSpec(template="metal", paused=True))
    pauses.pool("admin", pool)
    worker = Worker(metadata=Metadata(name="w1"), spec=WorkerSpec(track="t", pool="main"))
    loose = Worker(metadata=Metadata(name="w2"), spec=WorkerSpec(track="t"))
    pauses.worker("admin", None, worker)
    pauses.worker("pool-controller", None, loose)
    assert found == []
    pauses.worker("pool-controller", None, worker)
    assert len(found) == 1
    spec = SettingsSpec(automation={"paused": True})
    pauses.settings(Settings(metadata=Metadata(name="fleet"), spec=spec))
    pauses.worker("idle-controller", None, loose)
    assert len(found) == 2


def test_expired_credentials_are_a_no_to_every_call() -> None:
    """While they are expired EC2 refuses even to list."""

    async def main(loop: loops.Loop) -> None:
        stage = Stage(loop, 1, FaultPlan())
        ec2 = ec2_client.Ec2(stage.cloud, stage.wires["EC2"], "us")
        end = stage.injector.begin("credentials_expired", None)
        with pytest.raises(errors.Denied):
            await ec2.list_owned("")
        end()
        assert await ec2.list_owned("") == ()

    loops.run(1, main)


def test_what_is_kept_or_of_others_is_spared() -> None:
    """A volume that others left behind is no business of ours: its removal breaks a rule."""

    async def main(loop: loops.Loop) -> None:
        stage = Stage(loop, 1, FaultPlan())
        await play(stage, ScheduledFault(0, "left_behind", 1.0, 0.0, 0.9))
        (left,) = stage.cloud.waste
        assert isinstance(left, Leftover)
        assert stage.invariants.spared == {left.id}
        stage.cloud.waste.clear()
        stage.invariants.patrol()
        assert [each.rule for each in stage.invariants.found] == ["stranger"]

    loops.run(1, main)


def test_the_docs_list_every_fault() -> None:
    """Whoever reads how to rehearse finds each kind by its word."""
    root = Path(__file__).resolve().parents[2]
    text = (root / "docs/how-to/rehearse.md").read_text("utf-8")
    assert [kind for kind in faults.KINDS if f"`{kind}`" not in text] == []
