"""Whose webhooks may make whose wait."""

from __future__ import annotations

import asyncio
from typing import Any

from virtual_time import play
from webhook_cases import FakeDeliveries
from world import World, world

from labfleet.controllers.webhooks import PEOPLES_TURNS, TURNS, WebhookController
from labfleet.engine.controller import Again, Done
from labfleet.interfaces.outside import Answered
from labfleet.resources.meta import Key
from labfleet.resources.webhook import Webhook

LATE = 600.0


class LateDeliveries(FakeDeliveries):
    """Receivers of people answer after ten minutes, all others at once."""

    def __init__(self, w: World) -> None:
        super().__init__()
        self._w = w
        self.open = 0
        self.most = 0

    async def post(self, url: str, *args: Any, **how: Any) -> Answered:
        """Answer late, and count how many wait for an answer at once."""
        if "late" in url:
            self.open += 1
            self.most = max(self.most, self.open)
            await self._w.clock.sleep(LATE)
            self.open -= 1
        return await super().post(url, *args, **how)


def key(name: str) -> Key:
    return Key("Webhook", "default", name)


def test_late_receivers_of_people_leave_half_of_the_turns_to_operators() -> None:
    """However many webhooks however many people have; each of them waits for its own alone."""

    async def story() -> None:
        async with world() as w:
            process = await w.start(run=())
            sender = LateDeliveries(w)
            made = WebhookController(process.contexts["scheduler"], sender, w.rng, w.store)
            await w.definition("d1")
            names = [
                f"{owner}-{n}" for n in range(2) for owner in ("ana", "ben", "cy", "di", "eve")
            ]
            for name in names:
                url = f"https://late.example.com/{name}"
                await w.make("Webhook", name, {"url": url, "owner": name.partition("-")[0]})
            await w.make("Webhook", "ops", {"url": "https://hooks.example.com/x"})
            for name in (*names, "ops"):
                await w.services.fresh()
                await made.reconcile(key(name))
            for owner in ("ana", "ben", "cy", "di", "eve"):
                await w.session(f"s-{owner}", definition="d1", owner=owner)
            await w.services.fresh()
            rounds = [asyncio.ensure_future(made.reconcile(key(name))) for name in names]
            await w.clock.sleep(1.0)
            assert sender.open == PEOPLES_TURNS < TURNS
            waiting = [each.result() for each in rounds if each.done()]
            assert len(waiting) == len(names) - PEOPLES_TURNS
            assert all(isinstance(each, Again) and each.after > 0 for each in waiting)
            await made.reconcile(key("ops"))
            assert sender.types().count("session.created") == 5, "an operator's is not late"
            await asyncio.gather(*rounds)
            for _ in range(2 * len(names)):
                for name in names:
                    await w.services.fresh()
                    done: Done | Again = await made.reconcile(key(name))
                    assert isinstance(done, Again)
            told = [hook.status.delivered for hook in w.cache.all(Webhook) if hook.spec.owner]
            assert len(told) == len(names)
            assert all(told), "whoever got no turn hears of it later"
            assert sender.most == PEOPLES_TURNS

    play(story)
