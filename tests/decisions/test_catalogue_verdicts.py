"""A lab is held up only for what servers of all its images were seen not to have."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions import catalogues, placement
from labfleet.decisions.catalogues import Place
from labfleet.resources.amounts import Amounts
from labfleet.resources.definition import DefinitionStatus
from labfleet.resources.image import Catalogue, Image, ImageStatus
from labfleet.resources.meta import Metadata

NOW = datetime(2026, 11, 27, 9, tzinfo=UTC)
A, B = "node definition a", "image definition b"
_META = Metadata(name="ami-1")
names = st.frozensets(st.sampled_from([A, B, "node definition c"]))
places = st.lists(st.builds(Place, st.sampled_from("xyz"), st.none() | names), max_size=4)


def catalogue(nodes: str, images: str = "") -> Catalogue:
    """One of single letters."""
    return Catalogue(node_definitions=tuple(nodes), image_definitions=tuple(images))


@pytest.mark.parametrize(
    ("there", "status", "reason"),
    [
        ([], "Unknown", "NoPlace"),
        ([None], "Unknown", "NotSeen"),
        ([{A}, None], "Unknown", "NotSeen"),
        ([{A, B}, None], "True", "Seen"),
        ([{A}, {A, B}], "True", "Seen"),
        ([{A}, {B}], "False", "Missing"),
        ([set()], "False", "Missing"),
    ],
)
def test_a_lab_is_judged_by_what_was_seen(there, status, reason):
    """One place that has all is enough; one that was not seen may have it."""
    where = [
        Place(f"p{n}", None if each is None else frozenset(each)) for n, each in enumerate(there)
    ]
    found = catalogues.verdict(frozenset({A, B}), where)
    assert (found.status, str(found.reason)) == (status, reason)


def test_what_is_missing_is_named_of_the_nearest_place():
    """The sentence names the place that lacks least, and what it lacks."""
    found = catalogues.verdict(
        frozenset({A, B}), [Place("pool p", frozenset()), Place("worker w", frozenset({A}))]
    )
    assert found.message == "no worker of its track has it: worker w has no image definition b"


@given(names, places)
def test_false_means_that_no_place_may_run_it(wanted, there):
    """False exactly when each of the places is known and lacks something; nothing needed is True."""
    found = catalogues.verdict(wanted, there)
    lacks_all = bool(there) and all(each.has is not None and wanted - each.has for each in there)
    assert (found.status == "False") == lacks_all
    assert found.status == "True" or wanted


@given(names, st.none() | names)
def test_placement_and_growth_agree(wanted, has):
    """A worker that is known to lack something gets no session, and is not made for one."""
    request = placement.PlacementRequest(amounts=Amounts(labs=1), start=NOW, needs=wanted)
    size = Amounts(cpu_milli=1, memory_mib=1, labs=1)
    shape = placement.WorkerShape(name="pool p", track="default", capacity=size, has=has)
    candidate = placement.Candidate(name="w", licensed=True, capacity=size, has=has)
    decision = placement.place(request, [candidate], now=NOW)
    lacks = has is not None and not wanted <= has
    assert placement.fits_empty(request, shape) is not lacks
    assert (decision.chosen is None, decision.reason) == (
        (True, "MissingDefinitions") if lacks else (False, "Fits")
    )
    assert placement.never_fits(request, [shape], now=NOW) is None  # it may be added to a server


def test_what_every_cml_has_is_not_needed():
    """Connectors and switches are part of CML itself; images are needed where a node names them."""
    status = DefinitionStatus(
        node_definitions={"a": 2, "external_connector": 1, "unmanaged_switch": 1},
        image_definitions=("b",),
    )
    assert catalogues.needs(status) == {A, B}


def test_what_any_worker_of_an_image_has_counts_for_a_day_and_is_then_forgotten():
    """Two workers of one image that differ add up; what none has again is dropped a day later."""
    status = catalogues.looked(
        ImageStatus(), catalogue("a", "b"), worker="w1", version="2.9", now=NOW
    )
    image = Image(metadata=_META, status=status)
    assert catalogues.has(image) == {A, B}
    later = NOW + timedelta(hours=1)
    same = catalogues.looked(status, catalogue("a"), worker="w2", version="2.9", now=later)
    assert same is status
    more = catalogues.looked(status, catalogue("ac"), worker="w2", version="2.9", now=later)
    assert (more.seen, more.worker, more.since) == (catalogue("ac", "b"), "w2", NOW)
    next_day = catalogues.looked(
        more, catalogue("a"), worker="w2", version="2.9", now=NOW + timedelta(days=1)
    )
    assert (next_day.seen, next_day.before) == (catalogue("a"), catalogue("c", "b"))
    assert next_day.node_definitions == 2
    third = catalogues.looked(
        next_day, catalogue("a"), worker="w2", version="2.9", now=NOW + timedelta(days=2)
    )
    assert (third.seen, third.before) == (catalogue("a"), catalogue(""))
    assert catalogues.has(None) is None
    assert catalogues.has(Image(metadata=_META)) is None
