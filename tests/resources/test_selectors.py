"""Label selectors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.kernel import errors
from labfleet.resources import selectors
from labfleet.resources.selectors import Requirement


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", ()),
        ("  ", ()),
        ("team=a", (Requirement("team", "=", ("a",)),)),
        ("team == a", (Requirement("team", "=", ("a",)),)),
        ("team!=a", (Requirement("team", "!=", ("a",)),)),
        ("team=", (Requirement("team", "=", ("",)),)),
        ("env in (dev, test)", (Requirement("env", "in", ("dev", "test")),)),
        ("env notin (a,b)", (Requirement("env", "!=", ("a",)), Requirement("env", "!=", ("b",)))),
        ("legacy", (Requirement("legacy", "exists"),)),
        ("!legacy", (Requirement("legacy", "absent"),)),
        ("a=1,b in (x,y),!c", (
            Requirement("a", "=", ("1",)),
            Requirement("b", "in", ("x", "y")),
            Requirement("c", "absent"),
        )),
        ("labfleet.dev/pool=p-1", (Requirement("labfleet.dev/pool", "=", ("p-1",)),)),
    ],
)  # fmt: skip
def test_forms(text, wanted):
    """Every form that people know from kubectl is read."""
    assert selectors.parse(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "a=b=c",
        "a in b",
        "a in (b",
        "=b",
        "a,,b",
        "a in ((b))",
        "a b",
        "x" * 5000,
        "a=b;c",
        "a in (b c)",
    ],
)
def test_mistakes_are_named(text):
    """What cannot be read is refused instead of selecting everything."""
    with pytest.raises(errors.Invalid) as caught:
        selectors.parse(text)
    assert caught.value.problems


def test_matching():
    """All requirements must hold; an absent label differs from every value."""
    found = selectors.parse("a=1,b!=2,c in (x,y),d,!e")
    assert selectors.matches(found, {"a": "1", "c": "y", "d": ""})
    assert not selectors.matches(found, {"a": "1", "b": "2", "c": "y", "d": ""})
    assert not selectors.matches(found, {"a": "1", "c": "y", "d": "", "e": ""})


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text):
    """No text makes the reader fail in another way."""
    try:
        assert isinstance(selectors.parse(text), tuple)
    except errors.Invalid as problem:
        assert problem.reason == "BadSelector"  # noqa: PT017 - both outcomes are right
