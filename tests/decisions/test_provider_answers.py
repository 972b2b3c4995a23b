"""A provider that does not answer: the cause stands on the worker, its facts are Unknown, limits wait."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from lifecycle_worlds import START
from test_worker_limits import NONE, Timed, at

from labfleet.decisions import provider
from labfleet.decisions.lifecycle.worker import phases
from labfleet.decisions.lifecycle.worker.calls import Answer, Offer
from labfleet.decisions.lifecycle.worker.draft import ProviderLook
from labfleet.kernel import errors
from labfleet.resources import alerts, conditions, providers
from labfleet.resources.providers.trouble import CAUSES, SAYS, Trouble
from labfleet.resources.region import RegionCondition, RegionReason
from labfleet.resources.worker import Worker, WorkerPhase
from labfleet.resources.worker_conditions import WorkerCondition, WorkerReason

P = WorkerPhase
NAME = WorkerCondition.PROVIDER_ANSWERS


def silent(seconds: float, trouble: Trouble = Trouble.SILENT) -> dict[str, Any]:
    """A look that got no word of the machine for so long."""
    look = ProviderLook(trouble, "no connection", silent=seconds)
    return {"machine": None, "trouble": "provider: no connection", "provider": look}


def told(worker: Worker) -> str:
    found = conditions.find(worker.status.conditions, NAME)
    return "" if found is None else found.message


def raised(worker: Worker) -> list[str]:
    return [each.condition for each in alerts.raised(worker.key, worker.status.conditions)]


def test_every_trouble_has_its_reason_and_its_own_advice() -> None:
    """On workers and regions alike; no two advise the same."""
    for each in Trouble:
        assert each.value in set(WorkerReason) & set(RegionReason)
        assert each in SAYS.keys() & CAUSES.keys()
    assert len({fix for _, fix in CAUSES.values()}) == len(Trouble)
    assert set(NAME.reasons) - {WorkerReason.ANSWERING} == {each.value for each in Trouble}


@pytest.mark.parametrize("trouble", list(Trouble))
def test_a_terminating_worker_says_what_holds_it_up(trouble: Trouble) -> None:
    """It said "terminating", EC2Provisioned True; 40 minutes later it was to be unprotected."""
    line = Timed(P.TERMINATING_EC2, at("running"), desired="Terminated")
    line.look(provider=ProviderLook())
    assert line.fact("MachineProvisioned") == ("True", "Running")
    line.look(2, **silent(120, trouble))
    assert line.fact(NAME) == ("", "")
    line.look(2, **silent(240, trouble))
    assert line.fact(NAME) == ("False", trouble.value)
    said = f"AWS us-east-1 {SAYS[trouble]} since 2026-11-27 09:00:00Z"
    assert told(line.worker).startswith(said)
    assert said in line.worker.status.message
    assert line.worker.status.message.startswith("terminating; held up: ")
    assert line.fact("MachineProvisioned") == ("Unknown", "NotRenewed")
    status = line.look(1, **silent(300, trouble))
    for _ in range(40):
        line.look(60, **silent(4000, trouble))
    assert line.worker.status == status
    assert raised(line.worker) == ["ProviderAnswers"]
    row = alerts.raised(line.worker.key, line.worker.status.conditions)[0]
    assert (row.cause, row.fix) == CAUSES[trouble]
    line.look(provider=ProviderLook(), machine=at("running"))
    if trouble is Trouble.FORBIDDEN:  # that looks are allowed says nothing of the call
        assert line.fact(NAME)[0] == "False"
        line.called("terminate", provider=ProviderLook(of_call=True))
    line.look(provider=ProviderLook(), machine=at("running"))
    assert line.fact(NAME) == ("True", "Answering")
    assert line.worker.status.message == "terminating"
    assert raised(line.worker) == []


def test_what_was_raised_before_is_held_back_while_the_cause_stands() -> None:
    """A stop that is late is only a symptom while nobody can tell how far it is."""
    line = Timed(P.STOPPING, at("stopping"), desired="Stopped")
    line.look()
    line.look(40)
    assert {"Late", "PhaseStuck"} <= set(raised(line.worker))
    line.look(4, **silent(240))
    assert raised(line.worker) == ["ProviderAnswers"]
    line.look(provider=ProviderLook(), machine=at("stopping"))
    assert {"Late", "PhaseStuck"} <= set(raised(line.worker))


def test_a_launch_that_nobody_answers_waits_and_its_limit_with_it() -> None:
    """The first error is Unknown and survives a kill; then the cause; a day of it fails nobody."""
    line = Timed(P.PROVISIONING_EC2, at(None, id_=None))
    problem = errors.Unreachable("no connection")
    seen = {
        "offer": Offer(problem=problem),
        "provider": ProviderLook(Trouble.SILENT, problem.message, of_call=True),
    }
    line.look(**seen)
    assert line.fact(NAME) == ("Unknown", "ProviderSilent")
    line.look(4, **seen)
    assert "does not answer since 2026-11-27 09:00:00Z" in told(line.worker)
    for _ in range(24):
        line.look(60, **seen)
    assert (line.worker.status.phase, raised(line.worker)) == (P.PROVISIONING_EC2, [NAME])
    line.look(offer=NONE, provider=ProviderLook())
    assert line.worker.status.message.startswith("no capacity")
    assert line.worker.status.limit is not None
    assert line.now - line.worker.status.limit.since < timedelta(minutes=5)


def test_a_call_that_is_not_allowed_is_no_silence() -> None:
    """Looks work, the stop is denied: said at once, and until a stop is taken."""
    line = Timed(P.STOPPING, at("running"), desired="Stopped")
    line.look(provider=ProviderLook())
    denied = errors.Denied("StopInstances: UnauthorizedOperation", reason="UnauthorizedOperation")
    forbidden = ProviderLook(Trouble.FORBIDDEN, denied.message, of_call=True)
    line.called("stop", Answer(problem=denied), provider=forbidden)
    assert line.fact(NAME) == ("False", "NotAllowed")
    assert "StopInstances" in told(line.worker)
    line.look(40, provider=ProviderLook())
    assert (line.fact(NAME)[0], raised(line.worker)) == ("False", [NAME])
    line.called("stop", provider=ProviderLook(of_call=True))
    assert line.fact(NAME)[0] == "True"


@pytest.mark.parametrize("phase", [P.READY, P.ACTIVE, P.DRAINING, P.LICENSING])
def test_what_needs_no_provider_goes_on(phase: WorkerPhase) -> None:
    """CML is asked as before: the phase, its message and its limit are not held up."""
    line = Timed(phase, at("running"))
    line.look(provider=ProviderLook(), stage="ready", sessions=1)
    line.look(4, **silent(240), stage="ready", sessions=1)
    assert line.fact(NAME)[0] == "False"
    assert phases.provider_trouble(line.worker)
    assert "held up" not in line.worker.status.message
    limit = line.worker.status.limit
    assert limit is None or limit.held_since is None


def test_another_trouble_is_another_cause_from_then_on() -> None:
    """Silence that ends in expired credentials is told with its own since and advice."""
    line = Timed(P.STOPPING, at("running"), desired="Stopped")
    line.look(4, **silent(240))
    line.look(10, **silent(840, Trouble.EXPIRED))
    assert line.fact(NAME) == ("False", "CredentialsExpired")
    assert "since 2026-11-27 09:14:00Z: no connection" in told(line.worker)


def test_a_region_is_judged_by_the_rounds_over_it() -> None:
    """The first failed round is Unknown, one after the patience says the cause, a good one ends it."""
    asked = provider.Asked("AWS", "us-east-1", "no connection")
    facts = provider.of_region((), None, asked, START)
    assert facts == ()
    facts = provider.of_region((), Trouble.SILENT, asked, START)
    later = provider.of_region(facts, Trouble.SILENT, asked, START + timedelta(seconds=120))
    assert later == facts
    down = provider.of_region(facts, Trouble.SILENT, asked, START + timedelta(seconds=240))
    found = conditions.find(down, RegionCondition.PROVIDER_ANSWERS)
    assert found is not None
    assert (found.status, found.reason) == ("False", "ProviderSilent")
    assert found.message == "AWS us-east-1 does not answer since 2026-11-27 09:00:00Z"
    up = provider.of_region(down, None, asked, START + timedelta(seconds=360))
    assert conditions.is_true(up, RegionCondition.PROVIDER_ANSWERS)


def test_every_provider_has_a_name_for_people() -> None:
    """It stands before the region in the sentence about it."""
    assert all(each.title for each in providers.PROVIDERS.values())
