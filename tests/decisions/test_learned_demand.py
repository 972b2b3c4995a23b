"""With what a session is counted when its lab's past use says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions import learned_demand
from labfleet.decisions.claims.asked import asked
from labfleet.resources.amounts import Amounts, Claim, Reservation
from labfleet.resources.definition import Definition, DefinitionSpec, DefinitionStatus
from labfleet.resources.history import Use
from labfleet.resources.lab_bound import LabBound
from labfleet.resources.learned_demand import LearnedDemand
from labfleet.resources.meta import Metadata
from labfleet.resources.pool import Pool, PoolSpec
from labfleet.resources.prediction import Evidence
from labfleet.resources.session import Session, SessionSpec, SessionStatus

T0 = datetime(2026, 11, 30, 8, tzinfo=UTC)
DECLARED = Amounts(
    cpu_milli=8000, memory_mib=8192, storage_mib=40_000, nodes=2, labs=1, ports=2, network_kbps=7
)
RESERVED = Amounts(cpu_milli=2000, memory_mib=2048, storage_mib=5000, nodes=2, labs=1, ports=2)
AMOUNT = st.integers(0, 2**40)


def lab(demand: Any = None, unknown: tuple[str, ...] = (), **spec: Any) -> Definition:
    """Return a definition that declares four times what its nodes reserve."""
    return Definition(
        metadata=Metadata(name="two"),
        spec=DefinitionSpec(topology="x", demand=demand, **spec),
        status=DefinitionStatus(demand=DECLARED, unknown_definitions=unknown),
    )


def pool(demand: str) -> Pool:
    """Return a pool that says so."""
    return Pool(metadata=Metadata(name="p"), spec=PoolSpec(template="t", demand=demand))


def bounds(**found: int | None) -> dict[str, LabBound]:
    """Return bounds of seven sessions."""
    return {
        name: LabBound(
            resource=name, declared=getattr(DECLARED, name), sessions=7, bound=each,
            coverage=0.875, evidence=Evidence.EXACT, sentence="seven sessions stay within it",
        )
        for name, each in found.items()
    }  # fmt: skip


def counted(**found: int | None) -> LearnedDemand:
    return learned_demand.learned(lab(), RESERVED, bounds(**found), T0)


def running(
    used: dict[str, float], *, learned: bool = True, bound: bool = True, **more: Any
) -> Session:
    """Return a session that holds what was learned and has used so much."""
    demand = counted(memory_mib=3000, storage_mib=46_000)
    amounts = demand.amounts
    held = Reservation(holder="w1", amounts=amounts, start=T0, end=T0 + timedelta(hours=1))
    claim = Claim(pool="p", place=0, amounts=amounts, start=T0, end=T0 + timedelta(hours=1))
    return Session(
        metadata=Metadata(name="s1"),
        spec=SessionSpec(definition="two"),
        status=SessionStatus(
            demand=demand if learned else None,
            reservation=held if bound else None,
            claim=claim,
            used={name: Use(peak=peak) for name, peak in used.items()},
            **more,
        ),
    )


@pytest.mark.parametrize(
    ("own", "pools", "rule"),
    [
        (None, [], "declared"),
        (None, ["declared"], "declared"),
        (None, ["bound"], "bound"),
        (None, ["bound", "bound"], "bound"),
        (None, ["bound", "declared"], "declared"),
        ("bound", ["declared"], "bound"),
        ("bound", [], "bound"),
        ("declared", ["bound"], "declared"),
    ],
)
def test_a_definition_s_own_word_wins_and_pools_have_to_agree(
    own: Any, pools: list[str], rule: str
) -> None:
    """Without a word of its own, one pool of the track that says `declared` is enough for that."""
    assert learned_demand.rule_of(lab(own), [pool(each) for each in pools]) == rule


def test_what_was_declared_too_high_is_counted_by_its_bound() -> None:
    """The bound counts in the dimensions that are measured; the others stay as declared."""
    found = counted(cpu_milli=2500, memory_mib=3000, storage_mib=46_000)
    assert found.amounts == msgspec.structs.replace(
        DECLARED, cpu_milli=2500, memory_mib=3000, storage_mib=46_000
    )
    for each in found.learned:
        assert (each.sessions, each.coverage, each.evidence) == (7, 0.875, Evidence.EXACT)
        assert each.counted == each.bound
        assert each.sentence.endswith("; seven sessions stay within it")


def test_a_lab_that_was_never_measured_is_counted_as_declared() -> None:
    """Without a bound nothing is lower than declared, and it says so."""
    found = counted(memory_mib=None)
    assert found.amounts == DECLARED
    assert [each.evidence for each in found.learned] == [Evidence.DECLARED] * 3
    assert all(each.sentence.startswith("as declared") for each in found.learned)


@given(cpu=AMOUNT, memory=AMOUNT, storage=AMOUNT)
def test_it_is_never_counted_with_less_than_cml_reserves(
    cpu: int, memory: int, storage: int
) -> None:
    """However low a bound is, the nodes' ram, CPUs and licences are counted, and the declared disk."""
    found = counted(cpu_milli=cpu, memory_mib=memory, storage_mib=storage)
    assert found.amounts.cpu_milli >= RESERVED.cpu_milli
    assert found.amounts.memory_mib >= RESERVED.memory_mib
    assert found.amounts.nodes == RESERVED.nodes
    assert found.amounts.storage_mib == max(storage, DECLARED.storage_mib)
    assert found.amounts.ports == DECLARED.ports


