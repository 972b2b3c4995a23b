"""The folder of a local store: the owner's alone, also when somebody made it beforehand.

It holds owners' names, topologies and the hashes of tokens. systemd, installers and people make
folders that everybody can read, and SQLite makes its files as the folder's umask says.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from labfleet.kernel import errors

PRIVATE = 0o077
"""The mask under which the server runs, and the rights that nobody else may have."""
_OTHERS = 0o007


def private(folder: Path) -> None:
    """Make the folder, and take the rights of others on it and on its files.

    Raises Invalid with the command that mends it when the folder is another's and everybody may
    read it. Rights of a group on another's folder stay: that is how volumes are mounted.
    """
    os.umask(PRIVATE)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _close(folder, folder)
    for path in folder.iterdir():
        if path.is_file() and not path.is_symlink():
            _close(path, folder)


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
