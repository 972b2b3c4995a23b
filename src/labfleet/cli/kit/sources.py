"""Manifests from files, folders and stdin, all read and checked before anything is sent.

The rules of manifests are `resources.manifests`; this module finds the texts and puts the
topology of a `topologyFile` (relative to the manifest) in its place.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labfleet.cli.kit import exits, targets
from labfleet.kernel import errors
from labfleet.resources import manifests
from labfleet.resources.definition import TOPOLOGY_LIMIT
from labfleet.resources.meta import API_VERSION

FILES_LIMIT = 5000
SIZE_LIMIT = 8 << 20
_MARK = re.compile(r"---(\s|$)")
_LITERAL = re.compile(r":\s+\|[-+1-9]{0,2}\s*(\s#.*)?$")
"""The end of a line whose value follows line by line; a quoted or folded text has other lines."""
_ENDINGS = {".yaml", ".yml", ".json"}
_ORDER = (
    "Template", "Settings", "Cluster", "Definition", "Pool", "Worker", "Session", "Group",
    "Course", "Simulation",
)  # fmt: skip


@dataclass(frozen=True)
class Source:
    """One object as it was written: its target, its raw form, where it stands."""

    target: targets.Target
    raw: dict[str, Any]
    where: str
    file: str
    offset: int
    written: manifests.Written
    text: str
    folder: Path

    def place(self, dotted: str) -> str:
        """Return the file and line at which a field of the object stands."""
        return f"{self.file}: line {self.written.line_of(dotted) + self.offset}"

    def place_in_topology(self, line: int) -> str | None:
        """Return the file and line of a line of the topology; None when its text is folded in."""
        file = self.written.value_at("spec.topologyFile")
        if isinstance(file, str):
            return f"{self.folder / Path(file).expanduser()}: line {line}"
        key = self.written.line_of("spec.topology")
        lines, inner = self.text.split("\n"), str(self.raw["spec"].get("topology")).split("\n")
        if key + line > len(lines) or line > len(inner) or not _LITERAL.search(lines[key - 1]):
            return None
        return f"{self.file}: line {key + line + self.offset}"


def load(files: Sequence[str], *, recursive: bool) -> list[Source]:
    """Return every object of the files; Failure that lists all that is wrong with them.

    A folder may hold the topologies of its definitions: those files are no manifests.
    """
    found: list[Source] = []
    problems: list[tuple[str, str, Path | None]] = []
    named: set[Path] = set()
    for name, text, folder, listed in _texts(files, recursive=recursive):
        try:
            found += _objects(name, text, folder, named)
        except errors.Invalid as error:
            given = error.problems or (("", error.message),)
            file = Path(name).resolve() if listed else None
            problems += [
                (f"{name}: {where}" if where else name, what, file) for where, what in given
            ]
    # Only now is known which files of a folder the definitions name.
    wrong = [(where, what) for where, what, file in problems if file is None or file not in named]
    wrong += list(_twice(found))
    if wrong:
        raise _invalid(wrong)
    if not found:
        asked = ", ".join("stdin" if each == "-" else each for each in files)
        raise exits.usage(f"there is no object in {asked}")
    return found


def in_order(found: list[Source]) -> list[Source]:
    """Return the objects so that what others need comes first."""
    return sorted(found, key=lambda each: _place(each.target.kind.name))


def _place(kind: str) -> int:
    """Return a kind's place in the order of creation; kinds without dependencies come last."""
    return _ORDER.index(kind) if kind in _ORDER else len(_ORDER)


def _invalid(problems: list[tuple[str, str]]) -> exits.Failure:
    shown = [{"where": where, "what": what} for where, what in problems[:50]]
    return exits.Failure(
        exits.USAGE,
        "the manifests are not valid; nothing was sent",
        reason="Invalid",
        problem={"problems": shown},
    )


