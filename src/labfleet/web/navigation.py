"""The navigation: pages of the console and the tables of kinds, under one heading each."""

from __future__ import annotations

from dataclasses import dataclass

from labfleet.service.core import access
from labfleet.service.core.access import Principal
from labfleet.service.core.roles import Role
from labfleet.web import view_table, words
from labfleet.web.acts import token_page
from labfleet.web.views import my_labs

GROUPS = ("Now", "Labs", "Servers", "Learning", "Upkeep")
"""The headings in their order; kinds that name none stand under the last."""
OF_KIND = {
    "Session": "Labs",
    "Group": "Labs",
    "Course": "Labs",
    "Definition": "Labs",
    "Simulation": "Learning",
    "Cluster": "Learning",
    "Queue": "Learning",
    "Worker": "Servers",
    "Pool": "Servers",
    "Template": "Servers",
}


KEYS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("?",), "Show this list"),
    (("Ctrl K",), "Search objects and pages; a verb first shows what may be done (drain w1)"),
    (("/",), "Go to the filter of the list, or search"),
    (("j", "k"), "Go to the next row, or the one before"),
    (("Enter",), "Open the row"),
    (("x",), "Choose the row, or no longer"),
    (("e",), "Go to the events of the row or page"),
    ((".",), "Go to what may be done with it"),
    (("R",), "Let in the changes that wait"),
    (("Esc",), "Leave a field, close a dialog"),
)
"""What single keys do, as static/keys.js does it."""
BESIDE = {"Queue": "Simulation"}
"""Kinds that lead nowhere without another one: who may not read that is not led there."""
GOES = {
    "h": ("/",),
    "l": ("/live",),
    "m": ("/my-labs",),
    "f": ("/fleet",),
    "w": ("/workers",),
    "q": ("/queue", "/queues"),
    "s": ("/sessions",),
    "c": ("/calendar",),
    "p": ("/pools",),
    "d": ("/definitions",),
    "a": ("/alerts",),
}
"""The key after `g`, and the pages to which it leads: the first that the caller is led to."""


@dataclass(frozen=True, slots=True)
class Link:
    """One place to go to."""

    title: str
    href: str


def home(principal: Principal) -> str:
    """Return the page on which somebody begins: people of role user with their own labs."""
    return my_labs.ROOT if principal.role is Role.USER else "/"


def shown(principal: Principal) -> tuple[tuple[str, tuple[Link, ...]], ...]:
    """Return where somebody is led, by heading; headings without a place are left out."""
    found: dict[str, list[Link]] = {group: [] for group in GROUPS}
    for view in view_table.VIEWS:
        if view.group and view.named_to(principal):
            found[view.group].append(Link(view.title, view.path))
    for section in words.sections():
        _add(found, principal, section.kind, Link(section.title, f"/{section.plural}"))
    for kind in words.listed():
        _add(found, principal, kind.name, Link(kind.plural.capitalize(), f"/{kind.plural}"))
    # Stable: where somebody begins stands first.
    found[GROUPS[0]].sort(key=lambda each: each.href != home(principal))
    found[GROUPS[-1]] += [Link("Tokens", token_page.ROOT), Link("API", "/docs")]
    return tuple((group, tuple(links)) for group, links in found.items() if links)


def goes(groups: tuple[tuple[str, tuple[Link, ...]], ...]) -> tuple[tuple[str, Link], ...]:
    """Return the key after `g` of each page that has one, of those that somebody is led to."""
    links = {each.href: each for _, found in groups for each in found}
    ways = (
        (key, next((each for each in hrefs if each in links), "")) for key, hrefs in GOES.items()
    )
    return tuple((key, links[href]) for key, href in ways if href)


def _add(found: dict[str, list[Link]], principal: Principal, kind: str, link: Link) -> None:
    own = any(view.path == link.href for view in view_table.VIEWS)
    wanted = (kind, BESIDE.get(kind, kind))
    if not own and all(access.may(principal, "read", each) for each in wanted):
        found[OF_KIND.get(kind, GROUPS[-1])].append(link)
