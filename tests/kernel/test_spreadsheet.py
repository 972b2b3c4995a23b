"""CSV that a spreadsheet may open: no text of strangers is computed, numbers are untouched."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.kernel import spreadsheet

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)


@given(st.sampled_from("=+@\t\r"), st.text())
def test_text_that_begins_a_formula_is_neutralised(first, rest):
    """= + @ tab and CR at the beginning get an apostrophe, and nothing else of the text changes."""
    assert spreadsheet.cell(first + rest) == f"'{first}{rest}"


@given(st.text(min_size=1).filter(lambda text: not text[0].isdigit()))
def test_a_minus_before_a_non_digit_is_neutralised(rest):
    """-cmd(...) is a formula too."""
    assert spreadsheet.cell(f"-{rest}") == f"'-{rest}"


@given(NUMBERS)
def test_numbers_stay_numbers(number):
    """As values and as their text, negative ones too."""
    assert spreadsheet.cell(number) is number
    assert spreadsheet.cell(str(number)) == str(number)


@given(st.text().filter(lambda text: text[:1] not in tuple("=+@\t\r-")))
def test_other_text_stays_as_it_is(text):
    """Whatever no spreadsheet computes is not touched."""
    assert spreadsheet.cell(text) == text


@pytest.mark.parametrize("text", ["-", "-5 days", "-12.5 %", "-2026-11-27T12:00:00Z"])
def test_what_only_looks_negative_stays(text):
    """The sign for unknown, and negative amounts with their units."""
    assert spreadsheet.cell(text) == text


def test_a_sum_after_a_minus_is_no_number():
    """A digit after the minus does not make a call of a program harmless."""
    assert spreadsheet.cell("-2+3+cmd|' /C calc'!A0").startswith("'")


@given(st.lists(st.lists(st.text(alphabet="=+-@ab1,\"'\n") | NUMBERS, min_size=1), min_size=1))
def test_no_cell_of_a_file_is_a_formula(rows):
    """What is written and read again has as many cells, and none of them is computed."""
    read = list(csv.reader(io.StringIO(spreadsheet.rows(rows), newline="")))
    assert [len(row) for row in read] == [len(row) for row in rows]
    for row in read:
        for cell in row:
            assert cell[:1] not in tuple("=+@\t\r")
            assert cell[:1] != "-" or len(cell) == 1 or cell[1].isdigit()
