"""A pause that arrives while the idle rule is about to act on a worker is heard."""

from __future__ import annotations

from typing import Any

import pytest
from test_idle_stop import foreign_lab, ready
from virtual_time import play
from world import ADMIN, world

from labfleet.controllers.worker.idle import IdleController
from labfleet.service.verbs import settings_verbs


def test_a_pause_while_an_old_worker_is_looked_at_holds_its_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The stop of a worker that is too old waits, whenever the pause came."""
    # private _caught_up: the defence is taken out to show that the test needs it
    before = IdleController._caught_up

    async def story() -> None:
        async with world() as w:
            await ready(w, enabled=False, maxAgeHours=1)
            lab = foreign_lab(w)
            await w.until(w.in_phase("w1", "DRAINING"))

            async def caught_up(self: Any) -> None:
                await settings_verbs.pause(w.services, ADMIN, reason="to look at something")
                await before(self)

            monkeypatch.setattr(IdleController, "_caught_up", caught_up)
            w.hosts.remove("w1", lab.id)
            await w.let_pass(1800)
            assert w.get_worker().spec.desired == "Ready"
            assert w.phase("w1") == "DRAINING"

    play(story)
