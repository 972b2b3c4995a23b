"""Regular expressions that people set: none that is taken can hold a process."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.resources import patterns

TOKENS = ["a", "b", ".", "[ab]", "(", "(?:", "(?=", ")", "|", "*", "+", "?", "{2,}", "\\w", "$"]


@pytest.mark.parametrize(
    "text",
    ["", "^00000000-0000-", "^(system|svc-.*)$", "(?i)^admin$", "(?:ab)+c", r"\(a+\)+", "[(+]*x"],
)
def test_what_names_system_users_is_taken(text: str) -> None:
    """Names, choices, and a few repeats of plain things."""
    assert patterns.problem(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "(a+)+$", "(a|a)*b", "((a*)b)*", "(a{2,}){3}", "(?:(a|b))+c", "a?" * 30 + "a" * 30,
        ".*a.*b.*c.*", "(?x)( a+ ) +z", "(a+)(?#c)+z", "a{99999999999}", "(", ".*", "x*", "()",
    ],
)  # fmt: skip
def test_what_can_take_for_ever_or_means_everybody_is_refused(text: str) -> None:
    """Repeats in repeats in every spelling, too many of them, and what matches nothing at all."""
    assert patterns.problem(text) is not None


@given(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=16).map("".join))
def test_whatever_is_taken_is_fast_on_names_made_to_be_slow(text: str) -> None:
    """A repeat in a repeat would never come back from these."""
    if patterns.problem(text) is None:
        for name in ("a" * 60 + "!", "ab" * 30 + "!"):
            found = re.search(text, name)
            assert found is None or found.end() <= len(name)
