"""Every package has a door: a first line that says where to start, and a row in ARCHITECTURE."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
TABLE = re.compile(r"^\|.*\|$", re.MULTILINE)
LINK = re.compile(r"\]\((src/[^)#]+)\)")
NAMED = re.compile(r"`([a-z_][\w.]*)`")


def packages() -> list[Path]:
    """Every folder of the source that holds modules."""
    return sorted(path.parent for path in SOURCE.rglob("__init__.py"))


def linked() -> set[Path]:
    """The files that the table of doors leads to."""
    rows = "\n".join(TABLE.findall((ROOT / "ARCHITECTURE.md").read_text()))
    return {ROOT / link for link in LINK.findall(rows)}


def named(package: Path) -> list[Path]:
    """The modules of a package that its first lines name."""
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    places = [package.joinpath(*name.split(".")) for name in NAMED.findall(text)]
    # `time.sleep`-like names of things inside a module: the module is what is named.
    places += [place.parent for place in places if place.parent != package]
    return [place.with_suffix(".py") for place in places if place.with_suffix(".py").is_file()]


PACKAGES = packages()
NAMES = [str(path.relative_to(SOURCE)) for path in PACKAGES]


@pytest.mark.parametrize("package", PACKAGES, ids=NAMES)
def test_a_package_says_where_to_start(package: Path) -> None:
    """Its docstring names a module to read first, which exists in it."""
    assert named(package), f"name a module of {package.name} in backticks: Start at `...`"


@pytest.mark.parametrize("package", PACKAGES, ids=NAMES)
def test_a_package_has_a_row_in_the_table_of_doors(package: Path) -> None:
    """ARCHITECTURE.md leads to at least one file in or below it."""
    assert any(package in file.parents or file == package for file in linked())


def test_the_table_leads_to_what_is_there() -> None:
    """No row leads to a file that was moved or renamed."""
    assert [str(path) for path in linked() if not path.exists()] == []
