"""What a pool may say of its scaling, what it then promises, and what a change would endanger."""

from __future__ import annotations

import msgspec
import pytest
from fleet_world import ADMIN, World
from test_promise_explained import patched
from test_service_claims import booked, fleet

from labfleet.kernel import errors
from labfleet.resources.kinds import KINDS
from labfleet.resources.pool import Pool, PoolBudget, Scaling, ScalingPolicy
from labfleet.service.core import warned
from labfleet.service.kinds import pool_claims
from labfleet.service.verbs import applying
from labfleet.service.verbs.applying import Mode


async def places(world: World) -> int:
    """How many workers can be promised on the pool at some time."""
    pool = await world.services.objects.get(Pool, "exam", "default")
    extent = pool_claims.extent(world.services.cache, pool)
    assert extent is not None
    return extent.places


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("scaling", "many"),
    [
        ({"policy": "NEED_BASED"}, 2),
        ({"policy": "CAPACITY_BASED", "minWorkers": 1}, 1),
        ({"policy": "LAB_COUNT_BASED"}, 0),
        ({"policy": "SCHEDULED", "timetable": [
            {"start": "08:00", "end": "18:00", "zone": "Europe/Berlin", "workers": 1}
        ]}, 1),
        ({"enabled": False}, 0),
    ],
)  # fmt: skip
async def test_a_pool_promises_what_its_policy_will_start(world: World, scaling, many):
    """Each policy that upstream names may be set, and bounds what is promised."""
    await fleet(world, workers=2)
    await patched(world, "Pool", "exam", scaling=scaling)
    assert await places(world) == many


@pytest.mark.asyncio
async def test_a_window_in_no_zone_is_refused(world: World):
    """The error names the field and says what a zone looks like."""
    await fleet(world, workers=2)
    wrong = {"hours": [{"start": "08:00", "end": "18:00", "zone": "Mars/Base"}]}
    with pytest.raises(errors.Invalid, match="Europe/Berlin") as caught:
        await patched(world, "Pool", "exam", scaling=wrong)
    assert "spec.scaling.hours[0].zone" in str(caught.value.problems)


@pytest.mark.asyncio
async def test_thresholds_that_cross_are_refused(world: World):
    """A pool that grows and shrinks at one load would do both for ever: the fields are named."""
    await fleet(world, workers=2)
    with pytest.raises(errors.Invalid, match="less than cpuUpPercent, which is 30") as caught:
        await patched(world, "Pool", "exam", scaling={"thresholds": {"cpuUpPercent": 30}})
    assert "spec.scaling.thresholds.cpuDownPercent" in str(caught.value.problems)


@pytest.mark.asyncio
async def test_a_change_that_endangers_promises_says_whose_before_it_is_saved(world: World):
    """A dry run of a lower maximum names the sessions of the places that go; a higher one none."""
    await fleet(world, workers=2)
    await booked(world, 20)
    body = {
        "apiVersion": "labfleet.dev/v1", "kind": "Pool", "metadata": {"name": "exam"},
        "spec": {"scaling": {"maxWorkers": 1}},
    }  # fmt: skip
    (done,) = await applying.apply(
        world.services, ADMIN, (body,), namespace="default", mode=Mode.DRY_RUN, key=None
    )
    assert done.obj is not None
    (told,) = warned.warnings(world.services, done.obj)
    assert told.startswith("10 promised sessions lose theirs, the first from ")
    assert told.endswith(": s010, s011, s012, s013, s014 and 5 more")
    assert await places(world) == 2
    spec = msgspec.structs.replace(done.obj.spec, scaling=Scaling(max_workers=9))
    higher = msgspec.structs.replace(done.obj, spec=spec)
    assert warned.warnings(world.services, higher) == ()


@pytest.mark.asyncio
async def test_a_budget_that_endangers_promises_says_whose_before_it_is_saved(world: World):
    """A budget of an hour for less than a worker loses all that is promised; a large one nothing."""
    await fleet(world, workers=1)
    await patched(world, "Template", "metal", machine={"hourlyPriceUsd": 2.0})
    await booked(world, 10)
    await world.services.fresh()
    stored = await world.services.objects.get(Pool, "exam", "default")
    assert stored is not None
    for bound, lost in ((1.0, 1), (50.0, 0), (None, 0)):
        budget = None if bound is None else PoolBudget(usd_per_hour=bound)
        spec = msgspec.structs.replace(stored.spec, budget=budget)
        told = warned.warnings(world.services, msgspec.structs.replace(stored, spec=spec))
        assert [each.partition(",")[0] for each in told] == [
            "10 promised sessions lose theirs"
        ] * lost


def test_old_pools_decode_with_the_defaults_of_what_is_new():
    """A pool that was stored before there were windows and thresholds has none, and the usual ones."""
    old = b'{"policy": "NEED_BASED", "enabled": true, "minWorkers": 1, "maxWorkers": 4}'
    found = msgspec.json.decode(old, type=Scaling)
    assert (found.hours, found.timetable, found.spare_workers) == ((), (), 0)
    assert (found.thresholds.cpu_up_percent, found.sure_percent) == (75, 99.5)
    assert found.policy is ScalingPolicy.NEED_BASED


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"hours": [{"start": "8:00", "end": "18:00"}]}, "start"),
        ({"hours": [{"start": "08:00"}]}, "end"),
        ({"spareTimes": [{"start": "08:00", "end": "09:00", "workers": -1}]}, "workers"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(wrong, what):
    """Times that are none, and fewer spares than none, say which they are."""
    with pytest.raises(msgspec.ValidationError, match=what):
        msgspec.convert(wrong, Scaling)


def test_the_kind_shows_its_policy():
    """The table of pools has the policy as a column for who asks for more."""
    assert any(each.path == "spec.scaling.policy" for each in KINDS["Pool"].columns)
