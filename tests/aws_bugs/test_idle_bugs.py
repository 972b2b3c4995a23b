"""What counts as unused, as it went wrong elsewhere: facts/aws-bugs.md#case-25 to #case-29."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from bug_world import BugWorld, bugs
from scripted_servers import EVENTS
from virtual_time import play
from world import ADMIN

from labfleet.decisions import parking
from labfleet.rehearsal.time.virtual_host import SECRET
from labfleet.resources.worker import Worker
from labfleet.service.verbs import settings_verbs

TIMEOUT = timedelta(minutes=20)


async def rule_on(w: BugWorld, **over: Any) -> None:
    """Switch the idle rule on: 20 minutes without use, no snooze, 2 minutes of warning."""
    wanted = {
        "enabled": True, "timeoutMinutes": 20, "snoozeMinutes": 0, "warnMinutes": 2, **over,
    }  # fmt: skip
    await settings_verbs.change(w.services, ADMIN, {f"idle.{key}": wanted[key] for key in wanted})


async def up(w: BugWorld, **over: Any) -> None:
    """Bring one worker up whose telemetry tells of use; the rule is on."""
    await w.start()
    await rule_on(w, **over)
    made = w.machine()
    await w.worker(machine={**made, "cml": {**made["cml"], "enableTelemetry": True}})
    await w.until(w.in_phase("w1", "READY"))


def kept_by(w: BugWorld, word: str) -> Callable[[], bool]:
    """Tell whether this signal keeps the worker."""
    return lambda: word in w.get_worker().status.idle.signals


def their_lab(w: BugWorld) -> None:
    """Start a lab that is not ours, as somebody does in CML's own pages."""
    w.hosts.run("w1")


@pytest.mark.parametrize("who", ["a person", "the rule"])
@pytest.mark.parametrize("snooze", [0, 45])
def test_25_a_worker_that_was_started_again_is_not_stopped_for_its_past(
    snooze: int, who: str
) -> None:
    """Number 25: stopped for an hour, it has the whole timeout, and the snooze, before it."""

    async def story() -> None:
        async with bugs() as w:
            await up(w, snoozeMinutes=0)
            if who == "a person":
                await w.desire("w1", "Stopped")
            await w.until(w.in_phase("w1", "STOPPED"))
            stops = w.cloud.calls("StopInstances")
            await rule_on(w, snoozeMinutes=snooze)
            await w.let_pass(3600)
            await w.desire("w1", "Ready")
            await w.until(w.in_phase("w1", "READY"))
            since = w.get_worker().status.ready_since
            assert since is not None
            await w.until(lambda: w.cloud.calls("StopInstances") > stops)
            assert w.clock.now() - since >= max(TIMEOUT, timedelta(minutes=snooze))
            w.check()

    play(story)


def test_25_a_worker_that_came_back_by_itself_has_a_new_clock_too() -> None:
    """Number 25: a quarter of an hour unused before it was stopped outside counts no more."""

    async def story() -> None:
        async with bugs() as w:
            await up(w)
            await w.let_pass(900)
            w.cloud.hand("stop", w.get_worker().status.machine.id or "")
            await w.until(w.in_phase("w1", "FAILED"))
            await w.until(w.in_phase("w1", "READY"))
            since = w.get_worker().status.ready_since
            assert since is not None
            await w.until(lambda: w.cloud.calls("StopInstances") == 1)
            assert w.clock.now() - since >= TIMEOUT
            w.check()

    play(story)


async def _no_login(w: BugWorld) -> None:
    w.secrets.values["PASSWORD"] = "wrong"


async def _no_metrics(w: BugWorld) -> None:
    w.cloud.config(cloudwatch={"absent": ["*"]})
    await settings_verbs.change(w.services, ADMIN, {"monitoring.cloudwatch": True})


async def _late_metrics(w: BugWorld) -> None:
    w.cloud.config(cloudwatch={"late": 7200.0})
    await settings_verbs.change(w.services, ADMIN, {"monitoring.cloudwatch": True})


async def _no_metrics_call(w: BugWorld) -> None:
    w.cloud.rule("throttling", service="monitoring", action="GetMetricData")
    await settings_verbs.change(w.services, ADMIN, {"monitoring.cloudwatch": True})


async def _failing(w: BugWorld, *calls: str) -> None:
    w.hosts.fail(*calls)


async def _silent(w: BugWorld) -> None:
    w.hosts.cut.add("w1")


async def _declined(w: BugWorld) -> None:
    server = w.hosts.of("w1")
    await w.until(lambda: server.opt_in is True)  # asked for at each boot
    server.opt_in = False


