"""Which worker gets a session."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions import ledger, placement
from labfleet.decisions.placement import Candidate, PlacementRequest
from labfleet.resources.amounts import DIMENSIONS, Amounts, Reservation
from labfleet.resources.decision import CANDIDATES
from labfleet.resources.machine import CmlSettings, LicenceSettings, Machine
from labfleet.resources.meta import SecretRef

NOW = datetime(2026, 11, 27, 9, tzinfo=UTC)
BIG = Amounts(
    cpu_milli=48000, memory_mib=192512, storage_mib=409600, nodes=200, labs=20, ports=6000
)


def worker(name: str = "w1", **over) -> Candidate:
    """A ready, licensed, empty worker, but for what is given."""
    fields = {"licensed": True, "product": "CML_Enterprise"}
    return Candidate(name=name, **{**fields, "capacity": BIG, **over})


def request(minutes: int = 60, start: int = 0, **over) -> PlacementRequest:
    """A small lab from now for an hour, but for what is given."""
    begin = NOW + timedelta(minutes=start)
    fields = {"amounts": Amounts(cpu_milli=4000, memory_mib=8192, nodes=4, labs=1, ports=3)}
    return PlacementRequest(
        start=begin, end=begin + timedelta(minutes=minutes), **{**fields, **over}
    )


def booking(amounts: Amounts, start: int = 0, minutes: int = 60) -> Reservation:
    """A reservation from a minute on."""
    begin = NOW + timedelta(minutes=start)
    return Reservation(
        holder="x", amounts=amounts, start=begin, end=begin + timedelta(minutes=minutes)
    )


def place(wanted: PlacementRequest, *workers: Candidate):
    """The decision on these workers."""
    return placement.place(wanted, workers, now=NOW, revision=7)


def test_fitting_worker_is_chosen():
    """A request that fits is assigned, and the decision says on what snapshot."""
    found = place(request(), worker())
    assert (found.outcome, found.chosen, found.revision, found.evaluated) == (
        "assigned", "w1", 7, 1,
    )  # fmt: skip


def test_full_workers_first():
    """Packing prefers the fuller worker, so that the empty one can go."""
    some = booking(Amounts(cpu_milli=20000, memory_mib=50000))
    found = place(request(), worker("a"), worker("b", reservations=(some,), sessions=1))
    assert found.chosen == "b"


def test_ties_go_to_the_first_name():
    """Equal workers are told apart by name, in whatever order they come."""
    assert place(request(), worker("b"), worker("a"), worker("c")).chosen == "a"


@pytest.mark.parametrize(
    ("over", "reason"),
    [
        ({"closed": "NotReady"}, "NotReady"),
        ({"closed": "Draining"}, "Draining"),
        ({"closed": "Unreachable"}, "Unreachable"),
        ({"track": "exam"}, "TrackMismatch"),
        ({"capacity": None}, "CapacityUnknown"),
        ({"product": "CML_Personal"}, "LicenceMismatch"),
        ({"licensed": False}, "LicenceMismatch"),
        ({"free_ports": 2}, "NoFreePorts"),
    ],
)
def test_each_filter_has_its_reason(over, reason):
    """Whatever keeps a worker out is named, and nothing is placed there."""
    found = place(request(track="default", licence_affinity=("enterprise",)), worker(**over))
    assert found.outcome == "waiting"
    assert found.rejected_by_reason == {reason: 1}
    assert found.candidates[0].reasons == (reason,)


@pytest.mark.parametrize("name", DIMENSIONS)
def test_each_dimension_is_a_limit(name):
    """One unit too much in any dimension is a shortage with its numbers."""
    capacity = Amounts(**{**dict.fromkeys(DIMENSIONS, 10), name: 3})
    found = place(
        request(amounts=Amounts(**dict.fromkeys(DIMENSIONS, 4))), worker(capacity=capacity)
    )
    short = found.candidates[0].shortages
    assert [(each.dimension, each.wanted, each.free) for each in short] == [(name, 4, 3)]


@pytest.mark.parametrize("nodes", [5, 6])
def test_unlicensed_worker_runs_five_nodes(nodes):
    """Without a licence five nodes run and the sixth does not."""
    bare = worker(licensed=False, product=None)
    found = place(request(amounts=Amounts(nodes=nodes)), bare)
    assert (found.outcome == "assigned") == (nodes == 5)
    if nodes == 6:
        assert found.reason == "WorkerNotLicensed"


def test_enterprise_serves_personal_but_evaluation_only_itself():
    """Licence classes as in facts/upstream.md#templates-and-placement."""
    assert placement.serves("CML_Enterprise", ("personal",))
    assert not placement.serves("CML_Personal40", ("enterprise",))
    assert not placement.serves(None, ("personal",))
    assert placement.serves(None, ("evaluation",))
    assert placement.serves(None, ())


def test_capacity_counts_over_the_whole_window():
    """A later booking stands in the way of a lab that would still run then."""
    later = booking(Amounts(cpu_milli=47000), start=30)
    busy = worker(reservations=(later,))
    assert place(request(minutes=30), busy).outcome == "assigned"
    assert place(request(minutes=31), busy).outcome == "waiting"


def test_message_names_the_nearest_miss():
    """A person reads what is needed and by how much the best worker is short."""
    near = worker("w3", reservations=(booking(Amounts(cpu_milli=38000)),))
    far = worker("w1", reservations=(booking(Amounts(cpu_milli=47000)),))
    wanted = Amounts(cpu_milli=14000, memory_mib=52 * 1024, ports=6, labs=1)
    found = place(request(amounts=wanted), far, near, worker("w0", closed="Cordoned"))
    assert found.message == "needs 14 CPU / 52 GiB / 6 ports; best worker w3 is short 4 CPU"
    assert [each.name for each in found.candidates] == ["w3", "w1", "w0"]