def test_a_lab_that_declares_less_than_its_nodes_reserve_is_counted_with_what_they_do() -> None:
    """What is declared too low would have its nodes wait in CML's queue."""
    low = msgspec.structs.replace(
        lab(), status=DefinitionStatus(demand=Amounts(cpu_milli=1, memory_mib=1, nodes=1, labs=1))
    )
    found = learned_demand.learned(low, RESERVED, {}, T0).amounts
    assert (found.cpu_milli, found.memory_mib, found.nodes) == (2000, 2048, 2)


def test_nodes_that_are_unknown_keep_what_is_declared() -> None:
    """Nobody knows what CML reserves for them, so no bound lowers memory or CPU."""
    told = bounds(cpu_milli=2500, memory_mib=3000, storage_mib=6000)
    found = learned_demand.learned(lab(unknown=("odd",)), RESERVED, told, T0).amounts
    assert (found.cpu_milli, found.memory_mib, found.storage_mib) == (8000, 8192, 40_000)


def test_the_request_is_what_was_fixed() -> None:
    """Claims and placements ask with the amounts of the session, whatever the definition says."""
    session = running({}, start=T0, end=T0 + timedelta(hours=1))
    assert session.status.demand is not None
    assert asked(session, lab(), T0).amounts == session.status.demand.amounts
    plain = running({}, learned=False, start=T0, end=T0 + timedelta(hours=1))
    assert asked(plain, lab(), T0).amounts == DECLARED


def test_a_lab_counts_with_at_least_what_it_was_measured_to_use() -> None:
    """Where it has used more than was learned, its reservation and claim count as large."""
    session = running({"memory_mib": 3500.5, "storage_mib": 100.0})
    held, claim = learned_demand.held(session), learned_demand.claimed(session)
    assert held is not None
    assert claim is not None
    assert (held.amounts.memory_mib, held.amounts.storage_mib) == (3501, 46_000)
    assert claim.amounts == held.amounts
    assert session.status.reservation is not None
    assert (held.start, held.end) == (session.status.reservation.start, T0 + timedelta(hours=1))


@pytest.mark.parametrize("used", [{}, {"memory_mib": 2999.0}, {"network_in_kbps": 1e9}])
def test_what_stays_within_its_bound_is_counted_as_it_is(used: dict[str, float]) -> None:
    """The very reservation is returned, so that who compares it sees no change."""
    session = running(used)
    assert learned_demand.held(session) is session.status.reservation
    assert learned_demand.claimed(session) is session.status.claim


def test_what_is_declared_is_never_corrected() -> None:
    """A session that nothing was learned of counts as declared, whatever it uses."""
    session = running({"memory_mib": 1e6}, learned=False)
    assert learned_demand.held(session) is session.status.reservation
    assert learned_demand.claimed(session) is session.status.claim


def test_a_promise_without_a_lab_is_what_was_promised() -> None:
    """A claim that no worker hosts yet is none of a lab that runs."""
    session = running({"memory_mib": 1e6}, bound=False)
    assert learned_demand.held(session) is None
    assert learned_demand.claimed(session) is session.status.claim
