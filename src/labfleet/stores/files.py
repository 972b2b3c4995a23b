"""Files that appear whole or not at all, and never in place of another."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from labfleet.kernel import errors


@contextmanager
def file_errors(doing: str) -> Iterator[None]:
    """Raise kernel errors in place of the operating system's, saying what was being done."""
    try:
        yield
    except OSError as error:
        message = f"cannot {doing}: {error.strerror or error}"
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise errors.OutOfCapacity(f"{message}; nothing was left behind") from error
        raise errors.Permanent(message, reason="StoreNotWritable") from error


def refuse_existing(path: Path) -> None:
    """Raise Permanent when something is there already."""
    if path.exists():
        message = f"{path} exists already and is not overwritten; name a new file"
        raise errors.Permanent(message, reason="TargetExists")


def publish(partial: Path, path: Path) -> int:
    """Give a complete file its name, durably, and only if the name is free; return its bytes."""
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    try:
        os.link(partial, path)
    except FileExistsError:
        refuse_existing(path)
        raise
    partial.unlink()
    folder = os.open(path.parent, os.O_RDONLY)
    with suppress(OSError):
        os.fsync(folder)
    os.close(folder)
    return path.stat().st_size
