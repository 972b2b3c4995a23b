"""A provider that cannot be reached: every object that it holds up says so, people get one alert."""

from __future__ import annotations

import pytest
from virtual_time import play
from world import World, world

from labfleet.kernel import errors
from labfleet.resources import conditions
from labfleet.resources import region as regions
from labfleet.resources.alerts import Raised
from labfleet.resources.pool import Pool
from labfleet.resources.region import Region
from labfleet.service.reads import raised
from labfleet.service.reads.explain import explain

DOWN = errors.Unreachable("no connection", reason="Timeout")
SAID = "AWS us-east-1 does not answer since"


async def alerts_of(w: World) -> list[Raised]:
    """Return what is raised in the fleet."""
    await w.services.fresh()
    return list(raised.standing(w.services))


def facts(w: World, name: str = "w1") -> dict[str, tuple[str, str]]:
    """Return a worker's conditions."""
    found = w.get_worker(name).status.conditions
    return {each.type: (each.status, each.reason) for each in found}


def test_the_cause_stands_on_all_that_it_holds_up_and_is_one_alert() -> None:
    """Half an hour in which EC2 cannot be reached, with a kill in it; then all goes on."""

    async def story() -> None:
        async with world() as w:
            process = await w.start()
            await w.worker()
            await w.until(w.in_phase("w1", "READY"))
            await w.desire("w1", "Terminated")
            await w.until(w.in_phase("w1", "TERMINATING_EC2", "STOPPING"))
            w.cloud.refusals["any"] = DOWN
            await w.pool(scaling={"policy": "NEED_BASED", "minWorkers": 2, "maxWorkers": 4})
            await w.definition()
            await w.session()
            await w.let_pass(600)
            process.kill()
            await w.start()
            await w.let_pass(1500)
            found = facts(w)
            assert found["ProviderAnswers"] == ("False", "ProviderSilent")
            assert found["MachineProvisioned"] == ("Unknown", "NotRenewed")
            assert SAID in w.get_worker().status.message
            pool = w.cache.all(Pool)[0]
            assert f"2 held up: {SAID}" in pool.status.message
            assert SAID in w.get_session().status.message
            region = w.cache.find(regions.ref("us-east-1"))
            assert isinstance(region, Region)
            told = conditions.find(region.status.conditions, "ProviderAnswers")  # type: ignore[arg-type]
            assert told is not None
            assert told.message.startswith(SAID)
            rows = await alerts_of(w)
            assert [(each.object, each.condition) for each in rows] == [
                ("region/us-east-1", "ProviderAnswers")
            ]
            assert "3 workers wait for it" in rows[0].message
            assert "protection" not in rows[0].fix
            w.cloud.refusals.clear()
            await w.until(w.in_phase("w1", "TERMINATED"))
            await w.until(lambda: w.cache.all(Pool)[0].status.ready == 2)
            await w.let_pass(300)
            assert await alerts_of(w) == []
            w.check()

    play(story)


@pytest.mark.parametrize(
    ("problem", "reason", "words"),
    [
        (errors.Throttled("slow down"), "Throttled", "asks for fewer requests"),
        (errors.Denied("old", reason="ExpiredToken"), "CredentialsExpired", "are expired"),
        (errors.Denied("bad", reason="AuthFailure"), "CredentialsRefused", "does not accept"),
        (errors.Denied("no", reason="UnauthorizedOperation"), "NotAllowed", "does not allow"),
        (errors.Temporary("trouble", reason="ServerTrouble"), "ProviderSilent", "does not answer"),
    ],
)
def test_each_trouble_has_its_own_words_and_fails_no_launch(
    problem: errors.LabfleetError, reason: str, words: str
) -> None:
    """A launch under it waits without a flood of events, and comes up when it is over."""

    async def story() -> None:
        async with world() as w:
            w.cloud.refusals["any"] = problem
            await w.start()
            await w.worker()
            await w.let_pass(3600)
            assert facts(w)["ProviderAnswers"] == ("False", reason)
            assert w.phase("w1") == "PROVISIONING_EC2"
            rows = await alerts_of(w)
            assert [each.condition for each in rows] == ["ProviderAnswers"]
            assert words in rows[0].message
            assert await w.events("Worker", "w1") < 120
            w.cloud.refusals.clear()
            await w.until(w.in_phase("w1", "READY"))
            assert facts(w)["ProviderAnswers"] == ("True", "Answering")
            w.check()

    play(story)


def test_a_denied_stop_is_told_while_looks_are_allowed() -> None:
    """The message names the call; explain gives the cause with its advice, for the worker too."""

    async def story() -> None:
        async with world() as w:
            await w.start()
            await w.worker()
            await w.until(w.in_phase("w1", "READY"))
            no = errors.Denied("StopInstances: no", reason="UnauthorizedOperation")
            w.cloud.refusals["StopInstances"] = no
            await w.desire("w1", "Stopped")
            await w.until(lambda: facts(w).get("ProviderAnswers") == ("False", "NotAllowed"))
            await w.let_pass(3600)
            assert facts(w)["ProviderAnswers"] == ("False", "NotAllowed")
            assert [each.condition for each in await alerts_of(w)] == ["ProviderAnswers"]
            from world import ADMIN, KINDS

            told = await explain(w.services, ADMIN, KINDS["Worker"], "w1", "default")
            assert any("StopInstances: no" in line for line in told.lines)
            assert any("policy of the server's role" in line for line in told.lines)
            w.cloud.refusals.clear()
            await w.until(w.in_phase("w1", "STOPPED"))
            w.check()

    play(story)
