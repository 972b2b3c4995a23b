"""Public CML issues (facts/cml-issues.md) that are the controllers', each by its number.

Each `fNN` is a story with its claim; `offNN` takes the right behaviour away, and then the
claim must fail: both are run. F33, F36, F41, F42 and F45 are in test_cml_trouble.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fleet_cases import HOME
from msgspec.structs import replace
from scripted_servers import ScriptedHost
from virtual_time import play
from world import World, world

from labfleet.controllers.session import observer, port_watch
from labfleet.decisions import demand
from labfleet.decisions.lifecycle.session import budget as session_budget
from labfleet.decisions.lifecycle.session import decide as lifecycle
from labfleet.decisions.lifecycle.session.draft import Draft, Step
from labfleet.interfaces.lab_host import Lab

Patch = pytest.MonkeyPatch


async def ready(w: World) -> None:
    await w.start()
    await w.worker()
    await w.definition()
    await w.until(w.in_phase("w1", "READY"))


async def f1(w: World) -> None:
    """A server that says converged too early is asked for its nodes' states as well."""
    await ready(w)
    w.hosts.stopped_early = True
    await w.session()
    await w.until(w.ended)
    assert w.phase("s1") == "COMPLETED"


async def f12(w: World) -> None:
    """An import whose answer was lost is looked up by its marker, not repeated."""
    await ready(w)
    w.strike = lambda name, _: "lost-after" if name == "import_lab" else None
    await w.session()
    await w.until(lambda: bool(w.hosts.labs_left()))
    w.strike = None
    await w.until(w.in_phase("s1", "RUNNING"))
    assert len(w.hosts.labs_left()) == 1


async def f13(w: World) -> None:
    """A recorded lab id is checked against the server: a lab that is gone is made anew."""
    await ready(w)
    await w.session()
    await w.until(lambda: bool(w.hosts.labs_left()))
    w.hosts.remove("w1")
    await w.until(w.in_phase("s1", "RUNNING", "FAILED"))
    assert w.phase("s1") == "RUNNING"


async def f17(w: World) -> None:
    """A new lab, DEFINED_ON_CORE and never STOPPED, is started."""
    await ready(w)
    await w.session()
    await w.until(w.in_phase("s1", "RUNNING", "FAILED"))
    assert w.phase("s1") == "RUNNING"


async def f19(w: World) -> None:
    """A running lab is stopped, wiped and deleted, in this order."""
    await ready(w)
    await w.session()
    await w.until(w.ended)
    order = [call.split()[0] for call in w.hosts.calls]
    steps = list(dict.fromkeys(each for each in order if each in {"stop", "wipe", "delete"}))
    assert steps == ["stop", "wipe", "delete"]


async def f25(w: World) -> None:
    """A lab that somebody removed ends its session with that reason and frees its ports."""
    await ready(w)
    await w.session()
    await w.until(w.in_phase("s1", "RUNNING"))
    w.hosts.remove("w1")
    await w.until(w.ended)
    assert (w.phase("s1"), w.get_session().status.reason) == ("FAILED", "LabDeletedOutside")
    assert await w.store.ports() == ()


async def f32(w: World) -> None:
    """A boot that takes longer than a common 120 s is waited for."""
    await ready(w)
    w.hosts.node_boot(240.0)
    await w.session()
    await w.until(w.in_phase("s1", "RUNNING", "STOPPING"))
    assert w.phase("s1") == "RUNNING"


async def f34(w: World) -> None:
    """A stranger's lab with our title is never taken for ours."""
    await ready(w)
    made = await w.session()
    theirs = w.hosts.edit("w1")
    theirs.title = observer.lab_title(made)
    await w.until(w.in_phase("s1", "RUNNING"))
    assert w.get_session().status.lab is not None
    assert w.get_session().status.lab.id != theirs.id
    await w.until(w.ended)
    assert list(w.hosts.of("w1").labs) == [theirs.id]


