"""A roster of people as spreadsheets really write it, read into the seats of a group.

Pure. Encodings, separators, blank and repeated headings are taken as they come; what cannot be
understood is named by row and column, all of it at once, in the words of a spreadsheet.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from labfleet.kernel import errors, spreadsheet
from labfleet.resources.group import SEATS_LIMIT, Seat
from labfleet.resources.session import FACTOR_LIMIT

BYTES_LIMIT = 1024 * 1024
"""Bytes of a roster: 500 people with many columns of other things take less."""
ROWS_LIMIT = 5000
"""Rows of a roster, blank ones included."""
COLUMNS_LIMIT = 100
PROBLEMS_KEPT = 50
_SEPARATORS = (";", ",", "\t", "|")
_WORDS = {
    "login": ("username", "user", "login", "account", "userid", "benutzername", "utilisateur"),
    "person": (
        "name", "person", "student", "studentname", "fullname", "participant", "candidate",
        "candidatename", "teilnehmer", "teilnehmerin", "nom", "nombre", "nome", "etudiant",
    ),
    "first": ("firstname", "givenname", "forename", "vorname", "prenom", "imie"),
    "last": ("lastname", "surname", "familyname", "nachname", "nazwisko", "apellido", "apellidos"),
    "email": (
        "email", "mail", "emailaddress", "mailaddress", "emailadresse", "adresseemail", "correo",
    ),
    "seat": ("seat", "seatnumber", "seatno", "seatname", "place", "desk", "platz"),
    "factor": ("factor", "timefactor", "extratime", "timeextension", "faktor", "zeitfaktor"),
}  # fmt: skip
"""The headings that are known, without case, accents, spaces and signs."""
_FIELDS = {word: name for name, words in _WORDS.items() for word in words}
_BROKEN = re.compile(r"#(REF|N/A|NAME|VALUE|DIV/0|NULL|NUM)[!?]?", re.IGNORECASE)
_PERCENT = re.compile(r"(\+?)\s*(\d{1,3}(?:[.,]\d{1,3})?)\s*%")
_NUMBER = re.compile(r"\d(?:[.,]\d{1,3})?")
_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+")
_EXAMPLE = "name, e-mail, seat and factor"


@dataclass(frozen=True, slots=True)
class Roster:
    """The seats of a roster, how its text was read, and the columns that were left out."""

    seats: tuple[Seat, ...]
    encoding: str
    ignored: tuple[str, ...] = ()


@dataclass(slots=True)
class _Reading:
    """What was understood so far, and what was not."""

    problems: list[tuple[str, str]] = field(default_factory=list)
    seats: list[Seat] = field(default_factory=list)
    known: dict[tuple[str, str], int] = field(default_factory=dict)

    def wrong(self, row: int, what: str, column: int | None = None, name: str = "") -> None:
        """Note a mistake at a row, or at a cell of it."""
        cell = "" if column is None else f", column {_letters(column)}"
        self.problems.append((f"row {row}{cell}{f' ({name})' if name else ''}", what))


def read(data: bytes) -> Roster:
    """Return the seats that a roster names, in its order; Invalid (BadRoster) names all mistakes.

    One person, address or seat stands there once. A person without a name has their address for
    one; a row without a person is a seat that nobody has yet.
    """
    text, encoding = _text(data)
    rows = _rows(text)
    heading = next((number for number, cells in enumerate(rows) if any(cells)), None)
    if heading is None:
        raise _bad([("row 1", f"the roster is empty; give headings such as {_EXAMPLE}")])
    reading = _Reading()
    columns, ignored = _columns(rows[heading], heading + 1, reading)
    if not reading.problems:
        words = [_word(each) for each in rows[heading]]
        for number, cells in enumerate(rows[heading + 1 :], start=heading + 2):
            bare = [_word(each) for each in cells]
            if any(cells) and bare[: len(words)] != words:
                _row(number, cells, columns, reading)
        if not reading.seats and not reading.problems:
            reading.wrong(heading + 2, "no row below the headings names anybody")
        if len(reading.seats) > SEATS_LIMIT:
            what = f"{len(reading.seats)} seats; a group has at most {SEATS_LIMIT}: book two groups"
            reading.wrong(heading + 2, what)
    if reading.problems:
        raise _bad(reading.problems)
    return Roster(tuple(reading.seats), encoding, ignored)


def _bad(problems: Sequence[tuple[str, str]]) -> errors.Invalid:
    shown = tuple(problems[:PROBLEMS_KEPT])
    more = len(problems) - len(shown)
    if more > 0:
        shown = (*shown, ("further rows", f"{more} more mistakes"))
    message = "the roster cannot be read; nothing was booked"
    return errors.Invalid(message, reason="BadRoster", problems=shown)


def _text(data: bytes) -> tuple[str, str]:
    """Return the text of a file and how it was read."""
    if len(data) > BYTES_LIMIT:
        what = (
            f"has {len(data)} bytes, at most {BYTES_LIMIT} are read; export that one sheet as CSV"
        )
        raise _bad([("the file", what)])
    if data[:4] == b"PK\x03\x04":
        raise _bad(
            [("the file", "is a workbook (.xlsx or .ods), not CSV: export the sheet as CSV")]
        )
    for mark, encoding in (
        (b"\xef\xbb\xbf", "utf-8"),
        (b"\xff\xfe", "utf-16-le"),
        (b"\xfe\xff", "utf-16-be"),
    ):
        if data.startswith(mark):
            return _decoded(data.removeprefix(mark), encoding), encoding
    # Without a mark: every other byte of Latin text in UTF-16 is 0, and none of UTF-8.
    wide = 3 * data.count(0) >= max(1, len(data))
    for encoding in ("utf-16-le", "utf-16-be") if wide else ("utf-8",):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            return text, encoding
    return _decoded(data, "windows-1252"), "windows-1252"


def _decoded(data: bytes, encoding: str) -> str:
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        what = f"is no text that a spreadsheet writes (read as {encoding}): export it as CSV UTF-8"
        raise _bad([("the file", what)])
    return text


def _rows(text: str) -> list[list[str]]:
    """Return the cells of all rows, without blanks around them and at their ends."""
    first = re.match(r"sep=(.)\r?\n", text, re.IGNORECASE)
    separator = first[1] if first else _separator(text)
    rows = list[list[str]]()
    lines = io.StringIO(text[first.end() :] if first else text, newline="")
    reader = csv.reader(lines, delimiter=separator, strict=True)
    try:
        for cells in reader:
            if len(rows) >= ROWS_LIMIT:
                raise _bad([(f"row {ROWS_LIMIT + 1}", f"at most {ROWS_LIMIT} rows are read")])
            bare = [_clean(each) for each in cells]
            while bare and not bare[-1]:
                bare.pop()
            rows.append(bare)
    except csv.Error as problem:
        said = str(problem)
        quotes = '"' in said or "unexpected end" in said
        what = "a quotation mark is not closed, or stands inside a cell" if quotes else said[:200]
        raise _bad([(f"row {len(rows) + 1}", f"is no row of CSV: {what}")]) from None
    return rows


def _separator(text: str) -> str:
    """Return what separates the cells of the first row that says anything, outside of quotes."""
    line = next((each for each in text.splitlines() if each.strip(" ;,\t|")), "")
    bare = re.sub(r'"[^"]*"', "", line)
    return max(_SEPARATORS, key=lambda each: (bare.count(each), -_SEPARATORS.index(each)))


def _clean(cell: str) -> str:
    """Return a cell's text: composed, without blanks around it and the mark of text before it."""
    bare = unicodedata.normalize("NFC", cell.replace("\N{NO-BREAK SPACE}", " ")).strip()
    told = bare[1:]
    # An apostrophe marks text that would be computed; elsewhere it is part of a name.
    return told.strip() if bare[:1] == "'" and spreadsheet.cell(told) != told else bare


