"""The versions of one lab: which is the newest, and what the next one is called."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions import families
from labfleet.kernel import ids
from labfleet.resources.definition import Definition, DefinitionSpec
from labfleet.resources.meta import Metadata

T0 = datetime(2026, 11, 30, 8, tzinfo=UTC)


def definition(name: str, version: str = "1.0.0", minute: int = 0, **spec: Any) -> Definition:
    """Return a version of the family `labs`."""
    made = T0 + timedelta(minutes=minute)
    return Definition(
        metadata=Metadata(name=name, creation_timestamp=made),
        spec=DefinitionSpec(topology="t", version=version, **{"family": "labs", **spec}),
    )


def test_versions_are_ordered_as_semantic_versioning_orders_them() -> None:
    """By numbers and not by letters; a pre-release comes before its version; then by age."""
    rising = ["1.2.0", "1.10.0-rc.2", "1.10.0-rc.10", "1.10.0-x", "1.10.0", "2.0.0"]
    made = [definition(f"d{n}", each) for n, each in enumerate(rising)]
    assert [each.spec.version for each in families.members(made[::-1], "labs")] == rising
    older, newer = definition("b", minute=1), definition("a", minute=2)
    assert families.members([newer, older], "labs") == [older, newer]


def test_numbers_longer_than_any_version_has_are_read() -> None:
    """A version of five thousand digits is a version like others."""
    longest = definition("a", f"{'9' * 5000}.0.0")
    assert families.newest([longest, definition("b", "2.0.0")], "labs") is longest


def test_the_newest_is_one_that_may_be_used() -> None:
    """Deprecated versions and other families do not count; without a version there is none."""
    old, new = definition("a"), definition("b", "2.0.0", deprecated=True)
    other = definition("labs", "9.0.0", family="other")
    assert families.newest([old, new, other], "labs") is old
    assert families.newest([new], "labs") is None


def test_a_definition_without_a_family_is_its_own() -> None:
    """It is the first version of the family that has its name."""
    alone = definition("labs", family=None)
    assert families.newest([alone], "labs") is alone


def test_the_next_name_counts_on_and_avoids_names_in_use() -> None:
    """The highest number so far and one; a name that something else has is left out."""
    known = [definition("labs"), definition("labs-v4")]
    assert families.next_name("labs", known, {"labs", "labs-v4"}) == "labs-v5"
    assert families.next_name("labs", known, {"labs-v5"}) == "labs-v6"
    assert families.next_name("labs", [definition("labs")], ()) == "labs-v2"


@given(
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", fullmatch=True),
    st.lists(st.from_regex(r"[a-z]{1,9}-v[0-9]{1,12}", fullmatch=True), max_size=4),
)
def test_every_family_has_a_next_name(family: str, names: list[str]) -> None:
    """It is a legal name that nothing else has, for any family and any names of versions."""
    known = [definition(each) for each in names]
    found = families.next_name(family, known, set(names))
    assert ids.is_name(found)
    assert found not in names


def test_the_next_version_is_after_all_others() -> None:
    """Its middle number is one more than that of the highest version, deprecated or not."""
    known = [definition("a", "1.4.2"), definition("b", "2.1.0-rc1", deprecated=True)]
    assert families.next_version(known) == "2.2.0"
