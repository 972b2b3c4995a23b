"""What the composition root adds to settings: the gauge of pauses, and the webhooks that were asked for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "service"))
from fleet_world import ADMIN
from fleet_world import world as opened

from labfleet.app import notifying
from labfleet.app.metrics import Metrics
from labfleet.app.watchers import add_pauses
from labfleet.resources.webhook import Webhook
from labfleet.service.verbs import settings_verbs

URL = "https://hooks.example.com/services/secret-part"


@pytest.mark.asyncio
async def test_the_gauge_has_a_row_for_everything_and_for_each_paused_pool() -> None:
    """labfleet_paused is 0 for * until somebody pauses; pools appear while they are paused."""
    async with opened() as world:
        metrics = Metrics()
        add_pauses(metrics, world.services.settings)

        def rows() -> list[str]:
            text = metrics.text()[0].decode()
            return [line for line in text.splitlines() if line.startswith("labfleet_paused{")]

        assert rows() == ['labfleet_paused{namespace="*",pool="*"} 0.0']
        await world.template()
        await world.make("Pool", "exam", {"template": "metal"})
        await settings_verbs.pause(world.services, ADMIN)
        await settings_verbs.pause_pool(world.services, ADMIN, "exam", "default")
        await world.services.fresh()
        assert rows() == [
            'labfleet_paused{namespace="*",pool="*"} 1.0',
            'labfleet_paused{namespace="default",pool="exam"} 1.0',
        ]


@pytest.mark.asyncio
async def test_an_asked_webhook_is_made_once_and_never_changed() -> None:
    """The second start finds it, also when people have changed it."""
    async with opened() as world:
        assert await notifying.ensure(world.services, (URL,)) == ()
        assert await notifying.ensure(world.services, (URL,)) == ()
        await world.services.fresh()
        [made] = world.services.cache.all(Webhook)
        assert (made.spec.url, made.spec.types) == (URL, notifying.TYPES)


@pytest.mark.asyncio
async def test_a_refused_webhook_is_told_without_its_address() -> None:
    """An address that may not be called stops nothing and is not repeated: it may be a secret."""
    async with opened() as world:
        refused = await notifying.ensure(world.services, ("http://169.254.169.254/secret-part",))
        assert len(refused) == 1
        assert "secret-part" not in refused[0]
