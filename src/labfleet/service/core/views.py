"""Objects as a caller sees them: what is worked out when they are read, and what a role may see.

The one place for it. Replies, lists, streams, pages and webhooks pass what they show through
`of`; what is stored never does. A kind's own view is declared with its rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from labfleet.engine.cache import Cache
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
    rules = TABLE.get(obj.kind)
    if rules is None or rules.view is None:
        return obj
    seen: R = rules.view(sources, principal, obj)
    return seen


def sight(sources: Sources, principal: Principal, kind: str) -> str:
    """Return what the view of a kind depends on beside the object: callers of one see the same."""
    rules = TABLE.get(kind)
    return "" if rules is None or rules.sight is None else rules.sight(sources, principal)


def within(sources: Sources, principal: Principal, value: Any) -> Any:
    """Return a reply with each object in it, or in its lists, as the caller sees it."""
    if isinstance(value, Resource):
        return of(sources, principal, value)
    if isinstance(value, Mapping):
        return {key: within(sources, principal, each) for key, each in value.items()}
    if isinstance(value, list | tuple) and any(isinstance(each, Resource) for each in value):
        return [within(sources, principal, each) for each in value]
    return value