async def f40(w: World) -> None:
    """All nodes booted proves no port: one that does not answer is named, and then waited for."""
    await ready(w)
    w.hosts.set(patty_first=HOME + 2)
    await w.session()
    await w.until(w.told("s1", f"r1_serial (tcp {HOME})"))
    await w.let_pass(60)
    assert w.phase("s1") == "INSTANTIATING"
    w.hosts.set(patty_first=2000)
    await w.until(w.in_phase("s1", "RUNNING"))


# --- the same without the right behaviour ----------------------------------------------------


def off1(patch: Patch) -> None:
    """Believe the server's word."""

    async def yes(_self: Any, _lab: str) -> bool:
        return True

    patch.setattr(ScriptedHost, "converged", yes)
    patch.setattr(observer, "ACTIVE_STATES", frozenset())


def off12(patch: Patch) -> None:
    """Know a lab by its id alone."""

    async def by_id(_self: Any, session: Any, host: Any) -> tuple[Lab | None, tuple[str, ...]]:
        known = session.status.lab
        return (None if known is None or known.id is None else await host.lab(known.id)), ()

    patch.setattr(observer.SessionObserver, "_find", by_id)


def off13(patch: Patch) -> None:
    """Believe the record of a lab that was imported."""
    # private _find: the public fault is put back in the place of the look
    real = observer.SessionObserver._find

    async def recorded(self: Any, session: Any, host: Any) -> tuple[Lab | None, tuple[str, ...]]:
        known = session.status.lab
        if known is None or known.id is None:
            found: tuple[Lab | None, tuple[str, ...]] = await real(self, session, host)
            return found
        return Lab(known.id, known.title, "", "STARTED"), ()

    patch.setattr(observer.SessionObserver, "_find", recorded)


def off17(patch: Patch) -> None:
    """Start what is STOPPED only."""
    # private _booting, _finish, _HANDLERS: the public fault is put back in the place of the rule
    real = lifecycle._booting

    def booting(draft: Draft, lab: Any) -> Step:
        if lab.state == "DEFINED_ON_CORE":
            return draft.stay("nothing to do")
        return real(draft, lab)

    patch.setattr(lifecycle, "_booting", booting)


def off19(patch: Patch) -> None:
    """Delete at once."""

    def stopping(draft: Draft) -> Step:
        if draft.seen.looked and draft.seen.lab is None:
            return lifecycle._finish(draft)
        return draft.stay("deleting", do="delete")

    patch.setitem(lifecycle._HANDLERS, lifecycle.S.STOPPING, stopping)


def off25(patch: Patch) -> None:
    """Take 404 for nothing."""
    patch.setattr(lifecycle, "_lab_vanished", lambda _draft: False)


def off32(patch: Patch) -> None:
    """Give every lab two minutes."""
    patch.setattr(demand, "start_budget", lambda *_, **__: 120)
    patch.setattr(session_budget, "HEAD_START_SECONDS", 0)


def off34(patch: Patch) -> None:
    """Know a lab by its title."""

    async def by_title(_self: Any, session: Any, host: Any) -> tuple[Lab | None, tuple[str, ...]]:
        title = observer.lab_title(session)
        return next((each for each in await host.labs() if each.title == title), None), ()

    patch.setattr(observer.SessionObserver, "_find", by_title)


def off40(patch: Patch) -> None:
    """Take a booted node's port for open."""

    async def unseen(_self: Any, _session: Any, _worker: Any, seen: Any) -> Any:
        return replace(seen, ports_open=True)

    patch.setattr(port_watch.PortWatch, "coming", unseen)


Claim = Callable[[World], Awaitable[None]]
ISSUES: dict[str, tuple[Claim, Callable[[Patch], None]]] = {
    "F1": (f1, off1), "F12": (f12, off12), "F13": (f13, off13), "F17": (f17, off17),
    "F19": (f19, off19), "F25": (f25, off25), "F32": (f32, off32), "F34": (f34, off34),
    "F40": (f40, off40),
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
