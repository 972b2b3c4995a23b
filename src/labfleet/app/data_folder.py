"""The folder of a local store: the owner's alone, also when somebody made it beforehand.

It holds owners' names, topologies and the hashes of tokens. systemd, installers and people make
folders that everybody can read, and SQLite makes its files as the folder's umask says.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from labfleet.kernel import errors

PRIVATE = 0o077
"""The mask under which the server runs, and the rights that nobody else may have."""
_OTHERS = 0o007
OURS = re.compile(r"labfleet\.(db(-wal|-shm)?|[a-z-]+\.lock)|admin\.token|[a-z-]+\.log")
"""What the server and the demo write into it."""


def private(folder: Path) -> None:
    """Make the folder, and take the rights of others on it and on our files in it.

    A folder with other people's files in it (somebody's home, /tmp) is left as it is, and only our
    files are closed. Raises Invalid with the command that mends it when the folder is another's and
    everybody may read it, or when everybody may put files into it. Rights of a group on another's
    folder stay: that is how volumes are mounted.
    """
    os.umask(PRIVATE)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    inside = list(folder.iterdir())
    ours = [path for path in inside if OURS.fullmatch(path.name) and not path.is_symlink()]
    if len(ours) == len(inside):
        _close(folder, folder)
    elif _anybody_s(folder):
        message = f"everybody can put files into {folder}: give --data a folder of its own"
        raise errors.Invalid(message, reason="FolderOpen")
    for path in ours:
        if path.is_file():
            _close(path, folder)


def _anybody_s(folder: Path) -> bool:
    """Tell whether everybody may replace files here; where the sticky bit is set, only their own."""
    mode = folder.stat().st_mode
    return bool(mode & stat.S_IWOTH) and not mode & stat.S_ISVTX


def _close(path: Path, folder: Path) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    if not mode & PRIVATE:
        return
    try:
        path.chmod(mode & ~PRIVATE)
    except OSError:
        if mode & _OTHERS:
            message = f"everybody can read {path}, which is not ours: chmod -R go-rwx {folder}"
            raise errors.Invalid(message, reason="FolderOpen") from None
