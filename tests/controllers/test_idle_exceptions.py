"""What keeps a worker from being stopped by the idle rule, and what ends such a stop.

The numbered cases are rows of facts/fleet-bugs.md.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec
from idle_cases import SEEN, all_, foreign_lab, kept_by, ready, respec, rule_on
from virtual_time import play
from world import ADMIN, later, world

from labfleet.decisions import parking
from labfleet.resources.pool import Pool
from labfleet.service.verbs import lifecycle as verbs
from labfleet.service.verbs import settings_verbs

PERSON = "5c1f9d6a-3b52-4e0c-9a77-0d2f6be1c3a4"


OURS = "00000000-0000-4000-a000-000000000000"


def test_sessions_of_our_own_keep_the_worker_and_their_end_starts_the_clock() -> None:
    """A slot that is not over is never idle, whatever CPU and events say (T06)."""

    async def story() -> None:
        async with world() as w:
            await ready(w, timeoutMinutes=5, warnMinutes=0)
            await w.session(slot={"start": later(w, 1), "end": later(w, 90)})
            await w.until(w.ended)
            ended = w.get_session().status.ended_at
            assert w.phase("s1") == "COMPLETED"
            await w.until(w.in_phase("w1", "STOPPED"))
            assert w.get_worker().status.idle.last_paused_at - ended >= timedelta(minutes=5)
            w.check()

    play(story)


def test_a_session_that_begins_soon_keeps_the_worker() -> None:
    """Somebody waits whose slot begins within the lead: no stop, no new boot for them."""

    async def story() -> None:
        async with world() as w:
            await ready(w, timeoutMinutes=30, soonMinutes=60)
            await w.session(slot={"start": later(w, 75), "end": later(w, 100)})
            await w.until(w.in_phase("s1", "RUNNING"))
            assert "STOPPED" not in w.phases["w1"]
            w.check()

    play(story)


def test_people_s_events_put_the_stop_off_and_our_own_do_not() -> None:
    """Events of others than CML's system users count, in the categories that are set."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            w.hosts.use("w1", "start_lab", OURS)
            w.hosts.use("w1", "weather", PERSON)
            await w.let_pass(15 * 60)
            last = w.clock.now()
            w.hosts.use("w1", "user_activity", PERSON)
            await w.until(w.in_phase("w1", "STOPPED"))
            idle = w.get_worker().status.idle
            assert idle.last_paused_at - last >= timedelta(minutes=20)
            assert idle.last_activity_at == last
            assert [each.category for each in idle.recent] == ["user_activity"]
            w.check()

    play(story)


def test_switches_and_pause_stop_the_rule() -> None:
    """Fleet, worker and pause: each alone keeps every worker, and is said."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await settings_verbs.pause(w.services, ADMIN, reason="audit")
            await w.let_pass(7200)
            assert "paused" in kept_by(w)
            await settings_verbs.resume(w.services, ADMIN)
            await respec(w, w.get_worker(), idle_detection=False)
            await w.let_pass(7200)
            assert "worker_switch" in kept_by(w)
            await respec(w, w.get_worker(), idle_detection=True)
            await rule_on(w, enabled=False)
            await w.let_pass(7200)
            assert w.phase("w1") == "READY"
            assert w.get_worker().status.idle.auto_pauses == 0
            w.check()

    play(story)


def test_a_pause_holds_a_parked_worker_too() -> None:
    """Nothing is started by itself while automatic actions are paused."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.until(w.in_phase("w1", "STOPPED"))
            await settings_verbs.pause(w.services, ADMIN)
            await w.session()
            await w.let_pass(3600)
            assert w.phase("w1") == "STOPPED"
            await settings_verbs.resume(w.services, ADMIN)
            await w.until(w.in_phase("s1", "RUNNING"))

    play(story)


