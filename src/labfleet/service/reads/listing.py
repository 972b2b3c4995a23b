"""Lists: filters, selectors, sorting over any field, cursors bound to their query.

Read from the cache at a revision that has every earlier write. A cursor holds the last row's
sort value and key, so rows added or removed between two pages neither repeat nor hide others
(facts/fleet-bugs.md#t29). A cursor used with another query is refused.
"""

from __future__ import annotations

import base64
import binascii
import functools
import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

import msgspec

from labfleet.engine.index import Index
from labfleet.interfaces import store as stores
from labfleet.kernel import ids
from labfleet.resources import selectors
from labfleet.resources.kinds import Kind
from labfleet.resources.meta import Resource
from labfleet.resources.paths import Getter, getter
from labfleet.service.core import access, intake
from labfleet.service.core.kind_table import TABLE
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices

DEFAULT_LIMIT = 100
TEXT_LIMIT = 256
SEARCHED_LIMIT = 200
"""Characters of the text that is looked for."""
MANY = 1000
"""Of more, putting most of a kind together costs more than looking at all of it."""
TAGS_LIMIT = 50
TAG_LIMIT = 400
_UNKNOWN = (True, 0, 0)
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What to list. `namespace` None means all; `sort` is a dotted path, `-` in front descends.

    `tags` are `key=value`, or `key` with any value; all must be there, as the provider shows them.
    `text` must be in the name, the namespace or what a filter of the kind is about, in small letters
    or capitals; "" is in all.
    """

    namespace: str | None = None
    selector: str = ""
    filters: tuple[tuple[str, str], ...] = ()
    tags: tuple[str, ...] = ()
    sort: str = ""
    text: str = ""
    limit: int = DEFAULT_LIMIT
    cursor: str = ""


@dataclass(frozen=True, slots=True)
class Listed:
    """One page: the rows, the log cursor of its state, the next page's cursor, the count."""

    items: tuple[Resource, ...]
    at: stores.Cursor
    next: str | None
    total: int


