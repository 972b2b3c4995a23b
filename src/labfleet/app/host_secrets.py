"""What secretRefs lead to: variables and files of this host, and of these only the allowed ones.

Who may make templates, workers and webhooks names both a secret and the address that it is sent to.
So a reference leads nowhere but to what the installation set apart for that: variables by name, files
in one folder.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Collection, Mapping
from pathlib import Path

from labfleet.kernel import errors
from labfleet.resources.meta import SecretRef

FOLDER = "/etc/labfleet/secrets"
VARIABLES = "LABFLEET_SECRET_*"
SECRET_LIMIT = 65536
"""Bytes of a file; a password, token or key has a few hundred."""

NOT_ALLOWED = "SecretNotAllowed"
"""Reason of a reference that is off the list; what is on it and cannot be read is `NoSecret`."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?")
# The server's own credentials, whatever a setting allows. With these an operator would become
# admin, or the AWS account's owner.
_OUR_VARIABLES = re.compile(r"AWS_.*|PG[A-Z]+|LABFLEET_(?:TOKEN|STORE)")
_OUR_TOKEN = re.compile(r"lf_[0-9a-f]{16}_\S{20,}")
# Not on every system; there a folder must be readable, not only searchable.
_SEARCH = getattr(os, "O_PATH", os.O_RDONLY)


def check(folder: str, variables: Collection[str], *, data: str) -> None:
    """Raise Invalid, naming the setting, when the allow-list would not be one."""
    place = Path(folder)
    if not place.is_absolute():
        raise errors.Invalid(f"settings: secrets_folder {folder!r} must be a full path")
    if place.resolve() in {Path("/"), *Path(data).resolve().parents, Path(data).resolve()}:
        message = f"settings: secrets_folder {folder} holds the data folder; give it its own folder"
        raise errors.Invalid(message)
    for name in variables:
        if not _NAME.fullmatch(name):
            message = f"settings: secrets_variables: {name!r} is neither NAME nor PREFIX*"
            raise errors.Invalid(message)


