"""The data of the page at `/search`: objects, what may be done with them, and pages, by a text.

The command box of every page (`static/command.js`) shows the same hits.
"""

from __future__ import annotations

from dataclasses import dataclass

from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import DEFAULT_NAMESPACE, Resource
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import searching
from labfleet.web import overview, values
from labfleet.web.acts import act, table
from labfleet.web.values import Cell
from labfleet.web.view import Asked

ROOT = "/search"
_ACTED = 5
"""So many objects are looked at for what may be done with them."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One thing to go to: an object with its kind and state, or an act on one."""

    title: str
    kind: str
    href: str
    state: Cell | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The page. `text` is what was looked for; pages of the console are found by the template."""

    text: str
    hits: tuple[Hit, ...]


async def page(services: ServiceContext, caller: Caller, asked: Asked) -> Found:
    """Return what a text finds, at most 20 hits; Invalid when it is too long.

    `drain w1` finds what may be done with what `w1` finds, and `create session` what may be made.
    """
    text = asked.last("q").strip()
    verb, _, rest = text.casefold().partition(" ")
    hits: list[Hit] = []
    if len(verb) > 1 and any(_means(verb, each) for each in table.ACTS):
        hits += _whole(caller, verb, rest.strip())
        if rest.strip():
            objects = await searching.find(services, caller, rest, limit=_ACTED)
            hits += [hit for obj in objects for hit in _acts(services, caller, verb, obj)]
    hits += [_object(obj) for obj in await searching.find(services, caller, text)]
    return Found(text, tuple(hits[: searching.HITS]))


def _means(verb: str, each: act.Act) -> bool:
    return each.verb.startswith(verb) or each.title.casefold().startswith(verb)


def _whole(caller: Caller, verb: str, rest: str) -> list[Hit]:
    """Return the acts on a kind as a whole that a verb and the kind's name mean."""
    return [
        Hit(f"{each.title}", each.kind, act.address(each))
        for each in table.ACTS
        if each.whole
        and _means(verb, each)
        and each.kind.casefold().startswith(rest.removesuffix("s"))
        and not act.denied(caller.principal, each)
    ]


def _acts(services: ServiceContext, caller: Caller, verb: str, obj: Resource) -> list[Hit]:
    """Return what may be done with an object now, of what a verb means."""
    return [
        Hit(f"{each.title} {_name(obj)}", obj.kind, act.address(
            each, obj.name, obj.namespace, uid=obj.metadata.uid
        ))
        for each in table.of(obj.kind)
        if _means(verb, each) and act.state(services, caller, each, obj) == ""
    ]  # fmt: skip


def _object(obj: Resource) -> Hit:
    phase = overview.phase_of(obj)
    state = None if phase is None else values.state(obj.kind, phase)
    href = values.address(KINDS[obj.kind].plural, obj.name, obj.namespace)
    return Hit(_name(obj), obj.kind, href, state)


def _name(obj: Resource) -> str:
    """Return the name of an object; what lies in another namespace says so."""
    return obj.name if obj.namespace == DEFAULT_NAMESPACE else f"{obj.namespace}/{obj.name}"
