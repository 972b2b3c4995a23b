"""Objects as a caller sees them: what is worked out when they are read, and what a role may see.

The one place for it. Replies, lists, streams, pages and webhooks pass what they show through
`of`; what is stored never does. A kind's own view is declared with its rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from labfleet.engine.cache import Cache
from labfleet.resources import kinds
from labfleet.resources.meta import Resource
from labfleet.service.core.access import Principal
from labfleet.service.core.fleet_settings import SettingsReader
from labfleet.service.core.kind_table import TABLE

R = TypeVar("R", bound=Resource)


class Sources(Protocol):
    """What a view is worked out of: what services and controllers both have."""

    @property
    def cache(self) -> Cache:
        """Return the objects around it."""
        ...

    @property
    def settings(self) -> SettingsReader:
        """Return the policy."""
        ...


def of(sources: Sources, principal: Principal, obj: R) -> R:
    """Return an object as the caller sees it; kinds without a view of their own as it is."""
    show = _view(sources, principal, obj.kind)
    return obj if show is None else show(obj)


def sight(sources: Sources, principal: Principal, kind: str) -> str:
    """Return what the view of a kind depends on beside the object: callers of one see the same."""
    rules = TABLE.get(kind)
    return "" if rules is None or rules.sight is None else rules.sight(sources, principal)


def past(principal: Principal, kind: str, doc: bytes, revision: int) -> bytes | None:
    """Return the form of an object that an event led to, as the caller may read it; JSON.

    None for one that another version has written so that this one cannot tell what is in it.
    """
    rules = TABLE.get(kind)
    show = None if rules is None or rules.private is None else rules.private(principal)
    if show is None:
        return kinds.shown(kind, doc, revision)
    try:
        return msgspec.json.encode(show(kinds.decode(kind, doc, revision)))
    except ValueError:
        return None


def within(sources: Sources, principal: Principal, value: Any) -> Any:
    """Return a reply with each object in it, or in its lists, as the caller sees it."""
    if isinstance(value, Resource):
        return of(sources, principal, value)
    if isinstance(value, Mapping):
        return {key: within(sources, principal, each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return _rows(sources, principal, value)
    return value


def _rows(sources: Sources, principal: Principal, rows: Sequence[Any]) -> Sequence[Any]:
    """Return the rows of a list as the caller sees them.

    The rows of a page are of one kind: what they have in common is found out once for all of them,
    and a kind without a view costs nothing for a row.
    """
    types = set(map(type, rows))
    if not any(issubclass(each, Resource) for each in types):
        return rows
    found = {each.kind for each in rows} if len(types) == 1 else set()
    if len(found) != 1:
        return [within(sources, principal, each) for each in rows]
    show = _view(sources, principal, found.pop())
    return rows if show is None else [show(each) for each in rows]


def _view(sources: Sources, principal: Principal, kind: str) -> Callable[[Any], Any] | None:
    """Return what shows the caller an object of a kind; None when each sees it as it is."""
    rules = TABLE.get(kind)
    if rules is None or rules.view is None:
        return None
    show: Callable[[Any], Any] | None = rules.view(sources, principal)
    return show
