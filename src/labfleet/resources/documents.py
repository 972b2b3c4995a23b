"""Bounded reading of YAML (and so JSON) text that strangers send: manifests and topologies.

Gives plain values and the line of each of them. It knows nothing of what the documents mean.
Own composition over the parser's events, because a loader would accept duplicate keys,
expand alias bombs, and read `on`, `010` and `22:22` as something that nobody meant.

Plain scalars: null, true/false, decimal and hexadecimal integers without leading zeros,
decimal fractions. Everything else is text, so text stays text whichever YAML version the
writer had in mind. Aliases are allowed and count with their expanded size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

import yaml

from labfleet.kernel import errors

Path = tuple[str | int, ...]

# libyaml is about thirty times faster; the pure parser is the fallback where it is absent.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(0|[1-9][0-9]{0,18})")
_HEX = re.compile(r"0x[0-9a-fA-F]{1,15}")
_FLOAT = re.compile(r"[-+]?([0-9]{1,40}\.[0-9]{0,40}|\.[0-9]{1,40})([eE][-+]?[0-9]{1,3})?")
_SURROGATES = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB]..)\\u([dD][c-fC-F]..)")
_TAGS = {f"tag:yaml.org,2002:{word}": word for word in ("str", "int", "float", "bool", "null")}
_CONTAINER_TAGS = frozenset({None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one text may hold; nodes and characters count aliases expanded."""

    size: int = 4 * 2**20
    characters: int = 8 * 2**20
    nodes: int = 10_000
    depth: int = 60


@dataclass(frozen=True, slots=True)
class Document:
    """One document: its value, its place in the text, and where each key stands."""

    value: Any
    index: int
    line: int
    _marks: dict[int, dict[str | int, int]] = field(repr=False, default_factory=dict)

    def line_of(self, path: Path) -> int:
        """Return the line of the deepest part of the path that exists, counted from 1."""
        line, value = self.line, self.value
        for step in path:
            known = self._marks.get(id(value), {})
            if step not in known:
                break
            line, value = known[step], value[step]
        return line


def read(
    text: str | bytes, *, name: str = "document", limits: Limits | None = None
) -> list[Document]:
    """Return every document of the text, empty ones left out.

    errors.Invalid when it is not UTF-8, too big, broken, or uses what is refused; its
    problems are (`line N`, what).
    """
    bounds = limits or Limits()
    decoded = _decode(text, name, bounds)
    composer = _Composer(name, bounds)
    try:
        return composer.run(yaml.parse(decoded, Loader=_LOADER))
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        what = problem.problem or problem.context or "not YAML"
        _refuse(name, mark.line + 1 if mark else 1, what)
    except yaml.YAMLError as problem:
        at = getattr(problem, "position", 0)
        line = decoded.count("\n", 0, at) + 1 if isinstance(at, int) else 1
        _refuse(name, line, getattr(problem, "reason", None) or "not YAML")


def _refuse(name: str, line: int, what: str) -> NoReturn:
    message = f"{name}, line {line}: {what}"
    raise errors.Invalid(message, reason="BadDocument", problems=((f"line {line}", what),))


def _decode(text: str | bytes, name: str, bounds: Limits) -> str:
    if len(text) > bounds.size:
        _refuse(name, 1, f"larger than {bounds.size} bytes")
    try:
        decoded = text.decode() if isinstance(text, bytes) else text
        size = len(decoded.encode()) if isinstance(text, str) else len(text)
    except UnicodeError:
        _refuse(name, 1, "not UTF-8 text")
    if size > bounds.size:
        _refuse(name, 1, f"larger than {bounds.size} bytes")
    decoded = decoded.removeprefix("\ufeff")
    if "\\u" in decoded or "\\U" in decoded:
        # JSON writes an emoji as two escapes, which YAML parsers refuse.
        decoded = _SURROGATES.sub(_join_pair, decoded)
    return decoded


def _join_pair(found: re.Match[str]) -> str:
    try:
        pair = chr(int(found[2], 16)) + chr(int(found[3], 16))
        return found[1] + pair.encode("utf-16", "surrogatepass").decode("utf-16")
    except (ValueError, UnicodeError):
        return found[0]


@dataclass(slots=True)
class _Weight:
    nodes: int = 0
    characters: int = 0