class HostSecrets:
    """Reads secretRefs from the environment and from files, at the moment of use.

    `folder` holds the files that may be named, `variables` are names and prefixes (`PREFIX*`).
    `reserved` and `reserved_files` are the server's own and are never given out.
    """

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        *,
        folder: str = FOLDER,
        variables: Collection[str] = (VARIABLES,),
        reserved: Collection[str] = (),
        reserved_files: Collection[str] = (),
    ) -> None:
        self._environment = os.environ if environment is None else environment
        self._folder = Path(folder)
        self._names = frozenset(each for each in variables if not each.endswith("*"))
        self._prefixes = tuple(each[:-1] for each in variables if each.endswith("*"))
        self._reserved = frozenset(reserved)
        self._reserved_files = tuple(reserved_files)

    def resolve(self, ref: SecretRef) -> str:
        """Return the value, without a trailing newline; Denied names only the reference."""
        value = self._file(ref.file) if ref.env is None else self._variable(ref.env)
        if _OUR_TOKEN.search(value):
            message = f"{ref.env or ref.file} holds a token of labfleet, which is no worker's"
            raise errors.Denied(message, reason=NOT_ALLOWED)
        return value

    def outside(self, ref: SecretRef) -> str | None:
        """Return why the reference is off the allow-list, with what to do; None when it is on it.

        What is not there is not outside. No file's content is read.
        """
        try:
            if ref.env is not None:
                self._allowed(ref.env)
            else:
                os.close(self._opened(ref.file or ""))
        except errors.Denied as problem:
            return problem.message if problem.reason == NOT_ALLOWED else None
        return None

    # --- variables ---------------------------------------------------------------------------

    def _variable(self, name: str) -> str:
        self._allowed(name)
        value = self._environment.get(name)
        if not value:
            raise errors.Denied(f"environment variable {name} is not set", reason="NoSecret")
        return value

    def _allowed(self, name: str) -> None:
        if name in self._reserved or _OUR_VARIABLES.fullmatch(name):
            message = f"variable {name} is the server's own: set the secret under another name"
            raise errors.Denied(message, reason=NOT_ALLOWED)
        if name not in self._names and not name.startswith(self._prefixes):
            message = (
                f"variable {name} is not for secrets: rename it to LABFLEET_SECRET_{name}, or name it "
                "in the server's setting secrets_variables"
            )
            raise errors.Denied(message, reason=NOT_ALLOWED)

    # --- files -------------------------------------------------------------------------------

    def _file(self, name: str | None) -> str:
        try:
            with os.fdopen(self._opened(name or ""), "rb") as file:
                content = file.read(SECRET_LIMIT + 1)
        except OSError as problem:
            raise _unreadable(name, problem) from None
        if len(content) > SECRET_LIMIT:  # it grew since it was opened
            raise _too_long(name)
        try:
            value = content.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise errors.Denied(f"secret file {name} is not UTF-8", reason="NoSecret") from None
        if not value:
            raise errors.Denied(f"secret file {name} is empty", reason="NoSecret")
        return value

    def _opened(self, name: str) -> int:
        """Return a descriptor of the file, opened after it was judged."""
        try:
            steps = self._steps(name)
            at = os.open(self._folder, _SEARCH | os.O_DIRECTORY)
            try:
                for step in steps[:-1]:
                    at, before = (
                        os.open(step, _SEARCH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at),
                        at,
                    )
                    os.close(before)
                _judge(name, os.stat(steps[-1], dir_fd=at, follow_symlinks=False))
                # A pipe that took its place meanwhile would hold up the server: never block.
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
                found = os.open(steps[-1], flags, dir_fd=at)
            finally:
                os.close(at)
            try:
                _judge(name, os.fstat(found))
            except BaseException:
                os.close(found)
                raise
        except (OSError, ValueError, RuntimeError) as problem:
            raise _unreadable(name, problem) from None
        return found

    def _steps(self, name: str) -> tuple[str, ...]:
        """Return the way from the folder to the file, all links followed; Denied when it leaves it.

        Links are followed here and nowhere after, so one that is changed meanwhile leads nowhere.
        """
        folder = self._folder.resolve()
        real = (self._folder / name).resolve()
        if real.is_symlink():  # from Python 3.13 on a loop is returned, before it was an error
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if real == folder or not real.is_relative_to(folder):
            message = (
                f"secret file {name} is not in {self._folder}: move it there, or name its folder in "
                "the server's setting secrets_folder"
            )
            raise errors.Denied(message, reason=NOT_ALLOWED)
        for own in self._reserved_files:
            if real.is_relative_to(Path(own).resolve()):
                message = f"secret file {name} is the server's own: keep it in another folder"
                raise errors.Denied(message, reason=NOT_ALLOWED)
        return real.relative_to(folder).parts


def _judge(name: str, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        message = f"secret file {name} is no regular file: put the secret into one"
        raise errors.Denied(message, reason=NOT_ALLOWED)
    if found.st_nlink != 1:
        message = (
            f"secret file {name} has {found.st_nlink} names (hard links), so it may be another "
            "program's file: copy it"
        )
        raise errors.Denied(message, reason=NOT_ALLOWED)
    if found.st_size > SECRET_LIMIT:
        raise _too_long(name)


def _too_long(name: str | None) -> errors.Denied:
    message = f"secret file {name} is longer than {SECRET_LIMIT} bytes: name the file of one secret"
    return errors.Denied(message, reason=NOT_ALLOWED)


def _unreadable(name: str | None, problem: Exception) -> errors.Denied:
    why = type(problem).__name__
    if isinstance(problem, FileNotFoundError):
        why = "there is no such file"
    elif isinstance(problem, PermissionError):
        why = "the server's user may not read it"
    return errors.Denied(f"cannot read secret file {name}: {why}", reason="NoSecret")
