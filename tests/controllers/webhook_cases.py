"""A webhook's controller with a receiver that keeps what it gets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from world import World

from labfleet.controllers.webhooks import WebhookController
from labfleet.engine.controller import Again
from labfleet.interfaces.outside import Answered
from labfleet.kernel import errors
from labfleet.resources.meta import Key
from labfleet.resources.webhook import Webhook

KEY = Key("Webhook", "default", "h")


class FakeDeliveries:
    """Keeps what was posted; answers what the test says."""

    def __init__(self) -> None:
        self.posts: list[tuple[str, dict[str, Any], Mapping[str, str], bytes]] = []
        self.answers: list[int | Answered | errors.LabfleetError] = []

    async def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        seconds: float,
        allow_private: bool,
    ) -> Answered:
        """Answer the next thing, 200 when there is none."""
        assert seconds > 0
        assert not allow_private
        answer = self.answers.pop(0) if self.answers else 200
        if isinstance(answer, errors.LabfleetError):
            raise answer
        self.posts.append((url, json.loads(body), headers, body))
        return answer if isinstance(answer, Answered) else Answered(answer)

    async def close(self) -> None:
        """Hold nothing."""

    def types(self) -> list[str]:
        """Return the types of what arrived with a good answer."""
        return [each[1]["type"] for each in self.posts]


async def begun(w: World, **spec: Any) -> tuple[WebhookController, FakeDeliveries]:
    """Return a controller whose webhook has its place in the log."""
    process = await w.start(run=())
    await w.make("Webhook", "h", {"url": "https://hooks.example.com/x", **spec})
    sender = FakeDeliveries()
    made = WebhookController(process.contexts["scheduler"], sender, w.rng, w.store)
    await rounds(w, made, 1)
    return made, sender


async def rounds(w: World, controller: WebhookController, count: int = 3) -> float:
    """Let the controller do some rounds; return when it wants to look again."""
    again = 0.0
    for _ in range(count):
        await w.services.fresh()
        done = await controller.reconcile(KEY)
        again = done.after if isinstance(done, Again) else -1.0
    return again


def hook(w: World) -> Webhook:
    """Return the webhook as stored."""
    found = w.cache.get(Webhook, "h", "default")
    assert found is not None
    return found
