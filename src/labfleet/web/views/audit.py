"""The pages of who did what, when and why: the list, and one change field by field."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from labfleet.kernel import errors
from labfleet.resources import happenings
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import DEFAULT_NAMESPACE, Key
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import audit
from labfleet.service.reads.audit import AuditPage, AuditQuery, FieldChange
from labfleet.service.reads.history import Told
from labfleet.web import values, words
from labfleet.web.addresses import changed
from labfleet.web.overview import Row
from labfleet.web.values import Cell
from labfleet.web.view import Asked, Tab

ROOT = "/audit"
ONE = "/audit/"
ROWS = 100
FIELDS = ("actor", "kind", "namespace", "name", "reason", "change")
_CHANGES = {"": "any", "ADDED": "created", "MODIFIED": "changed", "DELETED": "deleted"}
_DIGITS = 18


@dataclass(frozen=True, slots=True)
class AuditList:
    """The page: its rows, what they are filtered by, and where earlier ones are."""

    rows: tuple[Row, ...]
    given: dict[str, str]
    kinds: tuple[str, ...]
    changes: dict[str, str]
    by: tuple[Tab, Tab]
    earlier: str
    newest: str
    horizon: bool
    follows: str


async def page(services: ServiceContext, caller: Caller, asked: Asked) -> AuditList:
    """Return the page that the query asks for; Denied for roles that may not read it."""
    audit.demand(caller)
    given = {name: asked.last(name)[:256] for name in FIELDS if asked.last(name)}
    before = _revision(asked.last("before"))
    everything = asked.last("by") == "all"
    query = AuditQuery(**given, asked=not everything, before=before)
    if query.change not in _CHANGES:
        raise errors.Invalid("A change is created, changed or deleted.")
    found = await audit.read(services, caller, query, limit=ROWS)
    now = services.clock.now()
    kept = Asked({name: each for name, each in asked.query.items() if name != "before"})
    return AuditList(
        rows=tuple(_row(each, now) for each in found.found),
        given={name: given.get(name, "") for name in FIELDS},
        kinds=tuple(KINDS),
        changes=_CHANGES,
        by=(
            Tab("What somebody asked for", changed(kept, by=None) if everything else ""),
            Tab("Everything", "" if everything else changed(kept, by="all")),
        ),
        earlier="" if found.before is None else changed(asked, before=found.before),
        newest=changed(kept) if before else "",
        horizon=found.horizon,
        follows="" if before else _follows(query, found),
    )


def _follows(query: AuditQuery, found: AuditPage) -> str:
    """Return the kinds at whose change the page is fetched again.

    Earlier pages stay as they are. What is so rare that a look reads all that one question may
    read is not looked for every few seconds.
    """
    if found.before is not None and len(found.found) < ROWS:
        return ""
    return query.kind or ",".join(words.followed())


def _revision(said: str) -> int:
    return int(said) if said.isascii() and said.isdecimal() and len(said) <= _DIGITS else 0


def _row(told: Told, now: datetime) -> Row:
    event = told.event
    key = event.key
    row = KINDS[key.kind]
    reason, message = happenings.worded(told.reason, told.message)
    cells = (
        values.instant(event.at, now),
        Cell("link", event.actor or "nobody", href=changed(Asked({}), actor=event.actor, by="all")),
        Cell("link", words.CHANGES[event.type], href=_address(key, event.revision)),
        Cell("text", key.kind),
        Cell("link", key.label, href=values.address(row.plural, key.name, key.namespace, event.uid)),
        Cell("absent", "none") if told.phase is None else values.state(key.kind, told.phase),
        Cell("text", reason),
        Cell("text", message),
        Cell("text", event.request_id) if event.request_id else Cell("absent", "by itself"),
    )  # fmt: skip
    return Row(str(event.revision), cells)


def _address(key: Key, revision: int) -> str:
    space = None if key.namespace == DEFAULT_NAMESPACE else key.namespace
    query = changed(Asked({}), kind=key.kind, namespace=space, name=key.name)
    return f"{ONE}{revision}{query}"


@dataclass(frozen=True, slots=True)
class OneChange:
    """One change: its facts, its fields, and how many further ones there are."""

    title: str
    facts: tuple[tuple[str, Cell], ...]
    fields: tuple[FieldChange, ...]
    more: int
    known: bool
    object: str
    list: str
    earlier: str


async def one(services: ServiceContext, caller: Caller, asked: Asked) -> OneChange:
    """Return the page of one change, named by its revision and object; Gone for none."""
    audit.demand(caller)
    revision, kind, name = _revision(asked.name), asked.last("kind"), asked.last("name")
    if not revision or kind not in KINDS or not name:
        raise errors.Gone("A change is named by its revision, kind and name.")
    key = Key(kind, asked.last("namespace", DEFAULT_NAMESPACE), name)
    found = await audit.change(services, caller, key, revision)
    event = found.told.event
    reason, message = happenings.worded(found.told.reason, found.told.message)
    facts = [
        ("When", values.instant(event.at, services.clock.now())),
        ("By", Cell("text", event.actor or "nobody")),
        ("Change", Cell("text", words.CHANGES[event.type])),
        ("Reason", Cell("text", reason or "none told")),
        ("Message", Cell("text", message or "none told")),
        ("Request", Cell("text", event.request_id or "none: the product did it by itself")),
        ("Revision", Cell("text", str(revision))),
    ]
    about = {"kind": kind, "name": name, "namespace": key.namespace, "by": "all"}
    return OneChange(
        title=f"{kind} {key.label}",
        facts=tuple(facts),
        fields=found.fields,
        more=found.more,
        known=found.known,
        object=values.address(KINDS[kind].plural, name, key.namespace, event.uid),
        list=ROOT + changed(Asked({}), **about),
        earlier=ROOT + changed(Asked({}), **about, before=revision),
    )
