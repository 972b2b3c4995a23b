"""What a pool promises over time: every accepted set packs, and a promise stays one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions.claims.danger import endangered
from labfleet.decisions.claims.growth import missing, promised
from labfleet.decisions.claims.nearest import TRIES, nearest, shifted
from labfleet.decisions.claims.places import Claimed, Extent, Lack, PoolClaims, claim_of, covers
from labfleet.decisions.claims.refusals import advice
from labfleet.decisions.placement import PlacementRequest, WorkerShape
from labfleet.kernel.clock import utc_text
from labfleet.resources.amounts import DIMENSIONS, Amounts, Claim, Shortage
from labfleet.resources.pool_conditions import PoolReason

NOW = datetime(2026, 11, 27, 9, tzinfo=UTC)
WORKER = Amounts(cpu_milli=48000, memory_mib=188 * 1024, nodes=200, labs=20, ports=6000)
EXAM = Amounts(cpu_milli=4000, memory_mib=16 * 1024, nodes=6, labs=1, ports=8)


def extent(places: int = 2, size: Amounts = WORKER, **over) -> Extent:
    """A pool of so many equal workers."""
    shape = WorkerShape(name="pool exam", track="default", capacity=size)
    return Extent(pool="exam", places=places, shape=shape, **over)


def slot(start: int = 600, minutes: int = 60, amounts: Amounts = EXAM) -> PlacementRequest:
    """A request for some minutes from a minute on."""
    begin = NOW + timedelta(minutes=start)
    return PlacementRequest(amounts=amounts, start=begin, end=begin + timedelta(minutes=minutes))


def taken(pool: PoolClaims, request: PlacementRequest, uid: str) -> int | Lack | None:
    """What the pool says to a request; what it can hold is held from then on."""
    found = pool.find(request)
    if isinstance(found, int):
        pool.add(Claimed(uid=uid, claim=claim_of("exam", found, request)))
    return found


def overfull(claims: list[Claim], places: int, size: Amounts) -> list[tuple[int, datetime, str]]:
    """Where claims do not pack, by plain sums at every instant at which one begins."""
    found = []
    for at in {each.start for each in claims}:
        for place in {each.place for each in claims}:
            held = [e for e in claims if e.place == place and e.start <= at < e.end]
            found += [
                (place, at, name)
                for name in DIMENSIONS
                if place >= places
                or sum(getattr(e.amounts, name) for e in held) > getattr(size, name)
            ]
    return found


def test_whole_workers():
    """188 GiB hold 11 sessions of 16 GiB, and two such workers 22, not 23: nothing is summed."""
    pool = PoolClaims(extent(2), NOW)
    answers = [taken(pool, slot(), f"s{number}") for number in range(23)]
    assert answers[:22] == [0] * 11 + [1] * 11
    assert answers[22] == Lack(
        place=0,
        at=NOW + timedelta(hours=10),
        shortages=(Shortage(dimension="memory_mib", wanted=16384, free=12288),),
    )


def test_what_serves_a_place_now_is_not_sold_for_later():
    """A larger worker counts while its labs last; afterwards another one may serve the place."""
    large = Amounts(cpu_milli=96000, memory_mib=376 * 1024, nodes=400, labs=40, ports=6000)
    pool = PoolClaims(extent(1, sizes={"large": large}), NOW)
    now = claim_of("exam", 0, slot(start=-10, minutes=240))
    pool.add(Claimed(uid="now", claim=now, worker="large"))
    later = [taken(pool, slot(), f"later{number}") for number in range(12)]
    assert later[:11] == [0] * 11
    assert isinstance(later[11], Lack)
    soon = [taken(pool, slot(start=30), f"soon{number}") for number in range(23)]
    assert soon[:22] == [0] * 22
    assert isinstance(soon[22], Lack)


def test_minute_of_the_lack():
    """A refusal names the first instant at which the best place is short."""
    pool = PoolClaims(extent(1), NOW)
    for number in range(11):
        taken(pool, slot(start=630), f"s{number}")
    found = pool.find(slot(start=600))
    assert isinstance(found, Lack)
    assert found.at == NOW + timedelta(minutes=630)


def test_adjacent_slots():
    """A slot that begins when another ends takes the same place."""
    pool = PoolClaims(extent(1, size=EXAM), NOW)
    assert [taken(pool, slot(start), f"s{start}") for start in (600, 660, 540)] == [0, 0, 0]


def test_own_claim_does_not_count():
    """A session that asks again is not in its own way."""
    pool = PoolClaims(extent(1, size=EXAM), NOW)
    taken(pool, slot(), "mine")
    assert isinstance(pool.find(slot(minutes=70)), Lack)
    assert pool.find(slot(minutes=70), without="mine") == 0


def test_a_claim_moves():
    """A claim that is taken in anew stands instead of the earlier one, never beside it."""
    pool = PoolClaims(extent(2, size=EXAM), NOW)
    taken(pool, slot(), "mine")
    pool.add(Claimed(uid="mine", claim=claim_of("exam", 1, slot()), worker="w1"))
    assert [each.claim.place for each in pool.claims()] == [1]
    assert (pool.find(slot()), pool.worker_of(1), pool.place_of("w1")) == (0, "w1", 1)


def test_overstaying_labs_hold_their_place():
    """What has begun and is past its end holds its place until a little after now."""
    pool = PoolClaims(extent(1, size=EXAM), NOW)
    taken(pool, slot(start=-60, minutes=59), "late")
    assert isinstance(pool.find(slot(start=0)), Lack)
    assert pool.find(slot(start=15)) == 0


def test_smaller_worker():
    """A place is as large as the worker that serves it really is."""
    half = replace(slot(), amounts=EXAM)
    small = extent(1, sizes={"w1": EXAM})
    pool = PoolClaims(small, NOW, [Claimed(uid="a", claim=claim_of("exam", 0, half), worker="w1")])
    assert isinstance(pool.find(slot()), Lack)


def test_no_places():
    """A pool that may have no worker holds nothing."""
    assert PoolClaims(extent(0), NOW).find(slot()) is None


def test_covered():
    """A claim covers what lies within it and asks for no more."""
    claim = claim_of("exam", 0, slot(minutes=60))
    assert covers(claim, slot(start=610, minutes=50))
    assert not covers(claim, slot(minutes=61))
    assert not covers(claim, slot(amounts=WORKER))


def test_other_slots_cost_nothing():
    """Of claims on other places, none is looked at once a place is found."""
    pool = PoolClaims(extent(50), NOW)
    for number in range(11 * 50):
        taken(pool, slot(), f"s{number}")
    pool.drop("s0")
    before = pool.looked
    assert pool.find(slot()) == 0
    assert pool.looked - before == 10


_amounts = st.builds(
    Amounts,
    cpu_milli=st.integers(0, 6),
    memory_mib=st.integers(0, 6),
    nodes=st.integers(0, 3),
    labs=st.just(1),
)
_slots = st.builds(slot, st.integers(20, 45), st.integers(1, 20), _amounts)
_SIZE = Amounts(cpu_milli=8, memory_mib=7, nodes=4, labs=5)


@given(st.lists(_slots, max_size=12), st.integers(1, 4))
def test_accepted_sets_pack(requests, places):
    """Whatever is accepted packs into whole workers at every instant, and stays as accepted."""
    pool, accepted = PoolClaims(extent(places, size=_SIZE), NOW), dict[str, Claim]()
    for number, request in enumerate(requests):
        uid = f"s{number}"
        found = taken(pool, request, uid)
        if isinstance(found, int):
            accepted[uid] = claim_of("exam", found, request)
        assert {each.uid: each.claim for each in pool.claims()} == accepted
        assert not overfull(list(accepted.values()), places, _SIZE)


@given(st.lists(_slots, max_size=12), _slots, st.integers(1, 3))
def test_refused_means_no_place(requests, last, places):
    """What is refused fits beside the promises on no place, and the lack named is a true one."""
    pool = PoolClaims(extent(places, size=_SIZE), NOW)
    for number, request in enumerate(requests):
        taken(pool, request, f"s{number}")
    found, claims = pool.find(last), [each.claim for each in pool.claims()]
    each_place = [[*claims, claim_of("exam", place, last)] for place in range(places)]
    if not isinstance(found, Lack):
        assert not overfull(each_place[found], places, _SIZE)
        return
    assert all(overfull(tried, places, _SIZE) for tried in each_place)
    assert last.start <= found.at < last.end
    short = found.shortages[0]
    assert (found.place, found.at, short.dimension) in overfull(
        each_place[found.place], places, _SIZE
    )
    held = [e for e in claims if e.place == found.place and e.start <= found.at < e.end]
    used = sum(getattr(each.amounts, short.dimension) for each in held)
    assert short.free == getattr(_SIZE, short.dimension) - used < short.wanted


@given(st.lists(_slots, max_size=12), _slots, st.integers(1, 3))
def test_nearest_slots_fit(requests, wanted, places):
    """The nearest slots that are offered fit, and no slot of a minute between fits."""
    pool = PoolClaims(extent(places, size=_SIZE), NOW)
    for number, request in enumerate(requests):
        taken(pool, request, f"s{number}")
    if isinstance(pool.find(wanted), int) or not pool.serves(wanted):
        return
    first, last = NOW, NOW + timedelta(hours=3)
    found = nearest([pool], wanted, first=first, last=last)
    assert found.later is not None
    for move in (found.earlier, found.later):
        if move is None:
            continue
        assert isinstance(pool.find(shifted(wanted, move)), int)
        step = timedelta(minutes=1 if move > timedelta() else -1)
        between = [step * n for n in range(1, abs(move // step))]
        assert not any(isinstance(pool.find(shifted(wanted, each)), int) for each in between)


def test_what_was_not_looked_at_is_said():
    """After so many tries the later slots are not denied: it is said where the look stopped."""
    pool, asked = PoolClaims(extent(1, size=EXAM), NOW), slot(600, 5)
    for number in range(TRIES + 2):
        assert taken(pool, slot(600 + 9 * number, 5), f"s{number}") == 0
    found = nearest([pool], asked, first=asked.start, last=asked.start + timedelta(days=1))
    stopped = timedelta(minutes=9 * (TRIES - 1) + 5)
    assert (found.earlier, found.later, found.before, found.after) == (None, None, None, stopped)
    end = asked.start + timedelta(minutes=5)
    told = advice(found, asked.start, end, 7, grow="")
    assert f"none that starts after {utc_text(asked.start + stopped)} was looked at" in told
    assert "within 7 days" not in told


@given(st.lists(_slots, max_size=12), st.sets(st.integers(0, 3)), st.integers(0, 4))
def test_growth_covers_what_is_due(requests, bound, spare):
    """With the missing workers made, each place that is due has a worker of its own."""
    pool = PoolClaims(extent(4, size=_SIZE), NOW)
    for number, request in enumerate(requests):
        taken(pool, request, f"s{number}")
    for each in list(pool.claims()):
        if each.claim.place in bound:
            pool.add(replace(each, worker=f"w{each.claim.place}"))
    serving = {f"w{place}" for place in bound} | {f"spare{number}" for number in range(spare)}
    until = NOW + timedelta(minutes=35)
    found = promised(pool, until)
    need = {e.claim.place for e in pool.claims() if e.claim.start <= until and e.worker is None}
    assert len(found.due) == len(need)
    assert missing(found, serving) == max(0, len(need) - len(serving - found.busy))


def test_a_worker_on_its_way_out_is_replaced():
    """A place that is due and whose worker does not serve any more needs another one."""
    pool = PoolClaims(extent(2), NOW)
    pool.add(Claimed(uid="runs", claim=claim_of("exam", 0, slot(20)), worker="w1"))
    pool.add(Claimed(uid="next", claim=claim_of("exam", 0, slot(30))))
    found = promised(pool, NOW + timedelta(hours=1))
    assert (missing(found, {"w1"}), missing(found, set()), missing(found, {"w2"})) == (0, 1, 0)
    assert promised(pool, NOW + timedelta(minutes=29)).due == ()


@given(st.lists(_slots, max_size=12), st.integers(0, 3), st.integers(4, 8))
def test_what_is_not_in_danger_still_packs(requests, places, memory):
    """When a pool shrinks, what is not named as in danger packs into what is left."""
    before = PoolClaims(extent(3, size=_SIZE), NOW)
    for number, request in enumerate(requests):
        taken(before, request, f"s{number}")
    size = replace_memory(_SIZE, memory)
    after = PoolClaims(extent(places, size=size), NOW, before.claims())
    lost = {each.claimed.uid: each.why for each in endangered(after)}
    kept = [each.claim for each in after.claims() if each.uid not in lost]
    assert not overfull(kept, places, size)
    if places == 3 and memory >= _SIZE.memory_mib:
        assert lost == {}
    gone = {each.uid for each in after.claims() if each.claim.place >= places}
    assert {uid for uid, why in lost.items() if why == PoolReason.PLACES_GONE} == gone


def replace_memory(size: Amounts, memory: int) -> Amounts:
    """The same amounts with another memory."""
    return msgspec.structs.replace(size, memory_mib=memory)


def test_late_workers():
    """A promise whose head start began minutes ago, and that no worker hosts, is in danger."""
    pool = PoolClaims(extent(1), NOW)
    taken(pool, slot(start=-5), "late")
    taken(pool, slot(start=-4), "soon")
    assert [(e.claimed.uid, e.why) for e in endangered(pool)] == [("late", PoolReason.WORKERS_LATE)]
