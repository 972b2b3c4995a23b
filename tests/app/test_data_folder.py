"""Nobody but the server reads its data, whoever made the folder and with which umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from labfleet.app import data_folder
from labfleet.kernel import errors


@pytest.fixture(autouse=True)
def mask() -> Iterator[None]:
    """Put the umask of this process back."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    """The rights on a file or folder."""
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_folder_and_what_is_written_there_is_the_owners_alone(tmp_path: Path) -> None:
    """Also the folders above it that had to be made, and files of libraries made later."""
    folder = tmp_path / "var" / "labfleet"
    data_folder.private(folder)
    (folder / "labfleet.db").touch()
    assert (mode(folder), mode(folder.parent)) == (0o700, 0o700)
    assert mode(folder / "labfleet.db") == 0o600


@pytest.mark.parametrize("given", [0o755, 0o750, 0o775, 0o777, 0o701])
def test_rights_that_others_had_are_taken_back(tmp_path: Path, given: int) -> None:
    """An installer's folder with a database of an earlier version in it, whatever the rights."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("labfleet.db", "labfleet.db-wal", "labfleet.worker-controller.lock", "server.log"):
        (folder / name).touch(mode=0o644)
    folder.chmod(given)
    data_folder.private(folder)
    assert mode(folder) == 0o700
    assert {mode(path) for path in folder.iterdir()} == {0o600}


@pytest.mark.parametrize(("given", "refused"), [(0o755, True), (0o770, False), (0o700, False)])
def test_another_s_folder_is_refused_when_everybody_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: int, *, refused: bool
) -> None:
    """The message has the command; a group's rights are how volumes come, and stay."""
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(given)

    def not_ours(path: Path, mode: int) -> None:
        raise PermissionError(f"{path} {mode}")

    monkeypatch.setattr(Path, "chmod", not_ours)
    if refused:
        with pytest.raises(errors.Invalid, match=f"chmod -R go-rwx {folder}"):
            data_folder.private(folder)
    else:
        data_folder.private(folder)


def test_other_people_s_files_and_their_folder_are_left_alone(tmp_path: Path) -> None:
    """Somebody's home given as the data folder: our database is closed, and nothing else."""
    for name in ("notes.txt", "labfleet.db"):
        (tmp_path / name).touch(mode=0o644)
    tmp_path.chmod(0o755)
    data_folder.private(tmp_path)
    assert mode(tmp_path) == 0o755
    assert mode(tmp_path / "notes.txt") == 0o644
    assert mode(tmp_path / "labfleet.db") == 0o600


@pytest.mark.parametrize(("given", "refused"), [(0o777, True), (0o1777, False)])
def test_a_folder_in_which_everybody_replaces_files_is_refused(
    tmp_path: Path, given: int, *, refused: bool
) -> None:
    """Anybody could put a database of their own there; /tmp, with its sticky bit, is no such one."""
    (tmp_path / "theirs").touch()
    tmp_path.chmod(given)
    if refused:
        with pytest.raises(errors.Invalid, match="a folder of its own"):
            data_folder.private(tmp_path)
    else:
        data_folder.private(tmp_path)
    assert mode(tmp_path) == given
