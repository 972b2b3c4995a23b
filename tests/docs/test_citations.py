"""What code, tests and texts cite stands in the repository: pages, anchors, codes, seeds.

`test_examples` checks Markdown links; here it is names in any tracked text. A citation of a fact is
`facts/PAGE#ANCHOR`, seen from docs/; further anchors of the same page may follow it.
"""

from __future__ import annotations

import io
import re
import subprocess
import tokenize
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TEXTS = {".py", ".md", ".html", ".js", ".css", ".yaml", ".yml", ".sql", ".sh", ".toml"}
BARE = {"Makefile", "run"}
PAGE = re.compile(
    r"(?<![\w/.{*-])((?:[\w.-]+/)*[\w-]+\.md)(?![\w*])(#[\w-]+)?((?:,? (?:and |to )?#[a-z][\w-]*)*)"
)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
MARK = re.compile(r'<a id="([^"]+)">')
LABEL = re.compile(r"\[[^\]]*\]\(")
PIECE = re.compile(r"([\"'])[\w.-]+\.md\1")
# Codes of rows, the page that holds the row, and its anchor there.
ROWS = (
    (re.compile(r"\bF(\d{1,2})\b"), "facts/cml-issues.md", "f{}"),
    (re.compile(r"\bT(\d\d)\b"), "facts/fleet-bugs.md", "t{}"),
    (re.compile(r"\b[Cc]ases? (\d{1,2})\b"), "facts/aws-bugs.md", "case-{}"),
)
# What a clone does not have: parts of a plan, sections of studies, records of other systems.
GONE = re.compile(r"\b[Pp]arts? \d+\b|\bissue part\b|\b[Ss]ections? \d[\d.]*|\bADR-\d+|§ ?\d")
# A standard's sections are outside for everybody; upstream's records stand where their gist is told.
OUTSIDE = re.compile(r"RFC \d+,? section [\d.]+")
UPSTREAM = "docs/facts/upstream.md"
NUMBERED = re.compile(r"\b[Uu]pstreams? (0\d\d)\b(?:(?: and|,) (0\d\d)\b)?")
THIS = "tests/docs/test_citations.py"


@cache
def texts() -> dict[str, str]:
    """Every tracked text by its path."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    found = {}
    for name in filter(None, listed):
        path = ROOT / name
        if (path.suffix in TEXTS or path.name in BARE) and path.is_file() and not path.is_symlink():
            found[name] = path.read_text(encoding="utf-8")
    return found


def slug(heading: str) -> str:
    """Return the anchor that a heading gets: lower case, blanks to hyphens, signs dropped."""
    plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors of a page: its headings' and the marks of its rows."""
    text = re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    return frozenset([*map(slug, HEADING.findall(text)), *MARK.findall(text)])


def led(name: str, page: str) -> Path | None:
    """Return the tracked file that a name of a page in this file means, or None."""
    here = (ROOT / name).parent
    for folder in (ROOT, DOCS, here):
        found = (folder / page).resolve()
        if found.is_relative_to(ROOT) and str(found.relative_to(ROOT)) in texts():
            return found
    return None


@cache
def prose(name: str, text: str) -> str:
    """Return what people read of a file: of Python the comments and strings, else all of it."""
    if not name.endswith(".py"):
        return text
    told = (tokenize.COMMENT, tokenize.STRING)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return "\n".join(token.string for token in tokens if token.type in told)


def dead(name: str, text: str) -> list[str]:
    """Return the citations of a text that lead nowhere."""
    wrong = []
    # A label only shows what its link leads to; a quoted name is a piece of a path that code opens.
    plain = LABEL.sub("(", PIECE.sub("", text))
    for page, first, more in PAGE.findall(plain):
        found = led(name, page)
        if found is None:
            wrong.append(page)
            continue
        wanted = re.findall(r"#([\w-]+)", first + more)
        wrong += [f"{page}#{each}" for each in wanted if each not in anchors(found)]
    return wrong


def lost(name: str, text: str) -> list[str]:
    """Return the bare codes whose row is missing, or whose page the file does not name."""
    wrong: list[str] = []
    if name.endswith(".toml"):  # ruff has rules of such names
        return wrong
    told = prose(name, text)
    for code, page, form in ROWS:
        known = anchors(DOCS / page)
        named = page in text or name == f"docs/{page}" or f"]({Path(page).name}" in text
        for found in code.finditer(told):
            if not named or form.format(found.group(1)) not in known:
                wrong.append(found.group(0))
    return wrong


def gone(name: str, text: str) -> list[str]:
    """Return remarks that speak of texts which no clone has."""
    told = OUTSIDE.sub("", prose(name, text))
    found = [match.group(0) for match in GONE.finditer(told)]
    return [each for each in found if name != UPSTREAM or not each.startswith("ADR")]


def everywhere(check: Callable[[str, str], list[str]]) -> dict[str, list[str]]:
    """Return what a check finds, by file; this file shows the forms and is left out."""
    found = {name: check(name, text) for name, text in texts().items() if name != THIS}
    return {name: wrong for name, wrong in found.items() if wrong}


def test_every_named_page_and_anchor_exists() -> None:
    """A name that ends in .md is a tracked file, and what follows # is one of its anchors."""
    assert everywhere(dead) == {}


def test_every_code_has_its_row_and_its_page() -> None:
    """F33, T20 and case 12 are rows of a page of facts, and the file names that page."""
    assert everywhere(lost) == {}


def test_nothing_speaks_of_what_no_clone_has() -> None:
    """No text cites parts of a plan, sections of a study or records of another system."""
    assert everywhere(gone) == {}


def test_every_upstream_text_is_explained() -> None:
    """Each upstream text that is named is a row of the page that says what they are."""
    known = anchors(ROOT / UPSTREAM)
    named = {
        number
        for name, text in texts().items()
        for numbers in NUMBERED.findall(prose(name, text))
        for number in filter(None, numbers)
    }
    assert named
    assert {f"upstream-{number}" for number in named} <= known


@pytest.mark.parametrize(
    ("check", "text", "wrong"),
    [
        (dead, "see facts/none.md", ["facts/none.md"]),
        (dead, "facts/aws.md#ownership and #nothing", ["facts/aws.md#nothing"]),
        (dead, "docs/facts/aws.md#ownership, #idle", []),
        (dead, "`aws.md` 7.1", ["aws.md"]),
        (lost, "a breaker (F24)", ["F24"]),
        (lost, "F24 and F99 of facts/cml-issues.md", ["F99"]),
        (lost, "facts/aws-bugs.md: case 12", []),
        (gone, "the rest is part 5, by section 7.1", ["part 5", "section 7.1"]),
        (gone, "RFC 6455 section 1.3", []),
    ],
)
def test_the_checks_find_what_they_are_for(
    check: Callable[[str, str], list[str]], text: str, wrong: list[str]
) -> None:
    """Each form of a dead citation is found, and a good one is let by."""
    assert check("a/b.md", text) == wrong