class _Place(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    query: str
    missing: bool
    rank: int
    value: float | int | str
    namespace: str
    name: str


async def listed(services: ServiceContext, caller: Caller, row: Kind, query: Query) -> Listed:
    """Return one page of the objects that the caller may see, at most 1,000."""
    access.demand(caller.principal, "read", row.name)
    if not 1 <= query.limit <= stores.PAGE_LIMIT:
        raise intake.invalid(("limit", f"must be 1 to {stores.PAGE_LIMIT}"))
    wanted = _wanted(caller, row, query)
    order = _order(row, query.sort)
    mark = _mark(caller, row, query)
    after = _place(query.cursor, mark)
    await services.fresh()
    at = services.cache.cursor
    assert at is not None  # noqa: S101 - fresh() returns after the first list
    rules = TABLE[row.name]

    def show(obj: Resource) -> Resource:
        return obj if rules.shown is None else cast("Resource", rules.shown(services, obj))

    early = query.sort.removeprefix("-").startswith(rules.derived)
    matching = [
        show(obj) if early else obj
        for obj in _candidates(services, caller, row, query)
        if wanted is None or wanted(obj)
    ]
    page = _page(matching, order, query, after)
    items = tuple(obj if early else show(obj) for obj in page[: query.limit])
    more = None
    if len(page) > query.limit:
        more = _text(mark, _value(row, query.sort, items[-1]), items[-1])
    return Listed(items=items, at=at, next=more, total=len(matching))


def _page(
    matching: list[Resource],
    order: Callable[[Resource], Any],
    query: Query,
    after: _Place | None,
) -> list[Resource]:
    """Return the rows of the page and one more, in order, of all that match."""
    floor: Any = None
    if after is not None:
        floor = _directed((after.missing, after.rank, after.value), query.sort)
    values = [order(obj) for obj in matching]
    if floor is not None:
        rest = [value for value in values if value >= floor]
        least = heapq.nsmallest(query.limit + 1 + values.count(floor), rest)
    else:
        least = heapq.nsmallest(query.limit + 1, values)
    if not least:
        return []
    # Only of those that may stand on the page the names are looked at too.
    last, after_key = least[-1], None if after is None else (after.namespace, after.name)
    rows = [
        (value, obj.metadata.namespace, obj.metadata.name, obj)
        for value, obj in zip(values, matching, strict=True)
        if value <= last and (floor is None or value >= floor)
    ]
    rows.sort(key=_placed)
    if floor is not None:
        rows = [row for row in rows if row[:3] > (floor, *(after_key or ()))]
    return [row[3] for row in rows[: query.limit + 1]]


def _candidates(
    services: ServiceContext, caller: Caller, row: Kind, query: Query
) -> Iterable[Resource]:
    """Return the fewest objects in which an index finds all that match, in no promised order."""
    cache = services.cache
    ways = [
        [(indices.filter_of(row.name, name), value) for value in frozenset(text.split(","))]
        for name, text in query.filters
    ]
    owner = access.only_owner(caller.principal, row.name)
    if owner is not None:
        ways.append([(each, owner) for each in _owned(row)])
    if not ways:
        everything: tuple[Resource, ...] = cache.all(row.type)
        return everything
    best = min(ways, key=lambda way: sum(cache.count(index, value) for index, value in way))
    if len(best) == 1:
        return cache.by(*best[0])
    many = sum(cache.count(index, value) for index, value in best)
    if many > MANY and 2 * many > len(cache.all(row.type)):
        return cast("tuple[Resource, ...]", cache.all(row.type))
    # What was booked for others by its own owner is found twice.
    return {obj.key: obj for index, value in best for obj in cache.by(index, value)}.values()


def owned(services: ServiceContext, caller: Caller, row: Kind) -> tuple[Resource, ...]:
    """Return what somebody may see of a kind of which people see their own, in no promised order."""
    owner = caller.principal.name
    found = (obj for index in _owned(row) for obj in services.cache.by(index, owner))
    return tuple({obj.key: obj for obj in found}.values())


def _owned(row: Kind) -> tuple[Index[Any, str], ...]:
    """Return the indices that together find all that an owner may see of a kind."""
    booked = TABLE[row.name].booked
    mine = indices.filter_of(row.name, "owner")
    return (mine,) if booked is None else (mine, booked)


def _wanted(caller: Caller, row: Kind, query: Query) -> Callable[[Resource], bool] | None:
    """Return the judgement of a row, None when nothing is asked of it; made once for all rows."""
    owner = access.only_owner(caller.principal, row.name)
    parsed = selectors.parse(query.selector) if query.selector else ()
    tests: list[Callable[[Resource], bool]] = []
    if query.namespace is not None:
        tests.append(lambda obj: obj.metadata.namespace == query.namespace)
    if owner is not None:
        tests.append(functools.partial(access.of_owner, owner))
    if parsed:
        tests.append(lambda obj: selectors.matches(parsed, obj.metadata.labels))
    paths = dict(row.filters)
    for name, value in query.filters:
        read = getter(row.type, paths[name]) if name in paths else None
        if read is None:
            raise intake.invalid((name, f"{row.plural} cannot be filtered by {name}"))
        tests.append(_one_of(read, frozenset(value.split(","))))
    if query.tags:
        tests.append(_tagged(row, query.tags))
    if query.text:
        tests.append(containing(row, query.text))
    if len(tests) > 1:
        return lambda obj: all(test(obj) for test in tests)
    return tests[0] if tests else None


def containing(row: Kind, text: str) -> Callable[[Resource], bool]:
    """Return the judgement by a text; Invalid when it is too long.

    It looks only where a filter of the kind would: nothing is found by what a reader may not see.
    """
    if len(text) > SEARCHED_LIMIT:
        raise intake.invalid(("q", f"at most {SEARCHED_LIMIT} characters"))
    found = (getter(row.type, path) for _, path in row.filters)
    reads = [read for read in found if read is not None]
    wanted = text.casefold()

    def contains(obj: Resource) -> bool:
        named = obj.metadata
        if wanted in named.name.casefold() or wanted in named.namespace.casefold():
            return True
        return any(
            wanted in str(value).casefold() for value in (read(obj) for read in reads) if value
        )

    return contains


def _one_of(read: Getter, values: frozenset[str]) -> Callable[[Resource], bool]:
    return lambda obj: read(obj) in values


def _tagged(row: Kind, tags: tuple[str, ...]) -> Callable[[Resource], bool]:
    """Return the judgement by tags; what has unknown tags has none of them for sure."""
    read = getter(row.type, row.tags) if row.tags else None
    if read is None:
        raise intake.invalid(("tag", f"{row.plural} have no tags"))
    if len(tags) > TAGS_LIMIT or max(map(len, tags)) > TAG_LIMIT:
        raise intake.invalid(("tag", f"at most {TAGS_LIMIT} of {TAG_LIMIT} characters"))
    if not all(tag.partition("=")[0] for tag in tags):
        raise intake.invalid(("tag", "give KEY=VALUE, or KEY for any value"))
    pairs = [tag.partition("=") for tag in tags]

    def tagged(obj: Resource) -> bool:
        has = read(obj) or {}
        return all(key in has and (not given or has[key] == value) for key, given, value in pairs)

    return tagged


def _order(row: Kind, sort: str) -> Callable[[Resource], Any]:
    """Return what sorts a row before its namespace and name do; Invalid for a strange field."""
    path = sort.removeprefix("-")
    if any(path == each or path.startswith(f"{each}.") for each in row.derived):
        what = f"{path[:80]} is worked out when it is read; sort by something that is stored"
        raise intake.invalid(("sort", what), reason="UnknownField")
    if path and getter(row.type, path) is None:
        known = ["metadata.name", *(column.path for column in row.columns)]
        what = f"{row.plural} have no {path[:80]!r}{intake.hint(path[:80], known)}"
        raise intake.invalid(("sort", what), reason="UnknownField")

    read = getter(row.type, path) if path else None
    if read is None:
        same = _directed(_UNKNOWN, sort)
        return lambda _: same
    return lambda obj: _directed(_comparable(read(obj)), sort)


def _value(row: Kind, sort: str, obj: Resource) -> tuple[bool, int, float | int | str]:
    path = sort.removeprefix("-")
    read = getter(row.type, path) if path else None
    return _UNKNOWN if read is None else _comparable(read(obj))


def _comparable(value: Any) -> tuple[bool, int, float | int | str]:
    """Return a comparable form: unknown last, numbers and instants before text."""
    if value is None:
        return _UNKNOWN
    if isinstance(value, datetime):
        # Microseconds as an integer: exact, so that a cursor finds its row again.
        span = value - _EPOCH
        return False, 0, (span.days * 86400 + span.seconds) * 1_000_000 + span.microseconds
    if isinstance(value, bool | int | float):
        return False, 0, int(value) if isinstance(value, bool) else value
    if isinstance(value, str):
        return False, 1, str(value)[:TEXT_LIMIT]
    return False, 2, msgspec.json.encode(value).decode()[:TEXT_LIMIT]


@functools.total_ordering
class _Down:
    """A value that sorts in reverse order."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Down) and bool(self.value == other.value)

    def __lt__(self, other: _Down) -> bool:
        return bool(self.value > other.value)

    def __hash__(self) -> int:
        return hash(self.value)


def _directed(value: tuple[bool, int, float | int | str], sort: str) -> tuple[bool, Any]:
    """Return what sorts a value as asked: what is unknown comes last in both directions."""
    missing, rank, told = value
    if not sort.startswith("-"):
        return missing, (rank, told)
    # Numbers and instants are most of what is sorted downwards, and compare without a call.
    return missing, (-rank, _Down(told) if isinstance(told, str) else -told)


def _placed(row: tuple[Any, str, str, Resource]) -> Any:
    return row[:3]


def _mark(caller: Caller, row: Kind, query: Query) -> str:
    owner = access.only_owner(caller.principal, row.name) or ""
    said = (query.namespace or "", query.selector, query.sort, owner, *query.tags)
    if query.text:
        said = (*said, f"q={query.text}")
    return ids.digest(row.name, *said, *(f"{name}={value}" for name, value in query.filters))[:16]


def _text(mark: str, value: tuple[bool, int, float | int | str], last: Resource) -> str:
    place = _Place(mark, *value, last.metadata.namespace, last.name)
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def _place(cursor: str, mark: str) -> _Place | None:
    if not cursor:
        return None
    try:
        padded = cursor.encode() + b"=" * (-len(cursor) % 4)
        place = msgspec.json.decode(
            base64.b64decode(padded, altchars=b"-_", validate=True), type=_Place
        )
    except (ValueError, binascii.Error, msgspec.MsgspecError, RecursionError):
        raise intake.invalid(("cursor", "is not one of ours"), reason="BadCursor") from None
    if place.query != mark:
        what = "belongs to another query; start again without it"
        raise intake.invalid(("cursor", what), reason="BadCursor")
    if (place.rank == 0) == isinstance(place.value, str):
        raise intake.invalid(("cursor", "is not one of ours"), reason="BadCursor")
    return place
