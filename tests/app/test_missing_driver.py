"""A PostgreSQL URL where psycopg is not installed: one sentence, before anything is started."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from labfleet.app import maintenance
from labfleet.app.demo import command as demo
from labfleet.app.main import main as server
from labfleet.kernel import errors
from labfleet.stores import opening

URL = "postgresql://nobody@127.0.0.1:9/none"


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """No psycopg, as in an installation without the extra."""
    for name in [each for each in sys.modules if each.split(".")[0] == "psycopg"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for name in [each for each in sys.modules if each.startswith("labfleet.stores.postgres")]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.usefixtures("no_driver")
@pytest.mark.parametrize(
    ("program", "words"),
    [
        (server, []),
        (demo.main, []),
        (maintenance.main, ["backup", "copy"]),
        (maintenance.main, ["restore", "copy"]),
    ],
)
def test_a_missing_driver_is_told_with_the_pip_line(
    program: Callable[[Sequence[str]], int],
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 1, one line with what to type, and no folder is made."""
    monkeypatch.chdir(tmp_path)
    assert program([*words, "--data", "never-made", "--store", URL]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("Error: PostgreSQL needs psycopg (")
    assert said.endswith("): pip install 'labfleet[postgres]'\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", [URL, "sqlite:///labfleet.db"])
def test_a_store_that_can_be_opened_passes(url: str) -> None:
    """The check connects to nothing: whether a server answers shows when it is opened."""
    opening.check(url)


def test_a_url_that_nobody_knows_is_told_at_once() -> None:
    """An unknown scheme ends a program before it starts anything."""
    with pytest.raises(errors.Permanent, match="no store is known"):
        opening.check("mysql://somewhere")
