"""Whether a server has the node and image definitions that a lab names, by what was seen.

Pure. A server is known by its machine image: what one worker of the image was seen to have, the
next one will have. An image of which no worker was seen may have anything: nothing is held up for
it. Names are texts such as `node definition iosv`, ready for a sentence.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from labfleet.resources import node_definitions
from labfleet.resources.conditions import Status
from labfleet.resources.definition import DefinitionReason, DefinitionStatus
from labfleet.resources.image import Catalogue, Image, ImageStatus

Names = frozenset[str]
REMEMBERED = timedelta(days=1)
"""What no worker of an image was seen to have for so long is forgotten within as long again."""
_SHOWN = 5
# Built into every CML: they run nothing.
_BUILT_IN = frozenset(name for name, each in node_definitions.DEFAULTS.items() if not each.has_vm)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a lab may run: a worker, or the next one of a pool; `has` None is not seen."""

    name: str
    has: Names | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether some place has all that a lab names."""

    status: Status
    reason: DefinitionReason
    message: str = ""


def needs(status: DefinitionStatus) -> Names:
    """Return what a definition's topology names, without what every CML has."""
    return _names(
        tuple(each for each in status.node_definitions if each not in _BUILT_IN),
        status.image_definitions,
    )


def has(image: Image | None) -> Names | None:
    """Return what workers of an image have; None when none was seen."""
    if image is None or image.status.since is None:
        return None
    seen, before = image.status.seen, image.status.before
    return _both(
        seen.node_definitions, before.node_definitions, seen.image_definitions,
        before.image_definitions,
    )  # fmt: skip


@functools.lru_cache(maxsize=1000)
def _both(
    nodes: tuple[str, ...],
    more_nodes: tuple[str, ...],
    images: tuple[str, ...],
    more_images: tuple[str, ...],
) -> Names:
    # Always the same set of the same image, so that those who keep it see that nothing changed.
    return _names((*nodes, *more_nodes), (*images, *more_images))


def _names(nodes: Iterable[str], images: Iterable[str]) -> Names:
    return frozenset(
        [f"node definition {each}" for each in nodes]
        + [f"image definition {each}" for each in images]
    )


def lacking(wanted: Names, there: Names | None) -> tuple[str, ...]:
    """Return what a place is known to lack, in order."""
    return () if there is None else tuple(sorted(wanted - there))


def verdict(wanted: Names, places: Sequence[Place]) -> Verdict:
    """Return whether a lab can run somewhere, by what was seen of the places of its track."""
    if not wanted:
        return Verdict("True", DefinitionReason.SEEN)
    if not places:
        return Verdict("Unknown", DefinitionReason.NO_PLACE, "no worker or pool serves its track")
    lacks = [
        (len(short), each.name, short) for each in places if (short := lacking(wanted, each.has))
    ]
    if len(lacks) < len(places):
        sure = any(each.has is not None and wanted <= each.has for each in places)
        if sure:
            return Verdict("True", DefinitionReason.SEEN)
        # Named, it would be another sentence whenever a worker comes or goes.
        told = "no worker of some machine image of its track was seen yet"
        return Verdict("Unknown", DefinitionReason.NOT_SEEN, told)
    _, name, short = min(lacks)
    return Verdict(
        "False", DefinitionReason.MISSING, f"no worker of its track has it: {name} {without(short)}"
    )


def without(short: Sequence[str]) -> str:
    """Return `has no node definition iosv`, for some of the names."""
    more = f" and {len(short) - _SHOWN} more" if len(short) > _SHOWN else ""
    return f"has no {', no '.join(short[:_SHOWN])}{more}"


def looked(
    before: ImageStatus, found: Catalogue, *, worker: str, version: str, now: datetime
) -> ImageStatus:
    """Return an image's status after a look at one of its workers; the same when nothing is new.

    Workers of one image may differ, since people add definitions to a running server: what any has
    counts, until none was seen to have it for a day.
    """
    if before.since is not None and now - before.since < REMEMBERED:
        seen = _union(before.seen, found)
        if seen == before.seen:
            return before
        since, earlier = before.since, before.before
    else:
        seen, since, earlier = found, now, before.seen
    left = Catalogue(
        node_definitions=_minus(earlier.node_definitions, seen.node_definitions),
        image_definitions=_minus(earlier.image_definitions, seen.image_definitions),
    )
    return msgspec.structs.replace(
        before,
        seen=seen,
        before=left,
        since=since,
        last_seen_at=now,
        worker=worker,
        version=version,
        node_definitions=len(seen.node_definitions) + len(left.node_definitions),
        image_definitions=len(seen.image_definitions) + len(left.image_definitions),
    )


def _union(one: Catalogue, other: Catalogue) -> Catalogue:
    return Catalogue(
        node_definitions=tuple(sorted({*one.node_definitions, *other.node_definitions})),
        image_definitions=tuple(sorted({*one.image_definitions, *other.image_definitions})),
    )


def _minus(names: tuple[str, ...], less: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({*names} - {*less}))
