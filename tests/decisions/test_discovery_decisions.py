"""Who is imported of what a scan found, and under which name."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions import discovery
from labfleet.interfaces.compute import Instance
from labfleet.kernel import ids

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