class _Composer:
    """Builds values from parser events, counting as it goes."""

    def __init__(self, name: str, bounds: Limits) -> None:
        self._name = name
        self._bounds = bounds
        self._weight = _Weight()
        self._anchors: dict[str, tuple[Any, _Weight]] = {}
        self._marks: dict[int, dict[str | int, int]] = {}

    def run(self, events: Iterator[Any]) -> list[Document]:
        made: list[Document] = []
        index = 0
        for event in events:
            if not isinstance(event, yaml.DocumentStartEvent):
                continue
            self._anchors, self._marks = {}, {}
            first = next(events)
            value = self._value(first, events, 0)
            if value is not None:
                line = first.start_mark.line + 1
                made.append(Document(value, index, line, self._marks))
            index += 1
        return made

    def _value(self, event: Any, events: Iterator[Any], depth: int) -> Any:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                self._stop(line, f"unknown alias *{event.anchor}")
            value, weight = self._anchors[event.anchor]
            self._count(line, weight.nodes, weight.characters)
            return value
        if depth > self._bounds.depth:
            self._stop(line, f"nested deeper than {self._bounds.depth} levels")
        before = _Weight(self._weight.nodes, self._weight.characters)
        if isinstance(event, yaml.ScalarEvent):
            self._count(line, 1, len(event.value))
            value = self._scalar(event, line)
        else:
            self._count(line, 1, 0)
            if event.tag not in _CONTAINER_TAGS:
                self._stop(line, f"tag {event.tag} is not allowed")
            mapping = isinstance(event, yaml.MappingStartEvent)
            value = self._mapping(events, depth) if mapping else self._sequence(events, depth)
        if event.anchor is not None:
            weight = _Weight(
                self._weight.nodes - before.nodes, self._weight.characters - before.characters
            )
            self._anchors[event.anchor] = (value, weight)
        return value

    def _sequence(self, events: Iterator[Any], depth: int) -> list[Any]:
        made: list[Any] = []
        marks: dict[str | int, int] = {}
        for event in events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            marks[len(made)] = event.start_mark.line + 1
            made.append(self._value(event, events, depth + 1))
        self._marks[id(made)] = marks
        return made

    def _mapping(self, events: Iterator[Any], depth: int) -> dict[str, Any]:
        made: dict[str, Any] = {}
        marks: dict[str | int, int] = {}
        for event in events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            line = event.start_mark.line + 1
            key = self._key(event, line)
            if key in made:
                self._duplicate(key, marks[key], line)
            marks[key] = line
            made[key] = self._value(next(events), events, depth + 1)
        self._marks[id(made)] = marks
        return made

    def _key(self, event: Any, line: int) -> str:
        if not isinstance(event, yaml.ScalarEvent):
            self._stop(line, "a key must be plain text")
        self._count(line, 1, len(event.value))
        if event.implicit[0] and event.value == "<<":
            self._stop(line, "merge keys (<<) are not supported; write the keys out")
        key = self._scalar(event, line)
        if not isinstance(key, str):
            self._stop(line, f'key {event.value[:60]!r} is not text; write "{event.value[:60]}"')
        return key

    def _scalar(self, event: Any, line: int) -> Any:
        text: str = event.value
        if event.tag is not None and event.tag != "!":
            return self._tagged(event.tag, text, line)
        if not event.implicit[0] or event.tag == "!":
            return text
        return plain(text)

    def _tagged(self, tag: str, text: str, line: int) -> Any:
        word = _TAGS.get(tag)
        if word is None:
            self._stop(line, f"tag {tag} is not allowed")
        if word == "str":
            return text
        value = plain(text)
        fits = {"null": value is None, "bool": isinstance(value, bool)}
        number = isinstance(value, int) and not isinstance(value, bool)
        fits |= {"int": number, "float": number or isinstance(value, float)}
        if not fits[word]:
            self._stop(line, f"{text[:60]!r} is not of type {word}")
        return float(value) if word == "float" else value

    def _count(self, line: int, nodes: int, characters: int) -> None:
        self._weight.nodes += nodes
        self._weight.characters += characters
        if self._weight.nodes > self._bounds.nodes:
            self._stop(line, f"more than {self._bounds.nodes} values, aliases expanded")
        if self._weight.characters > self._bounds.characters:
            self._stop(line, f"more than {self._bounds.characters} characters, aliases expanded")

    def _duplicate(self, key: str, first: int, second: int) -> NoReturn:
        what = f"duplicate key {key[:80]!r}, first given on line {first}"
        message = f"{self._name}, line {second}: {what}"
        raise errors.Invalid(
            message,
            reason="DuplicateKey",
            problems=((f"line {second}", what), (f"line {first}", "first given here")),
        )

    def _stop(self, line: int, what: str) -> NoReturn:
        _refuse(self._name, line, what)


def plain(text: str) -> Any:
    """Return what an unquoted scalar means: None, a bool, a number, or else the text."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text):
        return int(text)
    if _HEX.fullmatch(text):
        return int(text, 16)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text