def _word(heading: str) -> str:
    """Return a heading as it is looked up: `E-Mail Adresse` and `e_mail adresse` are one."""
    plain = unicodedata.normalize("NFKD", heading.casefold())
    return "".join(each for each in plain if each.isalnum())


def _columns(
    cells: Sequence[str], row: int, reading: _Reading
) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return which column is which field, and the headings that are none."""
    found, ignored = dict[str, int](), list[str]()
    if len(cells) > COLUMNS_LIMIT:
        reading.wrong(row, f"{len(cells)} columns; at most {COLUMNS_LIMIT} are read")
        return found, ()
    for column, cell in enumerate(cells):
        name = _FIELDS.get(_word(cell))
        if name is None:
            ignored += [cell[:64]] if cell else []
        elif name in found:
            what = f"column {_letters(found[name])} has that heading too; rename one of them"
            reading.wrong(row, what, column, cell[:64])
        else:
            found[name] = column
    if not found:
        what = f"no heading is known here; write headings such as {_EXAMPLE} above the people"
        reading.wrong(row, what)
    if "login" in found and "person" in found:
        ignored.append(cells[found.pop("person")][:64])
    return found, tuple(ignored)


def _row(number: int, cells: Sequence[str], columns: Mapping[str, int], reading: _Reading) -> None:
    """Read one row into a seat, or note what is wrong with it."""
    before = len(reading.problems)
    width = max(columns.values()) + 1
    given = {name: cells[at] for name, at in columns.items() if at < len(cells) and cells[at]}
    for name, text in given.items():
        for what in _strange(text, 64 if name == "seat" else 254):
            reading.wrong(number, what, columns[name], name)
    if len(cells) > max(width, COLUMNS_LIMIT):
        reading.wrong(number, f"{len(cells)} cells; at most {COLUMNS_LIMIT} are read")
    factor = _factor(given.get("factor", ""))
    if factor is None:
        what = (
            f"{given['factor'][:40]!r} is no factor from 1 to {FACTOR_LIMIT:g}: write 1.5 or +50 %"
        )
        reading.wrong(number, what, columns["factor"], "factor")
    email = given.get("email", "")
    if email and not _ADDRESS.fullmatch(email):
        reading.wrong(number, f"{email[:60]!r} is no e-mail address", columns["email"], "email")
    person = _person(given, columns)
    if email and not person:
        reading.wrong(number, "has an e-mail address but no name; write the name")
    for name, text in (
        ("person", person),
        ("email", email.casefold()),
        ("seat", given.get("seat", "")),
    ):
        if text and reading.known.setdefault((name, text), number) != number:
            what = (
                f"{text[:60]!r} stands in row {reading.known[name, text]} too; remove one of them"
            )
            reading.wrong(number, what, None, name)
    if len(reading.problems) > before:
        return
    if not given:
        return
    made = Seat(name=given.get("seat", ""), person=person, email=email, factor=factor or 1.0)
    reading.seats.append(made)


def _person(given: Mapping[str, str], columns: Mapping[str, int]) -> str:
    """Return the person of a row by the first of login, name, both names, and the address."""
    if "login" in columns or "person" in columns:
        return given.get("login") or given.get("person") or ""
    if "first" in columns or "last" in columns:
        return " ".join(given[each] for each in ("first", "last") if each in given)
    return given.get("email", "")


def _strange(text: str, most: int) -> Iterator[str]:
    if len(text) > most:
        yield f"has {len(text)} characters; at most {most} are read"
    elif _BROKEN.fullmatch(text):
        yield f"{text} is an error of the spreadsheet; mend the cell and export it again"
    elif not text.isprintable():
        yield "holds a line break or a control character; write it on one line"


def _factor(text: str) -> float | None:
    """Return the factor of a cell: 1.5, 1,5, 150 % or +50 %; None when it is none."""
    if not text:
        return 1.0
    percent = _PERCENT.fullmatch(text)
    if percent is not None:
        share = float(percent[2].replace(",", ".")) / 100
        found = 1 + share if percent[1] else share
    elif _NUMBER.fullmatch(text):
        found = float(text.replace(",", "."))
    else:
        return None
    return round(found, 3) if 1 <= found <= FACTOR_LIMIT else None


def _letters(column: int) -> str:
    """Return a column's letters, as a spreadsheet counts: A, B, …, AA."""
    letters = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters
