"""Manifests from files, folders and stdin, all read and checked before anything is sent.

The rules of manifests are `resources.manifests`; this module finds the texts and puts the
topology of a `topologyFile` (relative to the manifest) in its place.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labfleet.cli import exits, targets
from labfleet.kernel import errors
from labfleet.resources import documents, kinds

FILES_LIMIT = 5000
SIZE_LIMIT = 8 << 20
_LIMITS = documents.Limits(size=SIZE_LIMIT, characters=4 * SIZE_LIMIT, nodes=500_000)
_ENDINGS = {".yaml", ".yml", ".json"}
_ORDER = ("Template", "Cluster", "Definition", "Pool", "Worker", "Session", "Simulation")


@dataclass(frozen=True)
class Source:
    """One object as it was written: its target, its raw form, where it stands."""

    target: targets.Target
    raw: dict[str, Any]
    where: str


def load(files: Sequence[str], *, recursive: bool) -> list[Source]:
    """Return every object of the files; Failure that lists all that is wrong with them."""
    found: list[Source] = []
    problems: list[tuple[str, str]] = []
    for name, text, folder in _texts(files, recursive=recursive):
        try:
            found += _objects(name, text, folder)
        except errors.Invalid as error:
            given = error.problems or (("", error.message),)
            problems += [(f"{name}: {where}" if where else name, what) for where, what in given]
    problems += list(_twice(found))
    if problems:
        raise _invalid(problems)
    if not found:
        raise exits.usage("there is no object in " + ", ".join(files))
    return found


def in_order(found: list[Source]) -> list[Source]:
    """Return the objects so that what others need comes first."""
    return sorted(found, key=lambda each: _ORDER.index(each.target.kind.name))


def _invalid(problems: list[tuple[str, str]]) -> exits.Failure:
    shown = [{"where": where, "what": what} for where, what in problems[:50]]
    return exits.Failure(
        exits.USAGE,
        "the manifests are not valid; nothing was sent",
        reason="Invalid",
        problem={"problems": shown},
    )


def _texts(files: Sequence[str], *, recursive: bool) -> Iterator[tuple[str, str, Path]]:
    count = 0
    for given in files:
        if given == "-":
            yield "stdin", _stdin(), Path.cwd()
            continue
        path = Path(given)
        if not path.is_dir():
            yield given, _read(path, SIZE_LIMIT), path.parent
            continue
        walk = path.rglob("*") if recursive else path.iterdir()
        inside = sorted(each for each in walk if each.suffix in _ENDINGS and each.is_file())
        if not inside:
            raise exits.usage(f"the folder {given} holds no .yaml, .yml or .json file")
        for each in inside:
            count += 1
            if count > FILES_LIMIT:
                raise exits.usage(f"more than {FILES_LIMIT} files")
            yield str(each), _read(each, SIZE_LIMIT), each.parent


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


def _objects(name: str, text: str, folder: Path) -> Iterator[Source]:
    for document in documents.read(text, name=name, limits=_LIMITS):
        value = document.value
        listed = isinstance(value, dict) and value.get("kind") == "List"
        for raw in (value.get("items") or []) if listed else [value]:
            yield _object(raw, f"{name}, line {document.line}", folder)


def _object(raw: Any, where: str, folder: Path) -> Source:
    if not isinstance(raw, dict) or not isinstance(raw.get("kind"), str):
        raise errors.Invalid("", problems=((where, "an object with kind, metadata and spec"),))
    row = kinds.by_word(raw["kind"])
    return Source(targets.Target(row, str(raw["metadata"]["name"])), raw, where)
