"""Manifests: YAML or JSON text with one or many objects, as `labfleet apply -f` takes them.

Turns text into typed objects or into one errors.Invalid that names every document's mistake
with its line. Reads no files: a Definition's `topologyFile` is fetched by the function that
the caller hands in. What the server alone writes (status, uid, versions) is dropped from an object
that `labfleet get -o yaml` printed, whatever name it has got since, and refused in another.

`load` judges whole objects. `written` is for who sends them to a server, which has defaults of its
own: it checks the language of manifests, and leaves to the server what an object lacks.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from labfleet.kernel import errors, ids
from labfleet.resources import amounts, documents, shape_words, spellings
from labfleet.resources.documents import Document, Path
from labfleet.resources.kinds import KINDS, Kind
from labfleet.resources.meta import API_VERSION, Resource

PROBLEMS_KEPT = 50
SERVER_FIELDS = (
    "uid", "generation", "resourceVersion", "finalizers", "ownerReferences",
    "creationTimestamp", "deletionTimestamp",
)  # fmt: skip
_PRINTED = ("uid", "resourceVersion", "creationTimestamp")
_FRIENDLY = ("cpu", "memory", "storage", "network")
_FRIENDLY_KEYS: dict[str | int, str] = {
    "cpuMilli": "cpu", "memoryMib": "memory", "storageMib": "storage", "networkKbps": "network",
    "topology": "topologyFile",
}  # fmt: skip
"""What the API calls a field -> how people may have written it."""
_MISSING = "Object missing required field"
_AT = re.compile(r"(.*?) - at `(?:key in )?\$(.*)`", re.DOTALL)
_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\[(\d+)\]")

Fetch = Callable[[str], str]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a text: where it stood, what it is, and what of it was dropped."""

    kind: str
    object: Resource
    document: int
    line: int
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """One object with just what was written, in the API's spelling, and where it stood."""

    kind: Kind
    name: str
    raw: dict[str, Any]
    document: Document
    path: Path
    dropped: tuple[str, ...] = ()

    @property
    def line(self) -> int:
        """Return the line at which the object begins."""
        return self.document.line_of(self.path)

    def line_of(self, dotted: str) -> int:
        """Return the line of a field by its path, or of the nearest part around it that is there."""
        asked: Path = tuple(step or int(number) for step, number in _STEP.findall(f".{dotted}"))
        value: Any = self.document.value
        steps: list[str | int] = []
        for step in (*self.path, *asked):
            inside = isinstance(value, dict) and step not in value
            steps.append(_FRIENDLY_KEYS.get(step, step) if inside else step)
            try:
                value = value[steps[-1]]
            except (LookupError, TypeError):
                break
        return self.document.line_of(tuple(steps))

    def value_at(self, dotted: str) -> Any:
        """Return what is written at a path, None when nothing is."""
        value: Any = self.document.value
        for step in (*self.path, *dotted.split(".")):
            try:
                value = value[step]
            except (LookupError, TypeError):
                return None
        return value


class _Problem(Exception):
    """One mistake at a path of an object; carried to the list, never seen outside."""

    def __init__(self, path: Path, what: str, *, whole: bool = False) -> None:
        super().__init__(what)
        self.path = path
        self.what = what
        self.whole = whole  # a judgement of the whole object, which its server's defaults complete


def load(
    text: str | bytes, *, name: str = "manifest", topology_file: Fetch | None = None
) -> list[Manifest]:
    """Return every object of the text in order; `kind: List` gives its items.

    `topology_file` returns the text of a path that a Definition names; None refuses the key.
    errors.Invalid carries (`line N`, what) for each mistake, at most one a field.
    """
    return _each(text, name, topology_file, _Reader.read)


def written(
    text: str | bytes, *, name: str = "manifest", topology_file: Fetch | None = None
) -> list[Written]:
    """Return every object of the text as it was written, in order; else as `load`.

    Unknown keys and values of a wrong type are refused; fields that are missing, and rules that
    need the whole object, are the server's to judge.
    """
    return _each(text, name, topology_file, _Reader.as_written)


def _each(
    text: str | bytes,
    name: str,
    topology_file: Fetch | None,
    read: Callable[[_Reader, Any], T | None],
) -> list[T]:
    made: list[T] = []
    problems: list[tuple[str, str]] = []
    for document in documents.read(text, name=name):
        for path, value in _objects(document.value):
            reader = _Reader(document, path, topology_file)
            try:
                found = read(reader, value)
                made.extend([] if found is None else [found])
            except _Problem as problem:
                reader.wrong(problem.path, problem.what)
            problems.extend(reader.problems)
    if problems:
        where, what = problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        message = f"{name}, {where}: {what}{more}"
        raise errors.Invalid(
            message, reason="BadManifest", problems=tuple(problems[:PROBLEMS_KEPT])
        )
    return made


def _objects(value: Any) -> Iterator[tuple[Path, Any]]:
    items = value.get("items") if isinstance(value, dict) else None
    if isinstance(items, list) and value.get("kind") == "List":
        for number, item in enumerate(items):
            yield ("items", number), item
    else:
        yield (), value


class _Reader:
    """Reads one object; gathers unknown keys, stops at the first other mistake."""

    def __init__(self, document: Document, root: Path, fetch: Fetch | None) -> None:
        self._document = document
        self._root = root
        self._fetch = fetch
        self.problems: list[tuple[str, str]] = []

    def wrong(self, path: Path, what: str) -> None:
        """Note a mistake at a path of this object."""
        line = self._document.line_of((*self._root, *path))
        self.problems.append((f"line {line}", what))

    def read(self, value: Any) -> Manifest | None:
        """Return the manifest, None when keys of it were noted, or raise the _Problem."""
        found = self._spelt(value)
        if found is None:
            return None
        made = _convert(found.raw, found.kind)
        _check_name(made.metadata.name)
        index = self._document.index
        return Manifest(found.kind.name, made, index, found.line, found.dropped)

    def as_written(self, value: Any) -> Written | None:
        """Return the object as it was written; None and _Problem as in `read`."""
        found = self._spelt(value)
        if found is None:
            return None
        if not isinstance(found.raw.get("spec", {}), dict):
            raise _Problem(("spec",), "spec: must be a mapping")
        try:
            _convert({"spec": {}, **found.raw}, found.kind)
        except _Problem as problem:
            if not problem.whole:
                raise
        _check_name(found.name)
        return found

    def _spelt(self, value: Any) -> Written | None:
        """Return the object in the API's spelling; None when keys of it were noted."""
        if not isinstance(value, dict):
            raise _Problem((), "an object is a mapping with kind, metadata and spec")
        kind = _kind(value)
        if value.get("apiVersion", API_VERSION) != API_VERSION:
            what = f"apiVersion {value['apiVersion']!r} is not {API_VERSION}"
            raise _Problem(("apiVersion",), what)
        raw, dropped = self._without_server_fields(value, kind)
        if kind.name == "Definition":
            raw = self._with_topology(raw)
        friendly: frozenset[Path] = frozenset()
        for dotted, supply in kind.amounts:
            blocks = amounts.blocks(raw, f"spec.{dotted}")
            friendly |= {*blocks}
            for block in blocks:
                raw = self._expanded(raw, block, supply=supply)
        raw = dict(spellings.present(kind.name, raw))
        self._unknown(raw, _type(kind.type), (), friendly)
        if self.problems:
            # msgspec would refuse the same keys again, with a worse message.
            return None
        name = str(raw["metadata"].get("name") or "")
        return Written(kind, name, raw, self._document, self._root, dropped)

    def _without_server_fields(
        self, value: dict[str, Any], kind: Kind
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        metadata = value.get("metadata")
        if not isinstance(metadata, dict):
            what = "metadata: is missing" if metadata is None else "metadata: must be a mapping"
            raise _Problem(("metadata",), what)
        # Whoever gives a printed object another name takes some of these out, and forgets others.
        served = any(metadata.get(key) for key in _PRINTED) or "status" in value
        dropped = [f"metadata.{key}" for key in SERVER_FIELDS if key in metadata]
        raw = {**value, "metadata": {k: v for k, v in metadata.items() if k not in SERVER_FIELDS}}
        spec = value.get("spec")
        if served and isinstance(spec, dict) and {*kind.asked} & {*spec}:
            raw["spec"] = {key: each for key, each in spec.items() if key not in kind.asked}
            dropped += [f"spec.{key}" for key in kind.asked if spec.get(key) is not None]
        for key in SERVER_FIELDS:
            if key in metadata and not served:
                self.wrong(("metadata", key), f"metadata.{key}: only the server sets this")
        if raw.pop("status", None) is not None:
            dropped.append("status")
        return raw, tuple(dropped)

    def _with_topology(self, raw: dict[str, Any]) -> dict[str, Any]:
        spec = raw.get("spec")
        if not isinstance(spec, dict) or "topologyFile" not in spec:
            return raw
        path: Path = ("spec", "topologyFile")
        if "topology" in spec:
            raise _Problem(path, "topology and topologyFile say the same thing; keep one")
        file = spec["topologyFile"]
        if not isinstance(file, str) or not file:
            raise _Problem(path, "topologyFile: must be the path of a file")
        if self._fetch is None:
            raise _Problem(path, "topologyFile: only the command line reads files; use topology")
        try:
            text = self._fetch(file)
        except errors.LabfleetError as problem:
            raise _Problem(path, f"topologyFile: {problem.message}") from None
        if not text.strip():
            raise _Problem(path, f"topologyFile: {file} is empty")
        kept = {key: value for key, value in spec.items() if key != "topologyFile"}
        return {**raw, "spec": {**kept, "topology": text}}

    def _expanded(self, raw: dict[str, Any], path: Path, *, supply: bool) -> dict[str, Any]:
        """Return the object with the friendly quantities of one block in base units."""
        chain: list[Any] = [raw]
        for step in path:
            inner = chain[-1].get(step) if isinstance(chain[-1], dict) else None
            if not isinstance(inner, dict):
                return raw
            chain.append(inner)
        block = chain.pop()
        for key in _FRIENDLY:
            if key not in block:
                continue
            try:
                amounts.expand({key: block[key]}, supply=supply)
            except ValueError as problem:
                raise _Problem((*path, key), f"{_dotted((*path, key))}: {problem}") from None
        try:
            changed: Any = amounts.expand(block, supply=supply)
        except ValueError as problem:
            raise _Problem(path, f"{_dotted(path)}: {problem}") from None
        for parent, step in zip(reversed(chain), reversed(path), strict=True):
            changed = {**parent, step: changed}
        return dict(changed)

    def _unknown(
        self, value: Any, info: inspect.Type, path: Path, friendly: frozenset[Path]
    ) -> None:
        """Note every key that the type does not have."""
        if isinstance(info, inspect.Metadata):
            info = info.type
        if isinstance(info, inspect.UnionType):
            inner = [each for each in info.types if not isinstance(each, inspect.NoneType)]
            chosen = inner[0] if len(inner) == 1 else _tagged(inner, value)
            if chosen is not None:
                self._unknown(value, chosen, path, friendly)
        elif isinstance(info, inspect.StructType) and isinstance(value, dict):
            self._unknown_of(value, info, path, friendly)
        elif isinstance(info, inspect.VarTupleType | inspect.ListType) and isinstance(value, list):
            for number, each in enumerate(value):
                self._unknown(each, info.item_type, (*path, number), friendly)
        elif isinstance(info, inspect.DictType) and isinstance(value, dict):
            for key, each in value.items():
                self._unknown(each, info.value_type, (*path, key), friendly)

    def _unknown_of(
        self,
        value: dict[str, Any],
        record: inspect.StructType,
        path: Path,
        friendly: frozenset[Path],
    ) -> None:
        fields = {each.encode_name: each.type for each in record.fields}
        for key, each in value.items():
            if key in fields:
                self._unknown(each, fields[key], (*path, key), friendly)
            elif key != record.tag_field:  # the tag's word is judged by msgspec
                known = [*fields, *(_FRIENDLY if path in friendly else ())]
                self.wrong((*path, key), _unknown_key(key, path, known))


def _tagged(options: list[inspect.Type], value: Any) -> inspect.Type | None:
    """Return the record of a union that the value's tag names; None when it names none."""
    for each in options:
        if not isinstance(each, inspect.StructType) or each.tag_field is None:
            continue
        if isinstance(value, dict) and value.get(each.tag_field) == each.tag:
            return each
    return None


def _kind(value: Mapping[str, Any]) -> Kind:
    word = value.get("kind")
    if word is None and {"lab", "nodes"} <= set(value):
        raise _Problem((), "this is a CML topology; name it in a Definition's spec.topologyFile")
    if not isinstance(word, str):
        raise _Problem(("kind",), f"kind: is missing; one of {', '.join(KINDS)}")
    found = KINDS.get(word)
    if found is None:
        hint = _hint(word, list(KINDS)) or f"; the kinds are {', '.join(KINDS)}"
        raise _Problem(("kind",), f"unknown kind {word[:60]!r}{hint}")
    if not found.creatable:
        raise _Problem(("kind",), f"{found.one} is made by a request, not by a manifest")
    return found


_ELSEWHERE = {"repeat": "; a class that meets on several dates is kind Course"}
"""What people look for in the wrong kind."""


def _unknown_key(key: str, path: Path, known: list[str]) -> str:
    where = _dotted(path)
    inside = f" in {where}" if where else ""
    hint = _hint(key, known) or _ELSEWHERE.get(key, "")
    return f"unknown key {key[:60]!r}{inside}{hint}"


def _hint(word: str, known: list[str]) -> str:
    """Return `; did you mean X?` for the nearest of the known words, or nothing."""
    lowered = {each.lower(): each for each in known}
    plain = word.lower().replace("_", "").replace("-", "")
    near = [plain] if plain in lowered else difflib.get_close_matches(plain, lowered, 1, 0.6)
    return f"; did you mean {lowered[near[0]]}?" if near else ""


def _convert(raw: dict[str, Any], kind: Kind) -> Resource:
    try:
        made: Resource = msgspec.convert(raw, kind.type)
    except msgspec.ValidationError as problem:
        found = _AT.fullmatch(str(problem))
        what, trail = (found[1], found[2]) if found else (str(problem), "")
        path: Path = tuple(step or int(number) for step, number in _STEP.findall(trail))
        where = _dotted(path)
        what = shape_words.plainly(what, _type(kind.type), path)
        # A rule of the record itself (its cause is a ValueError) may need what is still missing.
        whole = what.startswith(_MISSING) or problem.__cause__ is not None
        raise _Problem(path, f"{where}: {what}" if where else what, whole=whole) from None
    return made


@functools.cache
def _type(kind: Any) -> inspect.Type:
    """Return what a kind's type looks like: to find it out costs more than to read an object."""
    return inspect.type_info(kind)


def _check_name(name: str) -> None:
    if not ids.is_name(name):
        what = (
            f"metadata.name {name[:80]!r}: 1-63 of a-z, 0-9 and inner hyphens;"
            f" for example {ids.slug(name)}"
        )
        raise _Problem(("metadata", "name"), what)


def _dotted(path: Path) -> str:
    made = ""
    for step in path:
        made += f"[{step}]" if isinstance(step, int) else f".{step}"
    return made.removeprefix(".")
