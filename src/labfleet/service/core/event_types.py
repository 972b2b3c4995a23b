"""Names the events of an object's change, for webhooks and the compatible stream.

Pure: compares the object before with the object after. The names are upstream 002's
(facts/upstream.md#stream-and-roles) with the product's words; the compatible stream puts
`lablet.` before sessions and definitions. Each kind declares its own; here is what holds for all.
"""

from __future__ import annotations

from collections.abc import Iterator

from labfleet.resources.conditions import Condition
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Resource
from labfleet.resources.notice import Notice, NoticeType
from labfleet.service.core.kind_table import TABLE, Change, EventType


class AnyKindEvent(EventType):
    """What can happen to objects of any kind."""

    CONDITION_RAISED = (
        "condition.raised",
        "a condition began to ask for somebody: an alert of a worker, a pool that paused",
    )
    CONDITION_CLEARED = "condition.cleared", "it asks for nobody any more"
    OBJECT_CREATED = "object.created", "any other object was made"
    OBJECT_UPDATED = "object.updated", "what people want of any other object changed"
    OBJECT_DELETED = "object.deleted", "any other object is gone"


def types() -> dict[str, str]:
    """Return every event type with its meaning; the reference page is generated from it."""
    enums = [rules.event_types for rules in TABLE.values()] + [NoticeType, AnyKindEvent]
    return {str(each): each.sentence for enum in enums if enum is not None for each in enum}


def unlogged() -> frozenset[str]:
    """Return the types of the compatible stream only: measurements are not changes of objects."""
    return frozenset(str(each) for rules in TABLE.values() for each in rules.unlogged)


def aliases() -> dict[str, str]:
    """Return event type -> another name for it, by which webhooks and streams may ask for it."""
    return {str(each): name for rules in TABLE.values() for each, name in rules.aliases.items()}


def changes(old: Resource | None, new: Resource | None) -> tuple[Change, ...]:
    """Return the events of one change, notices last; none when nothing that has a name changed.

    An event's place here is a part of its id: new ones are appended.
    """
    if new is None:
        return () if old is None else (Change(named(old, "deleted"), {}),)
    if old is None:
        return (*_created(new), *_told(None, new))
    rules = TABLE.get(new.kind)
    own = updated if rules is None or rules.changed is None else rules.changed
    return (*_conditions(old, new), *own(old, new), *_told(old, new))


def notices(old: Resource | None, new: Resource | None) -> Iterator[tuple[int, Notice]]:
    """Yield what the owner is told of a change, each with its place among the change's events."""
    rules = None if new is None else TABLE.get(new.kind)
    if rules is None or rules.told is None:
        return
    found = tuple(rules.told(old, new))
    yield from enumerate(found, len(changes(old, new)) - len(found) if found else 0)


def updated(old: Resource, new: Resource) -> Iterator[Change]:
    """Yield that people want something else of it, for kinds that name it no better."""
    if old.metadata.generation != new.metadata.generation:
        yield Change(named(new, "updated"), {})


def named(obj: Resource, verb: str) -> EventType:
    """Return the type `kind.verb` if the kind has it, else `object.verb`."""
    rules, name = TABLE.get(obj.kind), f"{obj.kind.lower()}.{verb}"
    known = () if rules is None or rules.event_types is None else tuple(rules.event_types)
    return next((each for each in known if each == name), AnyKindEvent[f"OBJECT_{verb.upper()}"])


def _created(new: Resource) -> Iterator[Change]:
    yield Change(named(new, "created"), {})
    rules = TABLE.get(new.kind)
    if rules is not None and rules.born is not None:
        yield from rules.born(new)


def _told(old: Resource | None, new: Resource) -> Iterator[Change]:
    """Yield the notices of a change as events."""
    rules = TABLE.get(new.kind)
    if rules is not None and rules.told is not None:
        for each in rules.told(old, new):
            yield Change(each.type, {"recipient": {"owner": each.recipient},
                                     "subject": each.subject, **each.data})  # fmt: skip


def _conditions(old: Resource, new: Resource) -> Iterator[Change]:
    """Yield conditions raised and cleared; one that is removed or Unknown yields nothing."""
    kind = new.kind
    known = getattr(old.status, "conditions", ())
    before = {each.type: each for each in known if _bad(kind, each)}
    after = {each.type: each for each in getattr(new.status, "conditions", ())}
    for name, each in after.items():
        if _bad(kind, each) and name not in before:
            yield _condition(AnyKindEvent.CONDITION_RAISED, each)
    for name, was in before.items():
        each = after.get(name, was)
        if name not in after or not _bad(kind, each):
            yield _condition(AnyKindEvent.CONDITION_CLEARED, each)


def _bad(kind: str, fact: Condition) -> bool:
    """Tell whether a condition needs a person.

    Normal progress, such as a lab that boots, is in `session.status.changed` and raises nothing.
    """
    return any(name == fact.type and when == fact.status for name, when in KINDS[kind].news)


def _condition(name: EventType, fact: Condition) -> Change:
    data = {"condition": fact.type, "reason": fact.reason, "message": fact.message}
    return Change(name, data)
