"""What a page of the console is, and what a tab of an object's page is.

A page of the console shows many objects or none: the fleet, the calendar. `view_table` lists them
all; each is made in a module of its own. Tabs of the pages of single objects: `panel_table`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labfleet.resources.meta import Resource
from labfleet.service.core import access
from labfleet.service.core.access import Principal
from labfleet.service.core.service_context import Caller, ServiceContext


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks of a page: the query's values by name, and the end of its path."""

    query: Mapping[str, Sequence[str]]
    name: str = ""

    def last(self, name: str, default: str = "") -> str:
        """Return the last value of that name in the query."""
        return self.query.get(name, [default])[-1]


Make = Callable[[ServiceContext, Caller, Asked], Awaitable[Any]]
"""Return a page's data, which its template knows as `page`; a LabfleetError when it may not be."""


@dataclass(frozen=True, slots=True)
class View:
    """One page of the console.

    `path` is its address; one that ends with `/` is followed by a name, `Asked.name`. `title` is its
    word in the navigation, under the heading `group`; pages without a group are not named there.
    `reads` is the kind that somebody must be able to read to be led here ("" when everybody is); the
    page itself has to refuse what a caller may not see.
    """

    path: str
    title: str
    template: str
    make: Make
    group: str = ""
    reads: str = ""
    roles: frozenset[str] = frozenset()
    """The roles that are led here; all when it is empty."""
    asks: frozenset[str] | None = None
    """The names that its query may have, where a kind's list has the same address: with any other
    name it is the list that is asked for. None: the address is this page's alone."""

    def means(self, query: Mapping[str, Sequence[str]]) -> bool:
        """Tell whether a request with this query means the page, and not a list."""
        return self.asks is None or self.asks.issuperset(query)

    def named_to(self, principal: Principal) -> bool:
        """Tell whether the navigation leads this caller here."""
        allowed = not self.roles or principal.role in self.roles
        return allowed and (not self.reads or access.may(principal, "read", self.reads))


@dataclass(frozen=True, slots=True)
class Panel:
    """One tab of the page of an object of `kind`, at `?tab=NAME`.

    `make` returns its data, known to its template as `panel`; it is called for the open tab alone.
    `there` tells without reading more whether this object has the tab for this caller. Both are given
    the object as the caller may see it.
    """

    kind: str
    name: str
    title: str
    template: str
    make: Callable[[ServiceContext, Caller, Resource, Asked], Awaitable[Any]]
    there: Callable[[Caller, Resource], bool] = lambda _caller, _obj: True


@dataclass(frozen=True, slots=True)
class Tab:
    """One tab as it is shown; the one that is open has no address."""

    title: str
    href: str
