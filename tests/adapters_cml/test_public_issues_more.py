"""Public CML issues (facts/cml-issues.md) where the adapter and the packages above it meet: F6 to F35.

As in test_public_issues.py: `fNN` is the claim and `offNN` takes the right behaviour away; then
the claim must fail, and with the words that the table gives.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from loopback_cml import LAB, World, world
from scripted_cml import COMPUTE, NODE, ScriptedCml, host_on, ok

from cml_simulator.core.profile import Rules
from labfleet.adapters.cml import waiting
from labfleet.controllers.session import observer
from labfleet.decisions.lifecycle.session import decide as lifecycle
from labfleet.decisions.lifecycle.session.draft import Draft, SessionObservation, Step
from labfleet.kernel import errors
from labfleet.resources import topology, topology_check
from labfleet.resources.definition import Definition, DefinitionSpec, DefinitionStatus
from labfleet.resources.fleet_settings import FleetSettings
from labfleet.resources.meta import Metadata
from labfleet.resources.session import LabStatus, Session, SessionPhase, SessionSpec, SessionStatus
from labfleet.resources.worker import Worker, WorkerSpec
from labfleet.service.kinds import definition_rules

Patch = pytest.MonkeyPatch
S = SessionPhase
BEGUN = datetime(2026, 11, 27, 9, 0, tzinfo=UTC)
TABBED = "lab:\n\ttitle: x\n"
CROOKED = "lab:\n  title: x\n   version: 0.3.0\n"


class Line:
    """One session on a simulated server: what the controller sees and then decides."""

    def __init__(self, cml: World, lab_id: str) -> None:
        self._cml = cml
        self._zero = cml.now
        held = SimpleNamespace(now=FleetSettings)
        parts = SimpleNamespace(cache=SimpleNamespace(by=lambda *_: ()), settings=held)
        self._look = observer.SessionObserver(cast("Any", parts))
        self._worker = Worker(metadata=Metadata(name="w1"), spec=WorkerSpec())
        self.session = Session(
            metadata=Metadata(name="s1", uid="u-1"),
            spec=SessionSpec(definition="d1"),
            status=SessionStatus(
                phase=S.INSTANTIATING,
                phase_since=BEGUN,
                worker="w1",
                lab=LabStatus(title="t", marker="u-1", id=lab_id),
            ),
        )

    async def step(self, *, after: float = 0) -> Step:
        """Let seconds pass, look through the adapter, decide, and keep the new status."""
        self._cml.now += after
        hour = Definition(
            metadata=Metadata(name="d1"),
            spec=DefinitionSpec(topology=LAB),
            status=DefinitionStatus(boot_seconds=3600),
        )
        seen = SessionObservation(definition=hour)
        # private _lab: the look of the public fault needs the true one beneath
        sight = await self._look._lab(self.session, self._worker, self._cml.host, seen)
        now = BEGUN + timedelta(seconds=self._cml.now - self._zero)
        step = lifecycle.decide(self.session, sight.seen, now)
        self.session = msgspec.structs.replace(self.session, status=step.status)
        return step


async def put_up(cml: World, text: str) -> str:
    """Check a topology as a definition is checked, then import it."""
    definition_rules.status_of(DefinitionSpec(topology=text))
    return await cml.host.import_lab(text, title="t")


# --- the claims ------------------------------------------------------------------------------


async def f6() -> None:
    """A compute host is read with `nodes` (2.9) and without (2.10)."""
    host = {"id": COMPUTE, "hostname": "cml-controller", "admission_state": "ONLINE"}
    for shape in ({"nodes": [NODE]}, {"node_counts": {"deployed": 1, "running": 0}}):
        server = ScriptedCml(
            {
                "GET diagnostics/node_launch_queue": ok([{"node_id": NODE, "label": "PC"}]),
                "GET system/compute_hosts": ok([{**host, "is_connected": True, **shape}]),
            }
        )
        told = await host_on(server).queue()
        assert "cml-controller is ONLINE" in told[NODE]


async def f22() -> None:
    """Nodes that are BOOTED at the first look after the start are as good as STARTED."""
    async with world() as cml:
        line = Line(cml, await put_up(cml, LAB))
        assert (await line.step()).action == "start"
        await cml.host.start(line.session.status.lab.id)
        await cml.host.start(line.session.status.lab.id)
        step = await line.step(after=600)
        assert step.status.phase is S.READY, step.status.message


async def f23() -> None:
    """A lab is ready when its nodes are, whatever its own state says before or meanwhile."""
    async with world(rules=Rules(lab_state_lag=5.0)) as cml:
        line = Line(cml, await put_up(cml, LAB))
        assert (await line.step()).action == "start"
        await cml.host.start(line.session.status.lab.id)
        seen = []
        for after in (0, 1, 5, 600):
            step = await line.step(after=after)
            lab = step.status.lab
            seen.append((lab.state, lab.booted == lab.nodes))
            ready = step.status.phase is S.READY
            assert ready == (lab.booted == lab.nodes), f"ready with {lab.booted} of {lab.nodes}"
        assert seen[0] == ("DEFINED_ON_CORE", False)
        assert seen[2:] == [("STARTED", False), ("STARTED", True)]


async def f31() -> None:
    """Broken YAML is refused with its line, and no server is asked."""
    async with world(rules=Rules(yaml_error_status=500)) as cml:
        for text, line in ((TABBED, "spec.topology, line 2"), (CROOKED, "spec.topology, line 3")):
            with pytest.raises(errors.Invalid, match=line) as caught:
                await put_up(cml, text)
            assert caught.value.problems[0][0] == line
        assert cml.asked("/import") == 0


async def f35() -> None:
    """A schema version that CML does not know is refused in words, before any upload."""
    async with world() as cml:
        for version in ("9.9", "0.3", "'0.3.9'"):
            with pytest.raises(errors.Invalid) as caught:
                await put_up(cml, LAB.replace("0.3.0", version))
            assert cml.asked("/import") == 0, "the server was asked"
            assert caught.value.problems[0][0] == "spec.topology, line 2"
            assert "is not one of 0.0.1 to 0.3.1" in caught.value.message
        for version in topology.VERSIONS:
            definition_rules.status_of(DefinitionSpec(topology=LAB.replace("0.3.0", version)))


# --- the same without the right behaviour ----------------------------------------------------


def off6(patch: Patch) -> None:
    """Take the key of 2.9 for granted."""
    real = waiting.computes
    patch.setattr(
        waiting, "computes", lambda hosts: ([h["nodes"] for h in hosts or ()], real(hosts))[1]
    )


def off22(patch: Patch) -> None:
    """Expect STARTED after the start and nothing else."""
    # private _booting: the public fault is put back in the place of the rule
    real = lifecycle._booting

    def strict(draft: Draft, lab: LabStatus) -> Step:
        before = draft.session.status.lab
        if before is not None and before.state != "STARTED" and lab.booted:
            return draft.teardown(S.FAILED, "Unexpected", "unexpected node state BOOTED")
        return real(draft, lab)

    patch.setattr(lifecycle, "_booting", strict)


def off23(patch: Patch) -> None:
    """Believe the lab's own state."""
    patch.setattr(lifecycle, "_all_up", lambda draft: draft.status.lab.state == "STARTED")


