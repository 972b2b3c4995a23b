"""The other half of a kind: its rules, access, explanation, events and indices.

Each kind declares them in `service/kinds`; `kinds.table` collects them here, where the layers below
the kinds read them: a kind that is not in the table is nobody's but the admins'.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from labfleet.engine.index import Index
from labfleet.resources.conditions import Word
from labfleet.resources.meta import Ref
from labfleet.resources.notice import Notice, NoticeType
from labfleet.resources.pool import Pool
from labfleet.service.core.roles import Role


class EventType(Word):
    """Base of the event types of a kind: `kind.what_happened`, each with its sentence."""


class Change(NamedTuple):
    """One named event about one object, with its specific data."""

    type: EventType | NoticeType
    data: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KindRules:
    """What may be done with a kind's objects, and what their changes mean.

    `create`, `update` and `delete` are coroutine functions (services, caller, [old,] new) that
    return `Admitted`; without one the kind has no rule of its own. `grants` is what a role may do
    with the kind beyond what it may do with any, and `fields` which fields of `spec` it may set in
    an action (no entry: all). `admins_only`: only admins write it; callers of the roles in `owned`
    see only those whose spec.owner they are, and those that `booked` finds by their name: objects of
    others that they booked; those in `counted` have one limit together of how many
    they may make. `line` (services, obj) names the lock under which a new object is made after those
    that take from the same. `explain` is a coroutine function (services, obj) that returns an Explanation,
    `about` a sentence for those that need no more, `sooner` (services, obj) what would help; `warns`
    (services, obj) returns sentences on what it asks for in vain, `differs` (old, new) on what a change
    of it changed beside it, `shown` the object with what is
    worked out when it is read, at the paths `derived`, and never stored; `of_others`: of other objects,
    which must be read as they are now. `pools` tells
    whose pauses concern an object: pools, or None for the whole fleet's alone. `born` names more
    events of a new object, `changed` those of a change, instead of `updated` for a new spec.
    `told` (old, new) yields the notices of a change for its owner; old is None for a new object.
    `unlogged` event types come in the compatible stream only; `aliases` are other names of event
    types, by which they may be asked for. `view` (sources, caller) returns the
    function that shows an object as that caller sees it, made once for all rows of a list, or None;
    `sight` (sources, caller) tells what that depends on beside the object; `private` (caller)
    returns what shows it as that caller reads it in its events, or None for who reads all. Any: each
    takes its own kind.
    """

    name: str
    create: Callable[..., Any] | None = None
    update: Callable[..., Any] | None = None
    delete: Callable[..., Any] | None = None
    grants: Mapping[Role, frozenset[str]] = field(default_factory=dict)
    fields: Mapping[Role, Mapping[str, frozenset[str]]] = field(default_factory=dict)
    admins_only: bool = False
    owned: frozenset[Role] = frozenset()
    booked: Index[Any, str] | None = None
    counted: frozenset[Role] = frozenset()
    line: Callable[..., str | None] | None = None
    explain: Callable[..., Any] | None = None
    about: Callable[[Any], str] | None = None
    sooner: Callable[..., Any] | None = None
    warns: Callable[..., tuple[str, ...]] | None = None
    differs: Callable[[Any, Any], tuple[str, ...]] | None = None
    shown: Callable[..., Any] | None = None
    derived: tuple[str, ...] = ()
    of_others: bool = True
    pools: Callable[[Any], tuple[Ref[Pool] | None, ...]] | None = None
    event_types: type[EventType] | None = None
    unlogged: frozenset[EventType] = frozenset()
    aliases: Mapping[EventType, str] = field(default_factory=dict)
    born: Callable[[Any], Iterable[Change]] | None = None
    changed: Callable[[Any, Any], Iterable[Change]] | None = None
    told: Callable[[Any, Any], Iterable[Notice]] | None = None
    view: Callable[..., Any] | None = None
    sight: Callable[..., str] | None = None
    private: Callable[[Any], Callable[[Any], Any] | None] | None = None
    indices: tuple[Index[Any, Any], ...] = ()


TABLE: dict[str, KindRules] = {}
"""Kind -> its rules, in the order of the reference's pages; filled by `kinds.table`."""