def _texts(files: Sequence[str], *, recursive: bool) -> Iterator[tuple[str, str, Path, bool]]:
    """Yield name, text and folder of each file, and whether it was found by listing a folder."""
    count = 0
    for given in files:
        if given == "-":
            yield "stdin", _stdin(), Path(), False
            continue
        path = Path(given)
        if not path.is_dir():
            yield given, _read(path, SIZE_LIMIT), path.parent, False
            continue
        walk = path.rglob("*") if recursive else path.iterdir()
        inside = sorted(each for each in walk if each.suffix in _ENDINGS and each.is_file())
        if not inside:
            raise exits.usage(f"the folder {given} holds no .yaml, .yml or .json file")
        for each in inside:
            count += 1
            if count > FILES_LIMIT:
                raise exits.usage(f"more than {FILES_LIMIT} files")
            yield str(each), _read(each, SIZE_LIMIT), each.parent, True


def _stdin() -> str:
    if sys.stdin is None or sys.stdin.closed:
        raise exits.usage("there is no stdin to read from")
    if sys.stdin.isatty():
        print("Reading manifests from the terminal; end with Ctrl-D.", file=sys.stderr)
    try:
        text = sys.stdin.read(SIZE_LIMIT + 1)
    except UnicodeDecodeError:
        raise exits.usage("stdin is not UTF-8 text") from None
    if len(text) > SIZE_LIMIT:
        raise exits.usage(f"stdin is larger than {SIZE_LIMIT} bytes")
    return text


def _read(path: Path, limit: int) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(limit + 1)
        if len(raw) > limit:
            raise exits.usage(f"{path} is larger than {limit} bytes")
        return raw.decode("utf-8")
    except OSError as error:
        raise exits.usage(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise exits.usage(f"{path} is not UTF-8 text") from None


def _twice(found: list[Source]) -> Iterator[tuple[str, str]]:
    seen: dict[tuple[str, str, str], str] = {}
    for each in found:
        space = str(each.raw["metadata"].get("namespace") or "")
        key = (each.target.kind.name, space, each.target.name)
        if key in seen:
            yield each.where, f"{each.target} was given before, in {seen[key]}"
        seen.setdefault(key, each.where)


def _objects(name: str, text: str, folder: Path, named: set[Path]) -> list[Source]:
    """Return a text's objects; each document is bounded, so that a long dump may be applied.

    The topology files that it names are added to `named`.
    """
    found: list[Source] = []
    problems: list[tuple[str, str]] = []
    for offset, part in _documents(text):
        try:
            made = manifests.written(part, name=name, topology_file=_fetch(folder, named))
        except errors.Invalid as error:
            problems += [(_moved(where, offset), what) for where, what in error.problems]
            continue
        found += [_source(each, name, offset, part, folder) for each in made]
    if problems:
        raise errors.Invalid(f"{name} is not valid", problems=tuple(problems))
    return found


def _documents(text: str) -> Iterator[tuple[int, str]]:
    """Split at the document markers, which YAML allows nowhere else at a line's start."""
    lines = text.splitlines(keepends=True)
    marks = [at for at, line in enumerate(lines) if _MARK.match(line)]
    if any(line.startswith("%") for line in lines):
        marks = []
    starts = sorted({0, *marks})
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield start, "".join(lines[start:end])


def _moved(where: str, offset: int) -> str:
    word, _, number = where.partition(" ")
    return f"line {int(number) + offset}" if word == "line" and number.isdecimal() else where


def _fetch(folder: Path, named: set[Path]) -> manifests.Fetch:
    def read(file: str) -> str:
        path = folder / Path(file).expanduser()
        named.add(path.resolve())
        try:
            return _read(path, TOPOLOGY_LIMIT)
        except exits.Failure as failure:
            raise errors.Invalid(failure.cause) from None

    return read


def _source(written: manifests.Written, file: str, offset: int, text: str, folder: Path) -> Source:
    """Return the object with just the fields that were written, in the API's spelling.

    Defaults are the server's: sending ours would take back what it or somebody else has set.
    """
    sent = {
        "apiVersion": API_VERSION, "kind": written.kind.name, "spec": {}, **written.raw,
    }  # fmt: skip
    where = f"{file}, line {written.line + offset}"
    namespace = written.raw["metadata"].get("namespace")
    target = targets.Target(written.kind, written.name, str(namespace) if namespace else None)
    return Source(target, sent, where, file, offset, written, text, folder)
