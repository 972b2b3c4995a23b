"""How early a pool makes workers: by the boots that were measured, and by nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions.claims import lead
from labfleet.resources.history import Run, RunKind
from labfleet.resources.machine import CmlSettings, Machine
from labfleet.resources.meta import Metadata, SecretRef
from labfleet.resources.pool import LeadSource, Pool, PoolSpec, PoolStatus, Scaling
from labfleet.resources.providers.aws import AwsSettings

END = datetime(2026, 11, 27, 9, tzinfo=UTC)
METAL = Machine(
    provider=AwsSettings(region="eu-west-1"),
    cml=CmlSettings(admin_password=SecretRef(file="/run/secret")),
)


def boot(seconds: float, censored: str = "", **asked: str) -> Run:
    """A boot of METAL, but for what is given."""
    return Run(
        kind=RunKind.BOOT, uid=f"{seconds}{asked}", family="metal", censored=censored,
        parameters={"type": "m5zn.metal", "region": "eu-west-1", **asked},
        duration_seconds=seconds, ended_at=END,
    )  # fmt: skip


def told(*runs: Run, stated: int | None = None):
    """The lead of a pool whose boots these were."""
    return lead.lead(Scaling(lead_seconds=stated), lead.boot_times(runs, METAL))


def test_nothing_measured_is_the_default():
    """Before a boot was measured the lead is that of a metal worker, and says that it is assumed."""
    found = told()
    assert (found.seconds, found.source, found.within_seconds) == (2100, LeadSource.DEFAULT, None)
    assert found.sentence == "no boot in eu-west-1 was measured yet"


def test_enough_boots_replace_the_default():
    """The number is the bound of the measured boots and a minute, with its evidence beside it."""
    found = told(*(boot(900 + each) for each in range(41)))
    assert (found.seconds, found.source, found.boots) == (17 * 60, LeadSource.MEASURED, 41)
    assert found.sentence == "boots of m5zn.metal in eu-west-1: 95 % within 16 min of 41"


def test_a_few_slow_boots_lengthen_and_a_few_quick_ones_do_not_shorten():
    """Eighteen boots do not tell what 95 in 100 stay within, but a longer one is a fact."""
    assert told(*(boot(60 + each) for each in range(18))).seconds == 2100
    slow = told(boot(3000.0))
    assert (slow.seconds, slow.source) == (51 * 60, LeadSource.DEFAULT)
    assert "19 are needed for a bound" in slow.sentence


def test_only_boots_of_such_machines_count():
    """Other regions and types that the template does not allow say nothing of its boots."""
    others = [boot(9000 + each, region="us-east-1") for each in range(20)]
    others += [boot(9000 + each, type="t3.small") for each in range(20)]
    assert told(*others).boots == 0


def test_a_boot_that_somebody_ended_counts_only_where_it_took_longer():
    """Who ends boots early does not make the lead short, who ends slow ones makes it longer."""
    whole = [boot(600 + each) for each in range(40)]
    short = told(*whole, *(boot(5 + each, "Ended") for each in range(40)))
    assert short == told(*whole)
    slow = told(*whole, *(boot(1500 + each, "Ended") for each in range(5)))
    assert slow.seconds > short.seconds


def test_failed_boots_are_made_up_for_by_number_and_not_by_an_earlier_start():
    """One in nine that never came up leaves the lead alone, and stands in the odds of each boot."""
    whole = [boot(600 + each) for each in range(40)]
    failed = [boot(1800 + each, "BootTimeout") for each in range(5)]
    assert told(*whole, *failed).seconds == told(*whole).seconds
    odds = lead.boot_times([*whole, *failed], METAL).odds
    assert odds.measured == 45
    assert 0.85 < odds.up_within(700) < 0.89


def test_what_was_given_back_while_it_booted_does_not_hide_how_slow_boots_are():
    """Of 40 boots half take 20 minutes; although most slow ones were ended at 15, they are known."""
    quick = [boot(600 + each) for each in range(20)]
    slow = [boot(1200 + each) for each in range(4)]
    ended = [boot(900 + each, "Ended") for each in range(16)]
    odds = lead.boot_times([*quick, *slow, *ended], METAL).odds
    assert 0.45 < odds.up_within(1000) < 0.5
    assert told(*quick, *slow, *ended).within_seconds >= 1200


def test_the_newest_boots_count():
    """An image that boots faster is believed after a hundred boots, not after all of the history."""
    runs = [boot(300.0 + each) for each in range(100)] + [
        boot(3000.0 + each) for each in range(100)
    ]
    assert told(*runs).seconds < 500


def test_a_stated_lead_wins_and_the_evidence_stays_beside_it():
    """The spec's field is an override; what was measured is shown all the same."""
    found = told(*(boot(900.0 + each) for each in range(20)), stated=600)
    assert (found.seconds, found.source, found.within_seconds) == (600, LeadSource.STATED, 16 * 60)
    assert told(stated=10**9).seconds == 86400


def test_the_default_of_earlier_versions_freezes_nobody():
    """2100 is what every stored pool and every exported manifest holds, chosen or not: measured."""
    assert Scaling(lead_seconds=2100).lead_seconds is None
    assert msgspec.json.decode(b'{"leadSeconds":2100}', type=Scaling).lead_seconds is None
    assert msgspec.json.decode(b'{"leadSeconds":2099}', type=Scaling).lead_seconds == 2099


def pool(stated: int | None, *runs: Run) -> Pool:
    """A pool as stored after its controller has looked."""
    scaling = Scaling(lead_seconds=stated)
    return Pool(
        metadata=Metadata(name="exam", uid="u"),
        spec=PoolSpec(template="metal", scaling=scaling),
        status=PoolStatus(lead=lead.lead(scaling, lead.boot_times(runs, METAL))),
    )


def test_an_override_that_was_taken_back_holds_no_longer():
    """Between the edit and the controller's next look nobody acts on the old override."""
    old = pool(60)
    freed = msgspec.structs.replace(old, spec=PoolSpec(template="metal"))
    assert lead.of(old) == timedelta(minutes=1)
    assert lead.of(freed) == lead.DEFAULT


@given(st.lists(st.floats(1, 80_000), max_size=60), st.booleans())
def test_a_lead_is_bounded_and_never_shorter_than_what_it_rests_on(seconds, cut):
    """Whatever boots took: whole minutes, at most a day, and at least the bound that is stated."""
    found = told(*(boot(each, "Ended" if cut else "") for each in seconds))
    assert 60 <= found.seconds <= 86400
    assert found.seconds % 60 == 0
    if found.within_seconds is not None:
        assert found.seconds >= min(found.within_seconds, 86400)
        assert sum(each > found.within_seconds for each in seconds) <= 0.05 * (len(seconds) + 1)


@pytest.mark.parametrize("share", [0.95])
def test_the_stated_coverage_is_the_achieved_one(share):
    """Of boots in any order, 95 in 100 stay within the bound that those before them gave."""
    seconds = [600 + (each * 37) % 101 * 3.0 for each in range(303)]
    judged = kept = 0
    for number in range(19, len(seconds)):
        before = [boot(each) for each in reversed(seconds[:number])]
        within = lead.boot_times(before, METAL).within
        judged, kept = judged + 1, kept + (within is not None and seconds[number] <= within)
    assert kept / judged >= share - 0.02
