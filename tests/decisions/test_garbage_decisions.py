"""What garbage collection may end, and when, over every mix of what was listed.

The numbered cases are rows of facts/aws-bugs.md.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lifecycle_worlds import START, worker

from labfleet.decisions import garbage
from labfleet.interfaces.compute import Instance, Leftover
from labfleet.resources.machine import MachineStatus
from labfleet.resources.meta import Effect
from labfleet.resources.worker import Origin, WorkerPhase, WorkerStatus

RULES = garbage.Rules(grace=300.0, round_limit=3)
PLACES = [
    (region, kind, f"x-{n}")
    for region in ("eu", "us")
    for kind in ("instance", "volume")
    for n in range(6)
]
THINGS = st.lists(
    st.builds(
        garbage.SweepCandidate,
        st.sampled_from(PLACES),
        st.sampled_from(["owned", "kept", "ending", "suspect"]),
    ),
    max_size=24,
    unique_by=lambda thing: thing.place,
)
BEFORE = st.dictionaries(st.sampled_from(PLACES), st.floats(0, 2000), max_size=24)
HOLDS = st.sampled_from([None, "paused"])


@pytest.mark.parametrize("phase", [WorkerPhase.FAILED, WorkerPhase.READY, WorkerPhase.STOPPED])
@pytest.mark.parametrize(
    ("shown", "absent", "gone"),
    [
        ("gone", None, True),
        ("running", None, False),
        ("running", 10**6, False),
    ],
)
def test_a_machine_counts_as_gone_when_its_worker_failed_of_it(
    phase: WorkerPhase, shown: Any, absent: int | None, gone: bool
) -> None:
    """A worker in any other phase may still get its machine back, and stays a suspect's owner.

    However long ago the record says that it was missed first: that is another process's clock.
    """
    since = None if absent is None else START - timedelta(seconds=absent)
    status = WorkerStatus(phase=phase, machine=MachineStatus(state=shown, absent_since=since))
    expected = gone and phase is WorkerPhase.FAILED
    assert garbage.vanished(worker(status)) is expected


def machine(tags: dict[str, str], state: Any = "running") -> Instance:
    return Instance("i-1", state, tags=tags)


@given(THINGS, BEFORE, st.floats(2000, 4000), HOLDS, st.booleans(), st.sets(st.sampled_from("eu")))
def test_only_old_suspects_of_regions_that_answered_are_due(
    things: list[garbage.SweepCandidate],
    before: dict[Any, float],
    now: float,
    hold: str | None,
    dry: bool,
    silent: set[str],
) -> None:
    """Nothing is due that is owned, kept, young, unheard, held, a dry run's, or over the caps.

    Of each suspect it is told whether it would be ended, and if not, why.
    """
    unheard = {"eu"} if silent else set()
    rules = garbage.Rules(grace=300.0, round_limit=3, hold=hold, dry_run=dry)
    found = garbage.sweep(things, before, now, rules, listed={"eu": 6, "us": 30}, unheard=unheard)
    words = {thing.place: thing.word for thing in things}
    for thing in found.due:
        assert words[thing.place] == "suspect"
        assert now - before[thing.place] >= 300.0
        assert thing.place[0] not in unheard
    assert len(found.due) <= 3
    assert sum(thing.place[:2] == ("eu", "instance") for thing in found.due) <= 1
    if hold or dry:
        assert found.due == ()
    for place, told in found.next.items():
        assert words[place] in {"kept", "suspect"}
        if words[place] == "suspect":
            assert told.startswith("nothing") == bool(hold or dry)
            assert hold is None or told == f"nothing while held: {hold}"
    for place, at in found.since.items():
        assert place in before or at == now
        assert place[0] in unheard or words[place] == "suspect"
    assert {place for place in before if place[0] in unheard} <= set(found.since)


@given(THINGS, st.floats(0, 100))
def test_nothing_is_due_at_first_sight(things: list[garbage.SweepCandidate], now: float) -> None:
    """A leader that has just begun suspects, and ends nothing until its own grace is over."""
    first = garbage.sweep(things, {}, now, RULES, listed={})
    assert first.due == ()
    again = garbage.sweep(things, first.since, now + 299.0, RULES, listed={})
    assert again.due == ()
    assert again.since == first.since


def test_all_judged_empty_at_once_go_a_few_at_a_time() -> None:
    """Case 12: fifty suspects of fifty machines end three a round, and one of a small region."""
    things = [garbage.SweepCandidate(("us", "instance", f"i-{n}"), "suspect") for n in range(50)]
    old = {thing.place: 0.0 for thing in things}
    assert len(garbage.sweep(things, old, 999.0, RULES, listed={"us": 50}).due) == 3
    few = things[:4]
    assert len(garbage.sweep(few, old, 999.0, RULES, listed={"us": 4}).due) == 1


def test_a_machine_is_owned_by_its_id_whatever_its_fields_say() -> None:
    """Case 10: a record owns its instance by id; a missing address means nothing."""
    mine = worker(WorkerStatus(phase=WorkerPhase.READY, machine=MachineStatus(id="i-1")))
    known = garbage.owners([mine])
    assert garbage.instance("us", machine({"labfleet:owner": "me"}), known, "keep").word == "owned"


def test_an_open_launch_owns_what_carries_its_uid() -> None:
    """Case 28: a machine whose worker may still adopt it is no orphan; after that it is."""
    effect = Effect(id="e", kind="launch", begun=START, expires=START)
    launching = worker(WorkerStatus(phase=WorkerPhase.PROVISIONING_EC2, effect=effect))
    found = machine({"labfleet:worker-uid": launching.metadata.uid})
    assert garbage.instance("us", found, garbage.owners([launching]), "keep").word == "owned"
    settled = worker(WorkerStatus(phase=WorkerPhase.PROVISIONING_EC2))
    assert garbage.instance("us", found, garbage.owners([settled]), "keep").word == "suspect"


def test_an_ended_record_owns_nothing_and_an_imported_one_its_instance() -> None:
    """A worker that is TERMINATED does not protect a machine; one that was only found does."""
    ended = worker(WorkerStatus(phase=WorkerPhase.TERMINATED, machine=MachineStatus(id="i-1")))
    assert garbage.owners([ended]) == garbage.Owners()
    observed = worker(origin=Origin(kind="imported", instance_id="i-1", region="us"))
    assert garbage.owners([observed]).instances == {"i-1"}


def test_the_keep_tag_protects_machines_and_volumes() -> None:
    """The tag of the settings protects, whatever its value; nothing else does."""
    none = garbage.Owners()
    assert garbage.instance("us", machine({"hold": ""}), none, "hold").word == "kept"
    assert garbage.instance("us", machine({"keep": ""}), none, "hold").word == "suspect"
    volume = Leftover("volume", "us", "vol-1", None, {"keep": "1"})
    assert garbage.leftover(volume, none, "keep").word == "kept"
    assert garbage.leftover(volume, none, "hold").word == "suspect"
