"""What the controllers make of a CML server's own telling: telemetry, turns, tags, identity.

The numbered cases are rows of facts/cml-issues.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from virtual_time import play
from world import HOUR, MACHINE, World, world

from cml_simulator.core.licensing import AUTHORIZED_FOR, DAY
from cml_simulator.core.server import Admission
from labfleet.controllers.session import observer
from labfleet.controllers.worker import observer as worker_look
from labfleet.controllers.worker.address import address_of
from labfleet.decisions.lifecycle.worker import phases as worker_phases
from labfleet.interfaces.lab_host import Readiness
from labfleet.rehearsal.worlds.cml import DirectHost
from labfleet.resources import alerts, conditions
from labfleet.resources.meta import Key
from labfleet.resources.session import Session


def fact(w: World, name: str, worker: str = "w1") -> tuple[str, str]:
    found = conditions.find(w.get_worker(worker).status.conditions, name)
    return ("", "") if found is None else (found.status, found.reason)


def raised(w: World) -> tuple[alerts.Raised, ...]:
    worker = w.get_worker()
    return alerts.raised(worker.key, worker.status.conditions)


async def up(w: World, **spec: Any) -> None:
    await w.start()
    await w.worker(**spec)
    await w.until(w.in_phase("w1", "READY"))


def context(w: World) -> Any:
    assert w.process is not None
    return w.process.contexts["worker-controller"]


async def waits_then_runs(w: World, word: str, mend: Any) -> None:
    """A session waits for this reason, and runs once the trouble is mended."""
    await w.definition()
    await w.session()
    await w.until(lambda: w.get_session().status.decision is not None)
    await w.let_pass(120)
    assert w.get_session().status.phase == "PENDING"
    assert w.get_session().status.decision.rejected_by_reason == {word: 1}
    mend()
    await w.until(w.in_phase("s1", "RUNNING"))
    w.check()


def test_f33_a_dead_controller_service_quarantines_the_worker() -> None:
    """Core_connected false: no new sessions, and what runs goes on; mended, it opens again.

    Off switch: `worker_phases.QUARANTINE` without ControllerDown places the session.
    """

    async def story() -> None:
        async with world() as w:
            await up(w)
            await w.definition("old")
            await w.session("s0", definition="old", slot={"end": w_end(w)})
            await w.until(w.in_phase("s0", "RUNNING"))
            w.hosts.set(core_connected=False)
            await w.until(lambda: fact(w, "CmlHealthy") == ("False", "ControllerDown"))
            assert fact(w, "AcceptingLabs")[0] == "False"
            # It answers all the time: not silent, and nothing of before stands.
            await w.let_pass(600)
            assert fact(w, "Silent") == ("False", "Answering")
            assert fact(w, "CMLReady") == ("False", "NotReady")
            assert fact(w, "TelemetryComplete") == ("False", "Partial")
            assert fact(w, "DiskAlmostFull") == ("Unknown", "NotRenewed")
            told = {each.condition: each.reason for each in raised(w)}
            assert told == {"CmlHealthy": "ControllerDown", "TelemetryComplete": "Partial"}
            await waits_then_runs(w, "ControllerDown", lambda: w.hosts.set(core_connected=True))
            assert w.get_session("s0").status.phase == "RUNNING"

    play(story)


def test_a_server_without_its_core_gives_its_licence_back() -> None:
    """It answers, and licensing is no business of its core: nothing leaks at the worker's end."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            w.hosts.set(core_connected=False)
            await w.until(lambda: fact(w, "CMLReady") == ("False", "NotReady"))
            await w.desire("w1", "Terminated")
            await w.until(w.in_phase("w1", "TERMINATED"))
            assert w.get_worker().status.licence.leak is None
            assert fact(w, "LicenceLeaked") == ("", "")

    play(story)


def w_end(w: World) -> str:
    return (w.clock.now() + timedelta(hours=4)).isoformat()


def test_f42_maintenance_mode_closes_the_worker() -> None:
    """Read without a login; new sessions wait with that word until it is over.

    Off switch: `closed_by` without MaintenanceMode places the session.
    """

    async def story() -> None:
        async with world() as w:
            await up(w)
            server = w.hosts.of("w1")
            server.maintenance = True
            await w.until(lambda: fact(w, "MaintenanceMode") == ("True", "On"))
            await waits_then_runs(
                w, "MaintenanceMode", lambda: setattr(server, "maintenance", False)
            )

    play(story)


