"""Parses and validates a raw body into a typed object: shape, unknown keys, names, sizes.

Pure. It checks what needs no other object; `rules` checks the rest.
"""

from __future__ import annotations

import difflib
import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec

from labfleet.kernel import errors, ids
from labfleet.kernel.clock import utc_text
from labfleet.kernel.json_bounds import DEPTH_LIMIT
from labfleet.resources import amounts, shape_words, spellings
from labfleet.resources.kinds import Kind
from labfleet.resources.meta import API_VERSION, Metadata, Resource

T = TypeVar("T")
PROBLEM_LIMIT = 20
LABEL_LIMIT = 64
ANNOTATION_BYTES = 64 * 1024
TOLERANCE = timedelta(minutes=5)
"""How far the clock of whoever measured something may be from ours."""
# Room to add durations and time zones at both ends of what a datetime can hold.
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
_AT = re.compile(r"^(?P<what>.*?)(?: - at `(?P<where>.+)`)?$", re.DOTALL)
_STEP = re.compile(r"([A-Za-z_][A-Za-z0-9_]*|\.\.\.)|\[(\d+)\]")
_BELOW = re.compile(r"[a-z][A-Za-z]*(\.[A-Za-z0-9]+(\[\d+\])?)+")
_LABEL_KEY = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,251}[A-Za-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?")
_HOST_LIMIT = 253
# C0 without tab and line feed, DEL, C1, and what turns the direction of the text around it.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_SINGLE = (str, int, float, type(None))  # what holds nothing else; bool is an int
_NAMES = frozenset({"metadata.name", "metadata.namespace"})  # judged as names, with a proposal
DOCUMENTS = frozenset({"topology", "userData"})
"""Fields with documents of other programs: IOS writes a control character around a banner."""
# Filled by the server; a body may repeat what stands there but not set it.
SERVER_FIELDS = (
    "uid", "generation", "finalizers", "ownerReferences", "creationTimestamp",
    "deletionTimestamp",
)  # fmt: skip


def invalid(*problems: tuple[str, str], reason: str | None = None) -> errors.Invalid:
    """Return an Invalid error that names these fields."""
    shown = problems[:PROBLEM_LIMIT]
    message = "; ".join(f"{where}: {what}" for where, what in shown[:3])
    return errors.Invalid(message, reason=reason, problems=shown)


def not_ahead(where: str, at: datetime, now: datetime) -> None:
    """Raise Invalid for an instant that somebody measured in the future, beyond a clock's error."""
    if at > now + TOLERANCE:
        raise invalid((where, f"lies in the future (it is {utc_text(now, seconds=True)})"))


def shaped(row: Kind, body: object) -> dict[str, Any]:
    """Return the body as a mapping with metadata and spec mappings and without status.

    status is set only by the server: it is silently dropped, as in Kubernetes, so that an
    object that was read can be sent back. Human-readable amounts become base units.
    """
    if not isinstance(body, Mapping):
        raise invalid(("body", f"an object of kind {row.name} is expected"))
    if too_deep(body):
        raise invalid(("body", f"nested deeper than {DEPTH_LIMIT} levels"))
    plain(body)
    raw = {key: value for key, value in body.items() if key != "status"}
    problems = []
    # Tuples, not sets: a raw value may be a list or a mapping, which are not hashable.
    if raw.pop("apiVersion", None) not in (None, API_VERSION):
        problems.append(("apiVersion", f"must be {API_VERSION}"))
    if raw.pop("kind", None) not in (None, row.name):
        problems.append(("kind", f"must be {row.name} here"))
    for part in ("metadata", "spec"):
        value = raw.get(part)
        if value is None and part in raw:
            raw[part] = {}
        elif value is not None and not isinstance(value, dict):
            problems.append((part, "must be a mapping"))
    if problems:
        raise invalid(*problems)
    return _expanded(row, raw)


def typed(row: Kind, raw: Mapping[str, Any]) -> Resource:
    """Return the typed object of a shaped body; Invalid names every unknown key."""
    present = spellings.present(row.name, raw)
    obj: Resource = _record(row.type, {"metadata": {}, "spec": {}, **present})
    problems = list(_metadata(obj.metadata))
    if problems:
        raise invalid(*problems)
    return obj


def spec_of(row: Kind, raw: Mapping[str, Any], kind: type[T]) -> T:
    """Return the typed spec of a shaped body, for who makes the rest of the object.

    `kind` is the row's, without instants. What is wrong is named as `typed` does.
    """
    try:
        return msgspec.convert(raw["spec"], kind, strict=True)
    except msgspec.ValidationError:
        made: T = typed(row, raw).spec
        return made


def record(kind: type[T], raw: object) -> T:
    """Return a record of a raw value; Invalid names all unknown keys, else the first error."""
    if not isinstance(raw, Mapping):
        raise invalid(("body", "a JSON object is expected"))
    if too_deep(raw):
        raise invalid(("body", f"nested deeper than {DEPTH_LIMIT} levels"))
    return _record(kind, raw)


def _record(kind: type[T], raw: Mapping[str, Any]) -> T:
    shape: Any = kind  # for the type checker: classes are hashable
    try:
        made = msgspec.convert(raw, kind, strict=True)
    except msgspec.ValidationError as problem:
        _only_known(raw, _shape(shape))
        raise invalid(_place(str(problem), _shape(shape))) from None
    if not _closed(shape):
        _only_known(raw, _shape(shape))
    far = [
        (where, f"must lie between the years {EARLIEST.year} and {LATEST.year}")
        for where, instant in _instants(made, "")
        if instant.tzinfo is not None and not EARLIEST <= instant <= LATEST
    ]
    if far:
        raise invalid(*far)
    return made


def _only_known(raw: object, shape: msgspec.inspect.Type) -> None:
    # At most as many as are reported: each costs a search for the nearest key, and a body may
    # hold 100,000.
    unknown = list(itertools.islice(_unknown(raw, shape, ""), PROBLEM_LIMIT))
    if unknown:
        raise invalid(*unknown, reason="UnknownField")


def lenient(kind: type[T], raw: object) -> T:
    """Return a record of a raw value; unknown keys are ignored, wrong values are Invalid.

    For programs that are not ours: their next version may send more.
    """
    if not isinstance(raw, Mapping):
        raise invalid(("body", "a JSON object is expected"))
    if too_deep(raw):
        raise invalid(("body", f"nested deeper than {DEPTH_LIMIT} levels"))
    shape: Any = kind  # for the type checker: classes are hashable
    try:
        return msgspec.convert(raw, kind, strict=True)
    except msgspec.ValidationError as problem:
        raise invalid(_place(str(problem), _shape(shape))) from None


def too_deep(value: object) -> bool:
    """Tell whether a raw value is nested deeper than any valid body."""
    level: list[object] = [value]
    for _ in range(DEPTH_LIMIT):
        inner: list[object] = []
        for each in level:
            if isinstance(each, _SINGLE):
                continue
            if isinstance(each, Mapping):
                inner.extend(each.values())
            elif isinstance(each, list):
                inner.extend(each)
        if not inner:
            return False
        level = inner
    return True


def plain(body: object) -> None:
    """Raise Invalid for a text with control characters: on a terminal or a page it would lie.

    Line ends and tabs may be in it, and anything in documents of others (`DOCUMENTS`).
    """
    wrong = list(itertools.islice(_controls(body, ""), PROBLEM_LIMIT))
    if wrong:
        what = "must not hold control characters"
        raise invalid(*((where[:200], what) for where in wrong), reason="ControlCharacters")


def _controls(value: object, path: str) -> Iterator[str]:
    if isinstance(value, str):
        if _lies(value) and path not in _NAMES:
            yield path or "body"
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            name = str(key)
            wrong = _lies(name)
            shown = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", name) if wrong else name
            where = f"{path}.{shown}" if path else shown
            if wrong:
                yield where
            if key not in DOCUMENTS and not _harmless(inner):
                yield from _controls(inner, where)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _controls(inner, f"{path}[{index}]")


def _lies(text: str) -> bool:
    # What is printable holds no control character, and that is told ten times as fast.
    return not text.isprintable() and _CONTROL.search(text) is not None


def _harmless(value: object) -> bool:
    """Tell at once of most values that they hold no control character."""
    return value.isprintable() if isinstance(value, str) else isinstance(value, _SINGLE)


def name_problem(name: str) -> str | None:
    """Return what is wrong with an object's name, with a valid proposal; None when valid."""
    if ids.is_name(name):
        return None
    shown = name if len(name) <= 80 else f"{name[:80]}…"
    return (
        f"{shown!r} is not 1 to {ids.NAME_LIMIT} of a-z, 0-9 and inner hyphens; "
        f"for example {ids.slug(name)!r}"
    )


def host_problem(host: str) -> str | None:
    """Return why this host may not be called, or None; `host` as `urlsplit` returns it."""
    if not host.isascii():
        # Clients normalise characters that look like digits and dots: a name becomes an address.
        return "write the host in ASCII: a name with other letters as xn--..."
    if ":" in host or (len(host) <= _HOST_LIMIT and _HOST.fullmatch(host.lower())):
        return None
    return "not the name or address of a host"


def hint(word: str, known: Iterator[str] | list[str]) -> str:
    """Return `; did you mean x?` or nothing."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


def merged(target: Any, patch: Any) -> Any:
    """Return target with a JSON merge patch applied (RFC 7396); neither is changed."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def _expanded(row: Kind, raw: dict[str, Any]) -> dict[str, Any]:
    for path, supply in row.amounts:
        for steps in amounts.blocks(raw, f"spec.{path}"):
            block: Any = raw
            for step in steps:
                block = block[step]
            absent = {key: None for key, value in block.items() if value is None}
            given = {key: value for key, value in block.items() if value is not None}
            try:
                turned = {**absent, **amounts.expand(given, supply=supply)}
            except ValueError as problem:
                raise invalid((".".join(map(str, steps)), str(problem))) from None
            raw = _replaced(raw, steps, turned)
    return raw


def _replaced(raw: dict[str, Any], steps: Sequence[str], value: Any) -> dict[str, Any]:
    head, *rest = steps
    return {**raw, head: _replaced(raw[head], rest, value) if rest else value}


@functools.cache
def _shape(kind: type) -> msgspec.inspect.Type:
    return msgspec.inspect.type_info(kind)


@functools.cache
def _closed(kind: type) -> bool:
    """Tell whether msgspec itself refuses every unknown key of a record and of those in it."""
    return _all_closed(_shape(kind), set())


def _all_closed(shape: msgspec.inspect.Type, seen: set[type]) -> bool:
    match shape:
        case msgspec.inspect.StructType(cls=cls, fields=fields, forbid_unknown_fields=closed):
            if cls in seen:
                return True
            seen.add(cls)
            return closed and all(_all_closed(field.type, seen) for field in fields)
        case msgspec.inspect.UnionType(types=options):
            return all(_all_closed(option, seen) for option in options)
        case msgspec.inspect.DictType(value_type=inner):
            return _all_closed(inner, seen)
        case msgspec.inspect.VarTupleType(item_type=inner):
            return _all_closed(inner, seen)
        case msgspec.inspect.ListType(item_type=inner):
            return _all_closed(inner, seen)
        case _:
            return True


def _unknown(value: Any, shape: msgspec.inspect.Type, path: str) -> Iterator[tuple[str, str]]:
    match shape:
        case msgspec.inspect.StructType(fields=fields) if isinstance(value, dict):
            types = {field.encode_name: field.type for field in fields}
            known = {*types, shape.tag_field}  # msgspec judges the tag's word
            for key, inner in value.items():
                where = f"{path}.{key}" if path else str(key)
                if key in types:
                    yield from _unknown(inner, types[key], where)
                elif key not in known:
                    yield where[:200], f"unknown key{hint(str(key)[:64], list(types))}"
        case msgspec.inspect.UnionType(types=options):
            for option in filter(functools.partial(_may_be, value), options):
                yield from _unknown(value, option, path)
        case msgspec.inspect.DictType(value_type=inner_type) if isinstance(value, dict):
            for key, inner in value.items():
                yield from _unknown(inner, inner_type, f"{path}.{key}")
        case (
            msgspec.inspect.VarTupleType(item_type=item) | msgspec.inspect.ListType(item_type=item)
        ) if isinstance(value, list):
            for index, inner in enumerate(value):
                yield from _unknown(inner, item, f"{path}[{index}]")
        case _:
            return


def _may_be(value: Any, option: msgspec.inspect.Type) -> bool:
    """Tell whether a value is judged by this record of a union: by its tag, if that has one."""
    if not isinstance(option, msgspec.inspect.StructType) or option.tag_field is None:
        return True
    return isinstance(value, dict) and value.get(option.tag_field) == option.tag


def _instants(value: object, path: str) -> Iterator[tuple[str, datetime]]:
    """Yield every instant of a typed record with its path."""
    if isinstance(value, datetime):
        yield path, value
    elif isinstance(value, msgspec.Struct):
        for shown, field in _with_instants(type(value)):
            yield from _instants(getattr(value, field), f"{path}.{shown}" if path else shown)


@functools.cache
def _with_instants(kind: type) -> tuple[tuple[str, str], ...]:
    """Return those fields of a record, as shown and as named, that may hold an instant."""
    shape = _shape(kind)
    assert isinstance(shape, msgspec.inspect.StructType)  # noqa: S101 - of a record
    return tuple((each.encode_name, each.name) for each in shape.fields if _may_tell(each.type))


def _may_tell(shape: msgspec.inspect.Type, seen: frozenset[type] = frozenset()) -> bool:
    """Tell whether an instant, or a record with one, may stand there itself."""
    match shape:
        case msgspec.inspect.UnionType(types=options):
            return any(_may_tell(option, seen) for option in options)
        case msgspec.inspect.StructType(cls=cls, fields=fields):
            inside = seen | {cls}
            return cls not in seen and any(_may_tell(field.type, inside) for field in fields)
        case msgspec.inspect.DateTimeType() | msgspec.inspect.AnyType():
            return True
        case _:
            return False


def _place(text: str, shape: msgspec.inspect.Type) -> tuple[str, str]:
    found = _AT.match(text)
    if found is None:  # pragma: no cover - the pattern matches any text
        return "body", text
    where = (found["where"] or "body").removeprefix("$").removeprefix(".")
    steps = [name or int(number or 0) for name, number in _STEP.findall(where)]
    what = shape_words.plainly(found["what"], shape, steps)
    # A record that judges a free mapping itself says the place first.
    below, colon, rest = what.partition(": ")
    if colon and where and (_BELOW.fullmatch(below) or shape_words.has(shape, steps, below)):
        where, what = f"{where}.{below}", rest
    return where or "body", what[:1].lower() + what[1:] if what.startswith("Expected") else what


def _metadata(metadata: Metadata) -> Iterator[tuple[str, str]]:
    for where, name in (("name", metadata.name), ("namespace", metadata.namespace)):
        problem = name_problem(name)
        if problem is not None:
            yield f"metadata.{where}", problem
    if len(metadata.labels) > LABEL_LIMIT:
        yield "metadata.labels", f"at most {LABEL_LIMIT} labels"
    for key, value in metadata.labels.items():
        if not _LABEL_KEY.fullmatch(key):
            yield f"metadata.labels.{key[:64]}", "a label's key is 1 to 253 of A-Z a-z 0-9 . _ / -"
        elif not _LABEL_VALUE.fullmatch(value):
            yield f"metadata.labels.{key}", "a label's value is up to 63 of A-Z a-z 0-9 . _ -"
    size = sum(len(key) + len(value) for key, value in metadata.annotations.items())
    if size > ANNOTATION_BYTES:
        yield "metadata.annotations", f"at most {ANNOTATION_BYTES} characters together"
