"""Asking a place many times answers as the first time, and a refusal does not look at all again."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from test_claims import EXAM, NOW, extent, slot

from labfleet.decisions.claims.nearest import nearest
from labfleet.decisions.claims.places import Claimed, PoolClaims, claim_of
from labfleet.decisions.placement import PlacementRequest

DAY = 24 * 60
_spans = st.tuples(st.integers(-60, 400), st.integers(1, 300))


def held(*spans: tuple[int, int], places: int = 1) -> PoolClaims:
    """A pool in which each of these slots is held, so many minutes long from a minute on."""
    pool = PoolClaims(extent(places), NOW)
    for number, (start, minutes) in enumerate(spans):
        claim = claim_of("exam", number % places, slot(start, minutes))
        pool.add(Claimed(uid=str(number), claim=claim))
    return pool


def request(span: tuple[int, int]) -> PlacementRequest:
    """A slot of the largest lab that fits beside five others, so that few claims are short."""
    return slot(*span, amounts=EXAM)


@given(st.lists(_spans, max_size=25), st.lists(_spans, min_size=1, max_size=4), st.data())
def test_asking_again_answers_the_same(spans, asked, data):
    """Whatever was asked before, and whatever came and went between, as a pool read anew says."""
    pool = held(*spans, *[(0, 400)] * 9)
    kept = dict(enumerate([*spans, *[(0, 400)] * 9]))
    for span in [*asked, *asked]:
        fresh = PoolClaims(extent(1), NOW)
        for number, each in kept.items():
            fresh.add(Claimed(uid=str(number), claim=claim_of("exam", 0, slot(*each))))
        again = PlacementRequest(amounts=EXAM, start=request(span).start, end=None)
        assert pool.find(request(span)) == fresh.find(request(span))
        assert pool.lack(0, again) == fresh.lack(0, again)
        out = data.draw(st.sampled_from(sorted(kept)))
        assert pool.lack(0, again, without=str(out)) == fresh.lack(0, again, without=str(out))
        if data.draw(st.booleans()):
            pool.drop(str(out))
            del kept[out]


def test_a_refusal_looks_at_each_claim_a_few_times():
    """Of 2,000 promises on 20 places a refusal that tried 64 other slots reads each twice."""
    spans = [(DAY + 7 * (number // 20), 120) for number in range(2000)]
    pool = held(*spans, places=20)
    asked = slot(DAY + 300, 60)
    assert not isinstance(pool.find(asked), int)
    near = nearest([pool], asked, first=NOW, last=NOW + timedelta(days=8))
    assert None not in {near.before, near.after}
    assert pool.looked <= 2 * 2000