def test_f45_a_full_disk_takes_no_new_labs() -> None:
    """Over the watermark new sessions wait; with room again they run.

    Off switch: `DISK_FULL = 2.0` places the session.
    """

    async def story() -> None:
        async with world() as w:
            await up(w)
            w.hosts.set(disk_used=w.hosts.hardware.disk_bytes * 95 // 100)
            await w.until(lambda: fact(w, "DiskAlmostFull") == ("True", "Watermark"))
            await waits_then_runs(w, "DiskAlmostFull", lambda: w.hosts.set(disk_used=None))

    play(story)


def test_f41_no_ready_compute_is_said_instead_of_a_lab_that_stays_queued() -> None:
    """With every compute ONLINE nothing is placed, and the reason is given."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            server = w.hosts.of("w1")
            server.admission = Admission.ONLINE
            await w.until(lambda: fact(w, "CmlHealthy") == ("False", "NoComputeReady"))
            await waits_then_runs(
                w, "NoComputeReady", lambda: setattr(server, "admission", Admission.READY)
            )

    play(story)


def test_one_failing_call_keeps_what_the_others_told() -> None:
    """Without system_stats the worker stays healthy, licensed and sized as before."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            before = w.get_worker().status.capacity
            w.hosts.fail("system_stats")
            await w.until(lambda: fact(w, "TelemetryComplete") == ("False", "Partial"))
            sample = context(w).samples.newest(Key("Worker", "default", "w1"))
            assert sample.stats is None
            assert "system_stats" in sample.gaps["stats"]
            assert sample.health is not None
            assert sample.licence is not None
            assert w.get_worker().status.capacity == before
            assert (w.get_worker().status.health, w.get_worker().status.phase) == (
                "Healthy",
                "READY",
            )
            w.hosts.fail("system_stats", "system_health", "licensing")
            await w.until(lambda: w.get_worker().status.health == "Unreachable")
            assert w.get_worker().status.licence.licensed
            w.hosts.fail()
            await w.until(lambda: fact(w, "TelemetryComplete") == ("True", "Complete"))
            assert w.get_worker().status.health == "Healthy"

    play(story)


def test_a_sample_is_no_event() -> None:
    """An hour of measuring writes nothing to a worker on which nothing changes."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            await w.let_pass(120)
            before = await w.events("Worker", "w1")
            await w.let_pass(HOUR)
            assert await w.events("Worker", "w1") == before
            assert len(context(w).samples.recent(Key("Worker", "default", "w1"), 100)) == 20
            await w.desire("w1", "Terminated")
            await w.until(w.in_phase("w1", "TERMINATED"))

    play(story)


def test_orphans_shrink_the_worker() -> None:
    """What unknown machines hold is not given to labs."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            before = w.get_worker().status.capacity
            assert before is not None
            w.hosts.set(orphans=4)
            await w.until(lambda: fact(w, "OrphansOnHost") == ("True", "Orphans"))
            now = w.get_worker().status.capacity
            assert now is not None
            assert now.cpu_milli == before.cpu_milli - 4000
            assert now.memory_mib == before.memory_mib - 4 * 2048

    play(story)


def test_telemetry_is_set_once_per_boot() -> None:
    """Upstream 001's enable_telemetry reaches the server once, and again after a restart."""

    async def story() -> None:
        async with world() as w:
            machine = {**MACHINE, "cml": {**MACHINE["cml"], "enableTelemetry": True}}
            await up(w, machine=machine)
            await w.until(lambda: fact(w, "TelemetrySet") == ("True", "Set"))
            await w.let_pass(600)
            assert w.hosts.calls.count("telemetry w1 True") == 1
            await w.desire("w1", "Stopped")
            await w.until(w.in_phase("w1", "STOPPED"))
            await w.desire("w1", "Ready")
            await w.until(w.in_phase("w1", "READY"))
            await w.let_pass(120)
            assert w.hosts.calls.count("telemetry w1 True") == 2
            w.check()

    play(story)


def test_the_younger_of_two_with_one_product_uuid_hosts_nothing() -> None:
    """An image of a registered server: it takes no licence, no lab, and gives none back.

    Off switch: `closed_by` without DuplicateIdentity, `seen_twice` always False.
    """

    async def story() -> None:
        async with world() as w:
            w.hosts.product_uuid = "0c1e7a7e"
            await up(w)
            await w.worker("w2")
            await w.until(w.in_phase("w2", "READY_UNLICENSED"))
            assert fact(w, "DuplicateIdentity", "w2") == ("True", "SameProductUuid")
            await w.let_pass(120)
            assert w.get_worker("w2").status.phase == "READY_UNLICENSED"
            assert fact(w, "AcceptingLabs", "w2")[0] == "False"
            assert fact(w, "DuplicateIdentity", "w1") == ("", "")
            assert "register w2" not in w.hosts.calls
            await w.desire("w2", "Terminated")
            await w.until(w.in_phase("w2", "TERMINATED"))
            assert "deregister w2" not in w.hosts.calls
            assert w.get_worker().status.phase == "READY"
            w.check()

    play(story)


def test_an_expiring_licence_is_renewed_and_told() -> None:
    """The condition names the date; without a way to the cloud a renewal is asked for once a day."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            licence = w.hosts.of("w1").licence
            licence.renewed_at, licence.reachable = w.hosts.now - AUTHORIZED_FOR + 5 * DAY, False
            await w.until(lambda: fact(w, "LicenceExpiring") == ("True", "Soon"))
            await w.let_pass(HOUR)
            assert w.hosts.calls.count("renew w1") == 1
            w.check()

    play(story)


def test_tags_that_an_import_lost_are_written_back() -> None:
    """The session's ports answer although the server dropped the tags at import."""

    async def story() -> None:
        async with world() as w:
            await up(w)
            await w.definition()
            w.hosts.lose_tags = 1
            await w.session()
            await w.until(w.in_phase("s1", "RUNNING"))
            assert sum(call.startswith("tags ") for call in w.hosts.calls) == 2
            [lab] = w.hosts.of("w1").labs.values()
            assert all(node.tags for node in lab.nodes.values())
            w.check()

    play(story)


def test_f36_t46_sixty_sessions_in_one_minute_boot_in_turns_and_none_times_out() -> None:
    """At most eight labs of a worker boot at once; the last of sixty gets its lab too.

    Off switch: `starts_at_once: 1000` lets sixty boot at once (`most_starting` is 60).
    """

    async def story() -> None:
        async with world() as w:
            w.hosts.node_boot(200.0)
            w.hosts.set(cpus=400, disk_bytes=2 * 10**12)
            cml = {**MACHINE["cml"], "maxNodesLicensed": 400}
            capacity = {
                "labs": 100,
                "ports": 6000,
                "cpuMilli": 48000,
                "memoryMib": 192512,
                "storageMib": 400000,
                "nodes": 400,
            }
            await up(w, machine={**MACHINE, "cml": cml, "capacity": capacity})
            await w.definition(defaultDurationMinutes=480)
            for number in range(60):
                await w.session(f"s{number}")
            names = [f"s{number}" for number in range(60)]
            await w.until(
                lambda: all(w.phase(name) in {"RUNNING", "FAILED", "EXPIRED"} for name in names),
                hours=4,
            )
            assert {w.phase(name) for name in names} == {"RUNNING"}
            assert w.hosts.most_starting <= 8
            waited = [
                each
                for each in w.cache.all(Session)
                if conditions.find(each.status.conditions, "StartTurn") is not None
            ]
            assert len(waited) >= 40
            w.check()

    play(story)


# --- the same without the right behaviour ----------------------------------------------------


def by_health_only(facts: Any) -> Any:
    """Close a worker for its health only."""
    return closed_by(tuple(each for each in facts if each.type == "CmlHealthy"))


closed_by = worker_phases.closed_by
ISSUES: dict[str, tuple[Callable[[], None], Any, str, Any]] = {
    "F33": (test_f33_a_dead_controller_service_quarantines_the_worker,
            worker_phases, "QUARANTINE", frozenset()),
    "F41": (test_f41_no_ready_compute_is_said_instead_of_a_lab_that_stays_queued,
            worker_phases, "QUARANTINE", frozenset()),
    "F42": (test_f42_maintenance_mode_closes_the_worker,
            worker_phases, "closed_by", by_health_only),
    "F45": (test_f45_a_full_disk_takes_no_new_labs,
            worker_phases, "closed_by", by_health_only),
    "F36": (test_f36_t46_sixty_sessions_in_one_minute_boot_in_turns_and_none_times_out,
            observer, "_at_once", lambda _worker: 1000),
    "identity": (test_the_younger_of_two_with_one_product_uuid_hosts_nothing,
                 worker_look, "_older_twin", lambda *_: None),
}  # fmt: skip


@pytest.mark.parametrize("number", ISSUES)
def test_trouble_is_back_without_its_right_behaviour(
    number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each claim above fails once the behaviour is switched off: it proves what it says."""
    claim, place, name, instead = ISSUES[number]
    monkeypatch.setattr(place, name, instead)
    with pytest.raises(AssertionError):
        claim()


def test_what_a_boot_is_pinned_to_outlives_looks_without_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that is silent, or refused for its certificate, is not trusted anew afterwards."""
    real, shown = DirectHost.readiness, ["ab" * 32]

    async def readiness(host: DirectHost) -> Readiness:
        found = await real(host)
        stage = found.stage if shown[0] else "untrusted"
        return replace(found, stage=stage, tls_fingerprint=shown[0] or None)

    monkeypatch.setattr(DirectHost, "readiness", readiness)

    async def story() -> None:
        async with world() as w:
            await up(w)
            assert w.get_worker().status.cml.tls_fingerprint == "ab" * 32
            shown[0] = ""
            await w.until(lambda: fact(w, "Silent") == ("True", "Untrusted"))
            assert w.get_worker().status.cml.tls_fingerprint == "ab" * 32
            worker = w.get_worker()
            assert worker.spec.machine is not None
            where = address_of(context(w), worker, worker.spec.machine, worker.status.machine)
            assert where is not None
            assert where.tls.fingerprint == "ab" * 32

    play(story)
