"""Instants, names, digests, back-off and errors."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from labfleet.kernel import backoff, clock, errors, ids

ZONES = st.integers(-14 * 60, 14 * 60).map(lambda m: timezone(timedelta(minutes=m)))
LEGAL = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", fullmatch=True)


@given(st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1), timezones=ZONES))
def test_instant_reads_back(instant: datetime) -> None:
    """Writing and reading an instant loses less than a millisecond and ends in UTC."""
    text = clock.format_instant(instant)
    again = clock.parse_instant(text)
    assert text.endswith("Z")
    assert again.tzinfo is UTC
    assert timedelta(0) <= instant - again < timedelta(milliseconds=1)
    assert clock.parse_instant(instant.isoformat()) == instant


@given(st.text(max_size=40))
def test_no_text_is_worse_than_a_value_error(text: str) -> None:
    """Whatever is sent as an instant is read or refused with ValueError."""
    try:
        assert clock.parse_instant(text).tzinfo is UTC
    except ValueError:
        return


@pytest.mark.parametrize(
    "text",
    ["2026-11-27T09:00:00", "2026-11-27", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"],
)
def test_instant_without_zone_or_outside_the_calendar_is_refused(text: str) -> None:
    """A naive time, and one that has no UTC form (an OverflowError once), are ValueErrors."""
    with pytest.raises(ValueError, match=r"zone|outside"):
        clock.parse_instant(text)


@given(st.text(max_size=200), st.integers(ids.SUFFIX_LIMIT, ids.NAME_LIMIT))
def test_slug_is_legal_and_short_enough(text: str, limit: int) -> None:
    """Any text, Unicode and half surrogates included, becomes a legal name within the limit."""
    name = ids.slug(text, limit=limit)
    assert ids.is_name(name)
    assert len(name) <= limit
    assert ids.slug(name, limit=limit) == name


@given(LEGAL)
@example("a--b")
def test_slug_keeps_legal_names(name: str) -> None:
    """A legal name is its own slug."""
    assert ids.slug(name) == name


@given(st.lists(st.text(max_size=80), unique=True, min_size=2, max_size=10))
def test_slugs_keep_texts_apart(texts: list[str]) -> None:
    """Different texts get different names."""
    assert len({ids.slug(text) for text in texts}) == len(texts)


def test_slug_keeps_what_the_rule_would_lose_apart() -> None:
    """Case, punctuation and length do not make two texts one name (facts/fleet-bugs.md#t26)."""
    texts = ["a-b/c", "a/b-c", "A-b-c", "a-b-c", "ä", "ö", "x" * 64, "x" * 65]
    assert len({ids.slug(text) for text in texts}) == len(texts)


def test_slug_needs_room_for_its_hash() -> None:
    """A limit that leaves no room is a mistake of the caller."""
    with pytest.raises(ValueError, match="room"):
        ids.slug("Any", limit=11)


@given(st.lists(st.text(max_size=5), max_size=4), st.lists(st.text(max_size=5), max_size=4))
def test_digest_knows_its_parts(one: list[str], two: list[str]) -> None:
    """Two digests are equal only when all their parts are."""
    assert (ids.digest(*one) == ids.digest(*two)) is (one == two)


def test_digest_has_no_border_character() -> None:
    """A part that holds the former separator is not two parts."""
    assert ids.digest("a\x1fb") != ids.digest("a", "b")


@given(
    st.integers(-5, 10_000),
    st.floats(0, 1, exclude_max=True),
    st.floats(0.01, 10),
    st.floats(10, 1000),
)
def test_back_off_is_between_half_and_all(
    failures: int, rng: float, base: float, limit: float
) -> None:
    """Each wait is between half and all of the doubled base, and never above the limit."""
    wait = backoff.delay(failures, rng, base=base, limit=limit)
    full = min(limit, base * 2.0 ** min(max(failures, 1) - 1, 40))
    assert full / 2 <= wait <= full


@pytest.mark.parametrize("kind", [errors.Temporary, errors.Throttled, errors.Fenced, errors.Gone])
def test_errors_survive_a_copy(kind: type[errors.LabfleetError]) -> None:
    """A batch that fails hands each waiter its own copy, with reason and retry-after."""
    error = copy.copy(kind("why", reason="Because", retry_after=3.0))
    assert (error.message, error.reason, error.retry_after) == ("why", "Because", 3.0)
    assert str(error) == "why"


def test_reason_defaults_to_that_of_its_type() -> None:
    """An error without a reason of its own has its type's, and others keep theirs."""
    assert errors.Throttled("x", reason="Bucket").reason == "Bucket"
    assert errors.Throttled("x").reason == "Throttled"
    assert errors.Invalid("x", problems=(("spec.end", "is missing"),)).problems[0][0] == "spec.end"