UNKNOWN: dict[str, Callable[[BugWorld], Any]] = {
    "events answer 503": lambda w: _failing(w, EVENTS),
    "sizes answer 503": lambda w: _failing(w, "system_stats"),
    "everything answers 503": lambda w: _failing(w, EVENTS, "system_stats", "licensing"),
    "nothing answers": _silent,
    "the login is refused": _no_login,
    "telemetry is declined": _declined,
    "CloudWatch has no points": _no_metrics,
    "CloudWatch is hours late": _late_metrics,
    "CloudWatch throttles": _no_metrics_call,
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_26_what_cannot_be_known_keeps_a_worker(what: str) -> None:
    """Number 26: a probe that fails, and a number that is missing or stale, is no idleness."""

    async def story() -> None:
        async with bugs() as w:
            await up(w)
            await UNKNOWN[what](w)
            await w.let_pass(3600)
            assert w.phase("w1") == "READY"
            assert w.get_worker().status.idle.signals
            assert w.cloud.calls("StopInstances") == 0
            w.secrets.values["PASSWORD"] = SECRET
            w.hosts.fail()
            w.hosts.of("w1").opt_in = True
            w.hosts.cut.clear()
            w.cloud.ask("DELETE", "rules")
            w.cloud.config(cloudwatch={"absent": [], "late": 0.0})
            await w.until(w.in_phase("w1", "STOPPED"))
            w.check()

    play(story)


def test_26_a_worker_that_takes_its_licence_is_in_set_up() -> None:
    """Number 26: licensing for longer than the timeout is something under way, not idleness."""

    async def story() -> None:
        async with bugs() as w:
            w.hosts.set(registration_seconds=550.0)
            await up(w, timeoutMinutes=5, warnMinutes=0)
            assert w.cloud.calls("StopInstances") == 0
            assert "DRAINING" not in w.phases["w1"]
            await w.until(w.in_phase("w1", "STOPPED"))
            w.check()

    play(story)


def test_27_a_lab_that_starts_between_the_check_and_the_stop_keeps_its_machine() -> None:
    """Number 27: cordoned, looked at once more, opened again: nothing is stopped under it."""

    async def story() -> None:
        async with bugs() as w:
            await up(w)

            def at_the_second_look(_: str) -> None:
                if parking.cordoned(w.get_worker()) and not w.hosts.of("w1").labs:
                    their_lab(w)

            w.hosts.at_nodes = at_the_second_look
            await w.until(kept_by(w, "nodes"))
            assert not w.get_worker().spec.cordoned
            await w.let_pass(3600)
            assert w.phase("w1") == "READY"
            assert "DRAINING" not in w.phases["w1"]
            assert w.cloud.calls("StopInstances") == 0
            w.hosts.at_nodes = None
            w.hosts.remove("w1")
            await w.until(w.in_phase("w1", "STOPPED"))
            w.check()

    play(story)


def test_27_a_lab_that_starts_after_the_last_check_takes_the_stop_back() -> None:
    """Number 27: the stop was asked for, the lab came, and EC2 is never asked to stop."""

    async def story() -> None:
        async with bugs() as w:
            await up(w)

            def strike(old: Worker | None, new: Worker | None) -> None:
                asked = new is not None and new.spec.desired == "Stopped"
                if asked and old is not None and old.spec.desired == "Ready":
                    their_lab(w)

            w.cache.on_change(Worker, strike)  # type: ignore[arg-type]
            await w.until(lambda: "DRAINING" in w.phases["w1"])
            await w.until(w.in_phase("w1", "READY"))
            await w.let_pass(3600)
            assert w.cloud.calls("StopInstances") == 0
            assert w.get_worker().status.idle.auto_resumes == 1
            w.check()

    play(story)


@pytest.mark.parametrize(("each_way", "busy"), [(650_000.0, True), (350_000.0, False)])
def test_29_traffic_is_bytes_a_second_and_nothing_else(each_way: float, busy: bool) -> None:
    """Number 29: 1.3 MB/s in CloudWatch's bytes per period keeps a worker, 0.7 MB/s does not."""

    async def story() -> None:
        async with bugs() as w:
            await settings_verbs.change(w.services, ADMIN, {"monitoring.cloudwatch": True})
            await up(w)
            [found] = w.cloud.instances("w1")
            w.cloud.hand("load", found["id"], network_in=each_way, network_out=each_way)
            await w.let_pass(2 * 3600)
            assert (w.cloud.calls("StopInstances") == 0) is busy
            if busy:
                assert kept_by(w, "network")()
                [told] = [
                    each for each in w.get_worker().status.idle.evidence if each.name == "network"
                ]
                assert told.value.endswith(" kB/s")
                assert 1200 <= float(told.value.split()[0]) <= 1400
                w.cloud.hand("load", found["id"], network_in=0.0, network_out=0.0)
                await w.until(w.in_phase("w1", "STOPPED"))
            w.check()

    play(story)
