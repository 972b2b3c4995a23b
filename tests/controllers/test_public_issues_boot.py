"""Public issues about boots and machines (facts/cml-issues.md): F26, F27, F28, F30, F43, by number.

As in test_public_issues_fleet.py: `fNN` is a story with its claim, `offNN` takes the right
behaviour away, and then the claim must fail. F33, F41, F42 and F45 are in test_cml_trouble.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from scripted_ec2 import NO_ROOM
from virtual_time import play
from world import World, world

from labfleet.controllers.worker import act, observer
from labfleet.decisions.lifecycle.worker import calls, chores
from labfleet.decisions.lifecycle.worker import draft as worker_draft
from labfleet.decisions.lifecycle.worker import hosting as worker_hosting
from labfleet.decisions.lifecycle.worker import up as worker_up
from labfleet.kernel import errors
from labfleet.resources import alerts, conditions
from labfleet.resources.meta import Key
from labfleet.resources.worker import Worker

Patch = pytest.MonkeyPatch
LONG = 10 * 3600.0


async def up(w: World) -> None:
    await w.start()
    await w.worker()
    await w.until(w.in_phase("w1", "READY"))


def reason(w: World, name: str) -> str:
    found = conditions.find(w.get_worker().status.conditions, name)
    return "" if found is None else found.reason


async def f26(w: World) -> None:
    """A CML that was never installed ends in a named failure with the console as evidence."""
    w.hosts.boot(LONG)
    w.compute.console = "cloud-init[1]: s3: 403 Forbidden, cml2.deb not fetched"
    await w.start()
    await w.worker()
    await w.until(w.in_phase("w1", "FAILED"))
    await w.let_pass(300)
    assert reason(w, "Failed") == "BootTimeout"
    assert "403 Forbidden" in w.get_worker().status.console
    assert "Failed" in [
        each.condition
        for each in alerts.raised(Key("Worker", "default", "w1"), w.get_worker().status.conditions)
    ]


async def f27(w: World) -> None:
    """Unreachable, refused, 502 and not ready are told apart while it boots."""
    told: list[str] = []

    def note(_old: Any, new: Any) -> None:
        found = conditions.find(new.status.conditions, "CMLReady")
        if found is not None and found.reason not in told:
            told.append(found.reason)

    w.cache.on_change(Worker, note)
    await up(w)
    assert told == ["Unreachable", "Refused", "BadGateway", "NotReady", "Ready"]
    w.hosts.cut.add("w1")
    await w.until(lambda: reason(w, "Silent") == "NoAnswer")
    assert w.phase("w1") == "READY"


async def f28(w: World) -> None:
    """Address and image are EC2's of this boot: a new address after stop and start is used."""
    await up(w)
    before = w.get_worker().status
    await w.desire("w1", "Stopped")
    await w.until(w.in_phase("w1", "STOPPED"))
    await w.desire("w1", "Ready")
    await w.until(w.in_phase("w1", "READY"))
    after = w.get_worker().status
    assert after.machine.public_address != before.machine.public_address
    assert after.machine.public_address is not None
    assert after.machine.public_address in (after.cml.url or "")
    assert after.machine.image == "ami-1"


async def f30(w: World) -> None:
    """The licence goes back by CML's API, before the machine ends; no other way in is needed."""
    await up(w)
    await w.desire("w1", "Terminated")
    await w.until(w.in_phase("w1", "TERMINATED"))
    assert w.hosts.licences_left() == []
    assert w.get_worker().status.licence.leak is None


async def f43(w: World) -> None:
    """A start without room is backed off, alarmed, and waits for its own machine."""
    await up(w)
    await w.desire("w1", "Stopped")
    await w.until(w.in_phase("w1", "STOPPED"))
    w.cloud.refusals["StartInstances"] = NO_ROOM
    await w.desire("w1", "Ready")
    await w.let_pass(1200)
    assert len([each for each in w.compute.calls if each.startswith("start")]) <= 7
    raised = [
        each.condition
        for each in alerts.raised(Key("Worker", "default", "w1"), w.get_worker().status.conditions)
    ]
    assert "MachineStarted" in raised
    w.cloud.refusals.clear()
    await w.until(w.in_phase("w1", "READY"))
    assert len(w.compute.machines) == 1


# --- the same without the right behaviour ----------------------------------------------------


def off26(patch: Patch) -> None:
    """Keep no evidence."""

    patch.setattr(chores, "console_due", lambda _worker: False)


def off27(patch: Patch) -> None:
    """Say "not ready" whatever it is."""
    patch.setattr(worker_draft, "STAGE_REASONS", {})


def off28(patch: Patch) -> None:
    """Keep the first address for good."""
    real, first = observer.machine_status, {}

    def remembered(found: Any) -> Any:
        made = real(found)
        if made.public_address is not None:
            first.setdefault(found.id, made.public_address)
        return type(made)(
            id=made.id, state=made.state, image=made.image,
            public_address=first.get(found.id), launched=made.launched,
        )  # fmt: skip

    patch.setattr(observer, "machine_status", remembered)


def off30(patch: Patch) -> None:
    """Do not ask CML to give it back."""
    for module in (worker_hosting, worker_up):
        patch.setattr(module, "must_return_licence", lambda _draft: False)


def off43(patch: Patch) -> None:
    """Take a start for done."""
    # private _start: the public fault is put back in the place of the step
    real = act.Actions._start

    async def done(self: Any, worker: Worker, machine: Any) -> Any:
        try:
            return await real(self, worker, machine)
        except errors.LabfleetError:
            return calls.Answer()

    patch.setattr(act.Actions, "_start", done)


Claim = Callable[[World], Awaitable[None]]
ISSUES: dict[str, tuple[Claim, Callable[[Patch], None]]] = {
    "F26": (f26, off26), "F27": (f27, off27), "F28": (f28, off28), "F30": (f30, off30),
    "F43": (f43, off43),
}  # fmt: skip


def run(claim: Claim) -> None:
    async def story() -> None:
        async with world() as w:
            await claim(w)
            w.check()

    play(story)


@pytest.mark.parametrize("number", ISSUES)
def test_the_issue_does_not_happen(number: str) -> None:
    """The right behaviour of facts/cml-issues.md holds."""
    run(ISSUES[number][0])


@pytest.mark.parametrize("number", ISSUES)
def test_the_issue_is_back_without_its_right_behaviour(number: str, monkeypatch: Patch) -> None:
    """Each claim fails once the behaviour is switched off: it proves what it says."""
    claim, off = ISSUES[number]
    off(monkeypatch)
    with pytest.raises(AssertionError):
        run(claim)
