"""Who is imported of what a scan found, under which name, and what is kept of the scan."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions import discovery
from labfleet.interfaces.compute import Instance
from labfleet.kernel import errors, ids
from labfleet.resources.region import RegionStatus, Scan

NOW = datetime(2026, 11, 28, 9, tzinfo=UTC)

IDS = [f"i-{n:017x}" for n in range(8)]
INSTANCES = st.lists(
    st.builds(
        Instance,
        st.sampled_from(IDS),
        st.sampled_from(["booting", "running", "stopped", "ending", "gone"]),
        tags=st.dictionaries(
            st.sampled_from(["labfleet:owner", "Name"]), st.sampled_from(["me", "them"])
        ),
    ),
    max_size=12,
)


@given(INSTANCES, st.sets(st.sampled_from(IDS)), st.sets(st.sampled_from(IDS)))
def test_each_candidate_is_in_one_group(
    found: list[Instance], known: set[str], ignored: set[str]
) -> None:
    """Nothing with an owner is imported, nothing known twice, nothing that a person refused."""
    made = discovery.sort(found, known=known, ignored=ignored, installation="me")
    groups = {name: {each.id for each in getattr(made, name)} for name in discovery.GROUPS}
    assert sum(map(len, groups.values())) == len({each.id for each in found})
    assert groups["known"] == {each.id for each in found} & known
    for each in made.fresh:
        assert "labfleet:owner" not in each.tags
        assert each.id not in known | ignored
        assert each.state not in {"ending", "gone"}
    assert all(each.tags["labfleet:owner"] == "me" for each in made.ours)
    assert all(each.tags["labfleet:owner"] != "me" for each in made.foreign)


ROWS = st.dictionaries(st.sampled_from(IDS), st.none() | st.text(max_size=80))


@given(ROWS, st.sets(st.sampled_from(["cml", "a", "b"])))
def test_names_are_legal_and_unique(rows: dict[str, Any], taken: set[str]) -> None:
    """Any Name tag, also one that many have or none, gives each instance a name of its own."""
    made = discovery.names_for(rows.items(), taken)
    assert len(set(made.values())) == len(rows)
    assert not set(made.values()) & taken
    assert all(ids.is_name(name) for name in made.values())


def test_a_name_tag_is_kept_where_it_can_be() -> None:
    """The plain name stays; a second of that name gets the end of its instance's id."""
    made = discovery.names_for([(IDS[1], "cml-1"), (IDS[2], "cml-1")], ())
    assert made == {IDS[1]: "cml-1", IDS[2]: "cml-1-00000002"}


@given(st.lists(st.sampled_from("abcdef"), unique=True), st.lists(st.sampled_from("abcdefghij")))
def test_images_once_matched_are_remembered(before: list[str], found: list[str]) -> None:
    """A deregistered image stays known while there is room; the newest are never dropped."""
    made = discovery.remembered(before, found, 100)
    assert set(made) == {*before, *found}
    assert len(made) == len(set(made))
    short = discovery.remembered(before, found, 3)
    assert len(short) <= 3
    assert set(short) <= set(made)
    assert set(list(dict.fromkeys(found))[-3:]) <= set(short)


SCANS = st.builds(
    discovery.Scan,
    images=st.sampled_from([(), ("ami-2",)]),
    found=st.integers(0, 3),
    compared=st.booleans(),
    made=st.sampled_from([(), ("w1",)]),
    foreign=st.sampled_from([(), ("i-8", "i-9")]),
    ignored=st.integers(0, 3),
    trouble=st.sampled_from([None, errors.Unreachable("no answer")]),
)
KNOWN = RegionStatus(
    images=("ami-1",),
    scan=Scan(runs=4, discovered=9, imported=8, foreign=7, foreign_ids=("i-7",), ignored=6),
)


@given(SCANS)
def test_a_scan_counts_what_it_compared_and_keeps_the_rest(scan: discovery.Scan) -> None:
    """One that failed early leaves the counts as they were; each is a run and says its error."""
    found = discovery.scanned(KNOWN, scan, NOW)
    told, kept = found.scan, KNOWN.scan
    assert (told.runs, told.last_run_at) == (kept.runs + 1, NOW)
    assert told.last_error == ("" if scan.trouble is None else "no answer")
    counts = (told.discovered, told.foreign, told.foreign_ids, told.ignored)
    if scan.compared:
        assert counts == (scan.found, len(scan.foreign), scan.foreign, scan.ignored)
    else:
        assert counts == (kept.discovered, kept.foreign, kept.foreign_ids, kept.ignored)
    assert told.imported == kept.imported + len(scan.made) * scan.compared
    assert found.images == (scan.images or KNOWN.images)


def test_a_scan_of_a_region_without_images_found_nothing() -> None:
    """It is a comparison with nothing: every count of the last scan becomes 0."""
    told = discovery.scanned(KNOWN, discovery.Scan(compared=True), NOW).scan
    assert (told.discovered, told.foreign, told.foreign_ids, told.ignored) == (0, 0, (), 0)
    assert told.imported == KNOWN.scan.imported
