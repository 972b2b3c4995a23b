"""Rosters: what spreadsheets really write is read, and every mistake is named at its cell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labfleet.kernel import errors, spreadsheet
from labfleet.resources import roster
from labfleet.resources.group import SEATS_LIMIT, Seat

TEXT = "Name;E-Mail;Seat;Factor\r\nZoë;zoe@x.org;A1;1,5\r\nbo;bo@x.org;A2;\r\n"
TWO = (
    Seat(name="A1", person="Zoë", email="zoe@x.org", factor=1.5),
    Seat(name="A2", person="bo", email="bo@x.org"),
)


@pytest.mark.parametrize(
    ("data", "encoding"),
    [
        (TEXT.encode(), "utf-8"),
        (TEXT.encode("utf-8-sig"), "utf-8"),
        (TEXT.encode("utf-16"), "utf-16-le"),
        (b"\xfe\xff" + TEXT.encode("utf-16-be"), "utf-16-be"),
        (TEXT.encode("utf-16-le"), "utf-16-le"),
        (TEXT.encode("cp1252"), "windows-1252"),
    ],
)
def test_every_encoding_of_spreadsheets_is_read(data: bytes, encoding: str) -> None:
    """With a mark or without, and what old Windows programs write; it is told which it was."""
    found = roster.read(data)
    assert (found.seats, found.encoding) == (TWO, encoding)


@pytest.mark.parametrize("separator", [";", "\t", ",", "|"])
@pytest.mark.parametrize("ends", ["\r\n", "\n"])
def test_every_separator_is_found(separator: str, ends: str) -> None:
    """The heading's own cells say what separates them; quoted cells may hold it."""
    rows = [
        ["Name", "E-mail address", "Notes, if any"],
        ["bo", "bo@x.org", f'"a{separator} ""b"""'],
    ]
    if separator == ",":
        rows[0][2] = '"Notes, if any"'
    found = roster.read(ends.join(separator.join(each) for each in rows).encode())
    assert found.seats == (Seat(person="bo", email="bo@x.org"),)
    assert found.ignored == ("Notes, if any",)


def test_what_excel_adds_is_passed_over() -> None:
    """`sep=`, blank rows, a heading that stands there again, empty columns at the end."""
    text = "sep=;\r\n;;;\r\nName;Seat;;\r\nana;;;\r\n\r\nName;Seat;;\r\n;B2;;\r\n ; ;;\r\n"
    assert roster.read(text.encode()).seats == (Seat(person="ana"), Seat(name="B2"))


@pytest.mark.parametrize(
    ("heading", "row", "person"),
    [
        ("Student", "ana", "ana"),
        ("USER_NAME", "ana", "ana"),
        ("Vorname;Nachname", "Ana;Li", "Ana Li"),
        ("Prénom;Nom de classe;Last name", "Ana;x;Li", "Ana Li"),
        ("e mail", "ana@x.org", "ana@x.org"),
        ("Name;Login", "Ana Li;ali", "ali"),
        ("name", "'t Hooft", "'t Hooft"),
        ("name", "'=1+1", "=1+1"),
        ("name", "e\u0301va", "\u00e9va"),
        ("name", "\u00a0ana\u00a0", "ana"),
    ],
)
def test_who_sits_there_is_read_from_common_headings(heading: str, row: str, person: str) -> None:
    """Spellings, languages and parts of names; the name that people log in with goes first."""
    assert roster.read(f"{heading}\n{row}".encode()).seats[0].person == person


@pytest.mark.parametrize("text", ["=1+1", "@x", "+x", "-x", "=HYPERLINK(0)"])
def test_what_a_spreadsheet_would_compute_is_a_text(text: str) -> None:
    """It is nobody's formula here, and is never written back as one."""
    (seat,) = roster.read(f"name\n{text}\n".encode()).seats
    assert seat.person == text
    assert spreadsheet.rows([[seat.person]]).startswith("'")


def test_all_mistakes_are_named_at_once() -> None:
    """Each by its row and column, with what to do."""
    text = (
        "Name,E-Mail,Seat,Factor,Factor\n"
        "x,,,,\n"
    )  # fmt: skip
    assert _wrong(text) == [
        ("row 1, column E (Factor)", "column D has that heading too; rename one of them")
    ]
    text = (
        "Name,E-Mail,Seat,Factor\n"
        "ana,ana@x.org,1,half\n"
        "bo,bo,1,0.5\n"
        "\n"
        "ana,,#REF!,300%\n"
        ",li@x.org,,+25 %\n"
    )
    assert _wrong(text) == [
        ("row 2, column D (factor)", "'half' is no factor from 1 to 4: write 1.5 or +50 %"),
        ("row 3, column D (factor)", "'0.5' is no factor from 1 to 4: write 1.5 or +50 %"),
        ("row 3, column B (email)", "'bo' is no e-mail address"),
        ("row 3 (seat)", "'1' stands in row 2 too; remove one of them"),
        ("row 5, column C (seat)",
         "#REF! is an error of the spreadsheet; mend the cell and export it again"),
        ("row 5 (person)", "'ana' stands in row 2 too; remove one of them"),
        ("row 6", "has an e-mail address but no name; write the name"),
    ]  # fmt: skip


def _wrong(data: str | bytes) -> list[tuple[str, str]]:
    with pytest.raises(errors.Invalid) as wrong:
        roster.read(data.encode() if isinstance(data, str) else data)
    assert wrong.value.reason == "BadRoster"
    return list(wrong.value.problems)


@pytest.mark.parametrize(
    ("data", "where", "told"),
    [
        (b"", "row 1", "is empty"),
        (b"\r\n;;\r\n", "row 1", "is empty"),
        (b"ana\nbo\n", "row 1", "no heading is known"),
        (b"name\n", "row 2", "names anybody"),
        (b'name\n"ana\n', "row 2", "quotation mark is not closed"),
        (b"PK\x03\x04...", "the file", "workbook"),
        (b"name\n\x00\x01\x02", "the file", "no text"),
        (b"name\n" + b"\x81", "the file", "no text"),
        (b"name\n" + b"x" * roster.BYTES_LIMIT, "the file", "at most 1048576"),
        (b"name\n" + b"\n" * roster.ROWS_LIMIT, "row 5001", "at most 5000"),
        (b"name\n" + b"x" * 255, "row 2, column A (person)", "at most 254"),
        (b'name\n"a\nb"', "row 2, column A (person)", "line break"),
        ("\n".join(["name", *map(str, range(SEATS_LIMIT + 1))]).encode(), "row 2", "at most 500"),
    ],
)
def test_what_is_no_roster_is_refused(data: bytes, where: str, told: str) -> None:
    """Limits and broken files have their words; nothing of them is read."""
    ((found, what),) = _wrong(data)
    assert found == where
    assert told in what


@given(st.binary(max_size=200))
def test_no_file_is_a_surprise(data: bytes) -> None:
    """Any bytes give a roster within its limits, or named mistakes."""
    told: tuple[tuple[str, str], ...] = ()
    seats: tuple[Seat, ...] = ()
    try:
        seats = roster.read(b"name;seat\n" + data).seats
    except errors.Invalid as error:
        told = error.problems
    assert bool(seats) is not bool(told)
    assert len(seats) <= SEATS_LIMIT
    assert all(each.person or each.name for each in seats)