def off31(patch: Patch) -> None:
    """Leave the reading to the server."""
    unread = topology.Topology(title="", description="", notes="", version="", nodes=(), links=0)
    patch.setattr(topology_check, "check", lambda _text: unread)


class Every(tuple[str, ...]):
    """Versions that hold every version."""

    __slots__ = ()

    def __contains__(self, _version: object) -> bool:
        return True


def off35(patch: Patch) -> None:
    """Pass every version on."""
    patch.setattr(topology, "VERSIONS", Every(topology.VERSIONS))


Claim = Callable[[], Awaitable[None]]
ISSUES: dict[str, tuple[Claim, Callable[[Patch], None], type[BaseException], str]] = {
    "F6": (f6, off6, KeyError, "nodes"),
    "F22": (f22, off22, AssertionError, "unexpected node state BOOTED"),
    "F23": (f23, off23, AssertionError, "ready with [01] of 2"),
    "F31": (f31, off31, errors.LabfleetError, "500"),
    "F35": (f35, off35, AssertionError, "the server was asked"),
}


@pytest.mark.asyncio
@pytest.mark.parametrize("number", ISSUES)
async def test_the_issue_does_not_happen(number: str) -> None:
    """The right behaviour of facts/cml-issues.md holds."""
    assert await ISSUES[number][0]() is None


@pytest.mark.asyncio
@pytest.mark.parametrize("number", ISSUES)
async def test_the_issue_is_back_without_its_right_behaviour(
    number: str, monkeypatch: Patch
) -> None:
    """Each claim fails once the behaviour is switched off, and for that reason."""
    claim, switch_off, kind, words = ISSUES[number]
    switch_off(monkeypatch)
    with pytest.raises(kind) as caught:
        await claim()
    assert re.search(words, str(caught.value))
