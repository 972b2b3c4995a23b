"""Reading a store that others use, or that is none, for a what-if."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from labfleet.kernel import errors
from labfleet.stores import opening, sqlite_files
from labfleet.stores.sqlite import SqliteDatabase


def test_a_recording_is_read_and_nothing_is_made(tmp_path: Path) -> None:
    """An empty store gives no events; a path without a store makes no file."""
    path = tmp_path / "labfleet.db"
    opened = SqliteDatabase(str(path), epoch="e1", readers=1)
    try:
        assert list(opening.recorded(f"sqlite:///{path}")) == []
    finally:
        opened.close()
    missing = tmp_path / "none.db"
    with pytest.raises(errors.Gone, match="no store file"):
        list(opening.recorded(f"sqlite:///{missing}"))
    assert not missing.exists()


def _store(path: Path) -> None:
    """Leave a store behind as a server that was stopped does: one file, no log."""
    opened = SqliteDatabase(str(path), epoch="e1", readers=1)
    opened.close()


def test_reading_leaves_nothing_beside_a_store_that_nobody_has_open(tmp_path: Path) -> None:
    """No log and no shared memory are made, so a folder may even be read-only."""
    path = tmp_path / "labfleet.db"
    _store(path)
    assert list(opening.recorded(f"sqlite:///{path}")) == []
    assert [each.name for each in tmp_path.iterdir()] == ["labfleet.db"]


def test_a_server_that_comes_while_a_store_is_read_is_noticed(tmp_path: Path) -> None:
    """What is read without SQLite's locks is not given out once somebody may have written."""
    path = tmp_path / "labfleet.db"
    _store(path)
    reading = sqlite_files.recorded(str(path), "SELECT 0, 0, 0, 1 LIMIT ? * 0 + ?", 0, 1)
    assert next(reading)[3] == 1
    (tmp_path / "labfleet.db-wal").touch()
    with pytest.raises(errors.Temporary, match="read it again"):
        next(reading)


def test_a_link_to_a_store_in_use_is_read_with_its_log(tmp_path: Path) -> None:
    """SQLite keeps its log beside the file itself: what is only in the log is read too."""
    path, link = tmp_path / "labfleet.db", tmp_path / "elsewhere" / "link.db"
    opened = SqliteDatabase(str(path), epoch="e1", readers=1)
    link.parent.mkdir()
    link.symlink_to(path)
    writer = sqlite3.connect(path, isolation_level=None)
    try:
        writer.execute("CREATE TABLE rows (number INTEGER)")
        writer.execute("INSERT INTO rows VALUES (7)")
        paged = "SELECT 0, 0, 0, number FROM rows WHERE number > ? LIMIT ?"
        assert [row[3] for row in sqlite_files.recorded(str(link), paged, 0, 10)] == [7]
    finally:
        writer.close()
        opened.close()


@pytest.mark.parametrize("text", [b"hello", b"SQLite format 3\0"])
def test_what_is_no_store_is_said(tmp_path: Path, text: bytes) -> None:
    """A file of something else is refused with a sentence."""
    path = tmp_path / "odd.db"
    path.write_bytes(text)
    with pytest.raises(errors.LabfleetError):
        list(opening.recorded(f"sqlite:///{path}"))


def test_an_unknown_url_is_refused() -> None:
    """Only SQLite and PostgreSQL have recordings."""
    with pytest.raises(errors.Permanent):
        list(opening.recorded("http://127.0.0.1:8080"))