def test_a_stop_by_people_outweighs_the_rule_s() -> None:
    """A worker that a person stopped, also after the rule did, starts for nobody."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await w.until(w.in_phase("w1", "STOPPED"))
            await verbs.desire(w.services, ADMIN, "w1", "default", desired="Stopped")
            await w.until(lambda: w.get_worker().status.idle.manual_pauses == 1)
            await w.session()
            await w.let_pass(3600)
            assert (w.phase("w1"), w.phase("s1") == "RUNNING") == ("STOPPED", False)

    play(story)


def test_a_worker_that_is_too_old_is_drained_and_stopped_only_when_empty() -> None:
    """The maximum age throws nobody out: the session ends first, the lab of others too."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await rule_on(w, enabled=False, maxAgeHours=1)
            await w.worker(machine=SEEN)
            await w.definition()
            await w.until(w.in_phase("w1", "READY"))
            await w.session(slot={"start": later(w, 5), "end": later(w, 120)})
            lab = foreign_lab(w)
            await w.until(w.in_phase("w1", "DRAINING"))
            assert "max age" in w.get_worker().spec.drain.reason
            await w.until(w.ended)
            assert w.phase("s1") == "COMPLETED"
            await w.let_pass(1800)
            assert w.phase("w1") == "DRAINING"
            w.hosts.remove("w1", lab.id)
            await w.until(w.in_phase("w1", "STOPPED"))
            assert w.get_worker().spec.drain is None
            assert w.get_worker().status.idle.last_paused_reason == "max_age"
            w.check()

    play(story)


def test_a_worker_that_fails_while_the_rule_drains_it_is_let_go() -> None:
    """Nobody replaces what somebody drains: without a pool it waits for people, undrained."""

    async def story() -> None:
        async with world() as w:
            await ready(w, enabled=False, maxAgeHours=1)
            await w.session(slot={"start": later(w, 5), "end": later(w, 120)})
            await w.until(w.in_phase("w1", "DRAINING"))
            w.compute.end(w.compute.alive("w1")[0], "Server.InternalError")
            await w.until(w.in_phase("w1", "FAILED"))
            await w.until(lambda: w.get_worker().spec.drain is None)
            await w.let_pass(1800)
            assert w.phase("w1") == "FAILED"

    play(story)


def test_a_parked_worker_of_a_pool_whose_instance_ended_goes_for_good() -> None:
    """It is capacity no more, and does not take a place of the pool for ever."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await rule_on(w)
            await w.make("Template", "metal", {"machine": SEEN})
            await w.pool(scaling={"minWorkers": 1, "maxWorkers": 2, "policy": "NONE"})
            await w.until(lambda: any(e.status.phase == "READY" for e in all_(w)))
            pool = w.cache.get(Pool, "p1", "default")
            await respec(w, pool, scaling=msgspec.structs.replace(pool.spec.scaling, min_workers=0))
            await w.until(lambda: all(each.status.phase == "STOPPED" for each in all_(w)))
            w.compute.end(w.compute.alive()[0])
            await w.until(lambda: not all_(w), hours=6)
            assert len([each for each in w.compute.calls if each.startswith("launch")]) == 1

    play(story)


def test_a_process_that_dies_between_cordon_and_stop_leaves_no_cordon_behind() -> None:
    """The next life finds the mark, looks again, and stops or opens the worker."""

    async def story() -> None:
        async with world() as w:
            process = await ready(w)
            w.hosts.at_nodes = lambda _: (
                process.kill() if parking.cordoned(w.get_worker()) else None
            )
            await w.until(lambda: process.dead)
            assert parking.cordoned(w.get_worker())
            w.hosts.at_nodes = None
            foreign_lab(w)
            await w.start()
            await w.until(lambda: not w.get_worker().spec.cordoned)
            await w.let_pass(600)
            assert w.phase("w1") == "READY"
            w.check()

    play(story)


def test_a_worker_that_people_cordoned_stays_cordoned() -> None:
    """The rule takes back its own cordon only."""

    async def story() -> None:
        async with world() as w:
            await ready(w)
            await verbs.cordon(w.services, ADMIN, "w1", "default")
            await w.until(w.in_phase("w1", "STOPPED"))
            assert w.get_worker().spec.cordoned
            await w.desire("w1", "Ready")
            await w.until(w.in_phase("w1", "READY"))
            assert w.get_worker().spec.cordoned

    play(story)