@pytest.mark.parametrize(
    ("workers", "reason"),
    [
        ([], "NoWorkersAvailable"),
        ([worker(track="exam")], "NoMatchingTrack"),
        ([worker(closed="NotReady")], "WorkerNotReady"),
        ([worker(licensed=False)], "WorkerNotLicensed"),
        ([worker(capacity=Amounts())], "NoCapacityAvailable"),
    ],
)
def test_waiting_has_upstreams_word(workers, reason):
    """Why a request waits is one of upstream's failure reasons, with a sentence."""
    found = place(request(track="default", amounts=Amounts(nodes=6)), *workers)
    assert (found.outcome, found.reason) == ("waiting", reason)
    assert found.message


def test_decision_is_bounded():
    """Of a thousand workers twelve verdicts are kept and the rest are counted."""
    found = place(
        request(amounts=Amounts(cpu_milli=10**9)), *[worker(f"w{n}") for n in range(1000)]
    )
    assert len(found.candidates) == CANDIDATES
    assert found.rejected_by_reason == {"InsufficientCpu": 1000}


def machine(**over) -> Machine:
    """The default machine with a licence, but for what is given."""
    cml = CmlSettings(admin_password=SecretRef(env="P"))
    licence = LicenceSettings(token=SecretRef(env="T"))
    return Machine(**{"cml": cml, "licence": licence, **over})


def never(wanted: PlacementRequest, *machines: Machine):
    """Whether these machines, empty, could ever take it."""
    shapes = [placement.shape(f"t{n}", "default", each) for n, each in enumerate(machines)]
    return placement.never_fits(wanted, shapes, now=NOW)


def test_302_nodes_on_200_are_refused():
    """A lab beyond the licence of every possible worker is refused with the numbers."""
    found = never(request(amounts=Amounts(nodes=302, labs=1)), machine())
    assert found is not None
    assert (found.outcome, found.reason) == ("refused", "NeverFits")
    assert "short 102 licensed nodes" in found.message


def test_port_template_beyond_the_range_is_refused():
    """More ports than a worker has numbers can never be given."""
    found = never(request(amounts=Amounts(ports=6001)), machine())
    assert found is not None
    assert found.candidates[0].reasons == ("NoFreePorts",)


def test_unlicensed_template_holds_five_nodes():
    """A template without a token makes workers that never get past CML's free limit."""
    found = never(request(amounts=Amounts(nodes=6)), machine(licence=LicenceSettings()))
    assert found is not None
    assert never(request(amounts=Amounts(nodes=5)), machine(licence=LicenceSettings())) is None


def test_one_shape_that_fits_is_enough():
    """What fits any template waits for it."""
    small = machine(capacity=Amounts(cpu_milli=1000))
    assert never(request(), small, machine()) is None
    assert never(request(), small) is not None


def test_licence_class_that_no_worker_has_is_refused():
    """An evaluation lab on enterprise workers is refused in words."""
    found = never(request(licence_affinity=("evaluation",)), machine())
    assert found is not None
    assert found.message.endswith("no worker can carry a licence of class evaluation")


def test_nothing_is_refused_before_there_is_a_pool():
    """Without a pool on the track nobody can say never."""
    assert never(request(amounts=Amounts(nodes=10**6))) is None
    assert (
        placement.never_fits(
            request(track="x"),
            [placement.WorkerShape(name="t", track="y", capacity=Amounts())],
            now=NOW,
        )
        is None
    )


amount = st.builds(
    Amounts, cpu_milli=st.integers(0, 6), memory_mib=st.integers(0, 6), ports=st.integers(0, 3),
    labs=st.just(1),
)  # fmt: skip
asks = st.tuples(amount, st.integers(0, 50), st.integers(1, 30))


@given(st.lists(asks, max_size=25))
def test_placing_never_overfills_a_worker(wanted):
    """However requests come, no dimension of a worker is overbooked at any instant."""
    capacity = Amounts(cpu_milli=10, memory_mib=8, ports=4, labs=3)
    books: dict[str, list[Reservation]] = {"a": [], "b": []}
    for amounts, start, minutes in wanted:
        workers = [
            worker(name, capacity=capacity, reservations=tuple(held))
            for name, held in books.items()
        ]
        found = place(request(minutes, start, amounts=amounts), *workers)
        if found.chosen:
            books[found.chosen].append(booking(amounts, start, minutes))
    for held in books.values():
        most = ledger.peak(held, NOW, None)
        assert all(getattr(most, name) <= getattr(capacity, name) for name in DIMENSIONS)


candidates = st.builds(
    worker,
    st.sampled_from("abcdefgh"),
    closed=st.none() | st.sampled_from(["NotReady", "Cordoned", "Unreachable"]),
    licensed=st.booleans(),
    capacity=st.none() | amount,
    track=st.sampled_from(["default", "exam"]),
    sessions=st.integers(0, 9),
    free_ports=st.none() | st.integers(0, 5),
)


@given(
    amount,
    st.lists(candidates, max_size=8, unique_by=lambda each: each.name),
    st.none() | st.just("exam"),
    st.randoms(use_true_random=False),
)
def test_order_of_candidates_does_not_matter(amounts, workers, track, rng):
    """The decision is total, accounts for every worker, and depends on no order."""
    wanted = request(amounts=amounts, track=track)
    one = place(wanted, *workers)
    shuffled = list(workers)
    rng.shuffle(shuffled)
    assert place(wanted, *shuffled) == one
    fits = sum(1 for each in one.candidates if each.fits)
    assert fits + sum(one.rejected_by_reason.values()) == len(workers) == one.evaluated
    assert one.message
    assert all(each.fits or each.reasons for each in one.candidates)
