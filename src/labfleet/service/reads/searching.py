"""Looks for objects of every kind by a text: what somebody types to go to an object.

Names are looked at, and no object is, except those that are found: the work is a comparison for each
name that the caller may know of.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from labfleet.kernel import errors
from labfleet.resources.kinds import KINDS, Kind, by_word
from labfleet.resources.meta import Key, Resource
from labfleet.service.core import access, intake, views
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import listing

HITS = 20
"""Objects that are found at most."""
WORDS = 8
"""Words of a text that are looked at."""


async def find(
    services: ServiceContext, caller: Caller, text: str, *, limit: int = HITS
) -> tuple[Resource, ...]:
    """Return the objects whose names have every word of a text, the nearest first.

    A name that is the text comes first, then names that begin with its first word, then shorter ones.
    A word that means a kind (`session`, `workers`) narrows to it. Only what the caller may see is
    found, as the caller sees it. Invalid when the text is too long; nothing for an empty one.
    """
    if len(text) > listing.SEARCHED_LIMIT:
        raise intake.invalid(("q", f"at most {listing.SEARCHED_LIMIT} characters"))
    chosen, words = _parsed(text.casefold().replace("/", " ").split()[:WORDS])
    if not words and not chosen:
        return ()
    await services.fresh()
    ranked = (
        (*rank, place, key)
        for place, row in enumerate(chosen or KINDS.values())
        if access.may(caller.principal, "read", row.name)
        for key in _keys(services, caller, row)
        if (rank := _rank(words, key)) is not None
    )
    found = (services.cache.at(each[-1]) for each in heapq.nsmallest(limit, ranked))
    return tuple(
        views.of(services, caller.principal, obj)
        for obj in found
        if obj is not None and access.sees(caller.principal, obj)
    )


def _parsed(words: list[str]) -> tuple[tuple[Kind, ...], list[str]]:
    """Return the kind that the first or the last word means, and the words that are left."""
    for place in (0, -1):
        try:
            kind = by_word(words[place]) if words else None
        except errors.Invalid:
            continue
        if kind is not None:
            return (kind,), words[1:] if place == 0 else words[:-1]
    return (), words


def _keys(services: ServiceContext, caller: Caller, row: Kind) -> Iterable[Key]:
    """Return the keys of a kind of which the caller may know."""
    if access.only_owner(caller.principal, row.name) is None:
        return services.cache.keys(row.type)
    return [obj.key for obj in listing.owned(services, caller, row)]


def _rank(words: list[str], key: Key) -> tuple[int, int] | None:
    """Return how near a name is to the words, less is nearer; None when a word is not in it."""
    name = key.name.casefold()
    if not all(word in name for word in words):
        return None
    if not words or name == words[0]:
        return 0, len(name)
    return 1 if name.startswith(words[0]) else 2, len(name)
