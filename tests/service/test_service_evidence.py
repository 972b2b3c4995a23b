"""Whose past runs a caller is shown by name behind a prediction."""

from __future__ import annotations

import pytest
from fleet_world import ADMIN, World, who

from labfleet.resources.kinds import KINDS
from labfleet.resources.prediction import Prediction
from labfleet.service.core import views
from labfleet.service.core.service_context import Caller
from labfleet.service.reads import explain
from labfleet.service.verbs import admission, settings_verbs

ANN, BOB = who("runner", "ann"), who("runner", "bob")


async def ran(world: World, caller: Caller, *, end: bool = True) -> str:
    """Let a caller's run of one chart go by, or only begin; return its name."""
    body = {"params": {"chart": "mesh", "nodecount": 3}, "durationSeconds": 60}
    run = await admission.request_run(world.services, caller, body, namespace="default")
    if end:
        await admission.simulation_complete(
            world.services, caller, run.name, "default", observed={"cpuMilli": 900}
        )
        await world.services.fresh()
    return run.name


def named(prediction: Prediction | None) -> set[str]:
    """Return the past runs that a prediction names."""
    assert prediction is not None
    return {name for each in prediction.forecasts for name in each.runs}


@pytest.mark.asyncio
async def test_a_runner_is_shown_its_own_runs_alone_behind_a_prediction(world: World) -> None:
    """In replies and explanations; how many runs there are stays told, and an operator sees all."""
    await world.make("Cluster", "default", {"capacity": {"cpu": 100, "memory": "100Gi"}})
    await settings_verbs.change(world.services, ADMIN, {"admission.trustReports": True})
    await world.services.fresh()
    mine, theirs = await ran(world, ANN), await ran(world, BOB)
    asked = await ran(world, ANN, end=False)
    await world.services.fresh()
    stored = await world.services.objects.get(KINDS["Simulation"].type, asked, "default")
    assert named(stored.status.prediction) == {mine, theirs}
    for caller, seen in ((ANN, {mine}), (ADMIN, {mine, theirs})):
        shown = views.of(world.services, caller.principal, stored)
        told = await explain.explain(world.services, caller, KINDS["Simulation"], asked, "default")
        assert named(shown.status.prediction) == named(told.prediction) == seen
        found = shown.status.prediction.of("cpu_milli")
        assert found is not None
        assert found.known == 2
    sights = [views.sight(world.services, each.principal, "Simulation") for each in (ANN, BOB)]
    assert len({*sights, "all"}) == 3
