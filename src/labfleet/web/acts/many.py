"""One act on several objects: chosen, shown with what would happen to each, done one by one.

At most `MOST` at once. Each is judged, refused or done by itself, so that what cannot be done to one
holds no other up; the page of the results names every one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from labfleet.kernel import errors
from labfleet.resources.kinds import KINDS, Kind
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.web import lists, overview, values, words
from labfleet.web.acts import act as acts
from labfleet.web.acts import fields as forms
from labfleet.web.acts import page, table
from labfleet.web.acts.act import Act, Doing
from labfleet.web.acts.fields import Field
from labfleet.web.overview import Table

ROOT = "/acts/"
MOST = words.ROWS
"""So many objects are shown and done at once."""
CHOSEN = "o"
"""Name of the field of a chosen object: namespace, name and, where it is known, uid."""
Query = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Sent:
    """A form that was sent: to which address, with what, and under which key it counts once.

    `take` counts one write more than the request is itself, and raises Throttled beyond what its
    caller may.
    """

    path: str
    query: Query
    form: Query
    key: str
    take: Callable[[], None]


class Chosen(NamedTuple):
    """One object that was chosen; `uid` is "" where nobody said which one of the name is meant."""

    namespace: str
    name: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One chosen object: where it is seen, what would happen, or what did; `bad`: it cannot be.

    `value` names it in the form, "" when it is not to be done.
    """

    name: str
    href: str
    told: tuple[str, ...]
    value: str = ""
    bad: bool = False


@dataclass(frozen=True, slots=True)
class Several:
    """The page: objects to choose from (`table`), or the chosen `rows`, or what became of them.

    `wanted` is what is looked for among the names, owners and phases.
    """

    plural: str
    title: str
    action: str
    verbs: tuple[tuple[str, str], ...]
    verb: str = ""
    wanted: str = ""
    table: Table | None = None
    act: Act | None = None
    rows: tuple[Row, ...] = ()
    fields: tuple[Field, ...] = ()
    given: Mapping[str, str] | None = None
    problem: str = ""
    places: tuple[tuple[str, str], ...] = ()
    done: bool = False
    status: int = 200


def verbs(caller: Caller, kind: str) -> tuple[Act, ...]:
    """Return what somebody may do with several objects of a kind."""
    return tuple(
        each for each in table.of(kind)
        if each.many and access.may(caller.principal, each.right, kind)
    )  # fmt: skip


def kind_at(path: str) -> Kind:
    """Return the kind whose objects an address is about; Gone for none."""
    plural = path.removeprefix(ROOT)
    row = next((each for each in KINDS.values() if each.plural == plural), None)
    if row is None:
        raise errors.Gone("There is nothing to do at this address.")
    return row


async def choosing(services: ServiceContext, caller: Caller, row: Kind, query: Query) -> Several:
    """Return the page of objects to choose from, or of those that were chosen; nothing is done."""
    access.demand(caller.principal, "read", row.name)
    able = verbs(caller, row.name)
    if not able:
        raise errors.Denied(_nobody(caller, row), reason="Forbidden")
    await services.fresh()
    chosen = _chosen(query)
    made = _empty(row, able, query)
    act = next((each for each in able if each.verb == made.verb), None)
    if act is None or not chosen:
        return replace(made, table=_table(services, caller, row, made.wanted))
    return await _shown(services, caller, made, act, chosen)


def _nobody(caller: Caller, row: Kind) -> str:
    first = next((each for each in table.of(row.name) if each.many), None)
    if first is None:
        return f"{row.plural} are not changed together"
    return acts.denied(caller.principal, first)


def _empty(row: Kind, able: Sequence[Act], query: Query) -> Several:
    wanted, verb = (query.get(name, [""])[-1][:200] for name in ("q", "verb"))
    return Several(
        plural=row.plural, title=row.plural.capitalize(), action=f"{ROOT}{row.plural}",
        verbs=tuple((each.verb, each.title) for each in able), verb=verb, wanted=wanted,
    )  # fmt: skip


def _table(services: ServiceContext, caller: Caller, row: Kind, wanted: str) -> Table:
    """Return the objects that the caller sees, whose name, owner or phase has what is wanted."""
    word = wanted.strip().lower()
    found = [
        each for each in overview.seen(services, caller, row.name)
        if not word or word in _text(each)
    ]  # fmt: skip
    return lists.table_of(services, row, found)


def _text(obj: Any) -> str:
    owner = getattr(obj.spec, "owner", "") or ""
    return f"{obj.name} {owner} {overview.phase_of(obj) or ''}".lower()


def _chosen(query: Query) -> list[Chosen]:
    """Return what was chosen, each once; Invalid for too many."""
    found = dict.fromkeys(query.get(CHOSEN, ()))
    if len(found) > MOST:
        raise errors.Invalid(f"At most {MOST} are done at once, not {len(found)}: choose fewer.")
    parts = (each.split("/") for each in found)
    return [Chosen(*each) for each in parts if len(each) in {2, 3}]


async def _shown(
    services: ServiceContext, caller: Caller, made: Several, act: Act, chosen: Sequence[Chosen]
) -> Several:
    """Return what would happen to each of the chosen objects, with one form for all.

    `made` has what was typed, None at first.
    """
    rows, seen = list[Row](), tuple[Field, ...]()
    texts: dict[str, str] = {}
    for each in chosen:
        try:
            doing, closed = await _begun(services, caller, act, each)
        except errors.LabfleetError as error:
            rows.append(Row(each.name, "", (error.message,), bad=True))
            continue
        if not seen:
            seen = acts.seen_fields(act, services, caller, doing.obj)
            given = made.given or {}
            texts = {field.name: given.get(field.name, field.first) for field in seen}
        rows.append(await _would(doing, act, closed, seen, texts))
    return replace(made, act=act, rows=tuple(rows), fields=seen, given=texts)


async def _begun(
    services: ServiceContext, caller: Caller, act: Act, each: Chosen
) -> tuple[Doing, str]:
    asked = {"namespace": each.namespace, "uid": each.uid}
    return await page.begun(services, caller, act, each.name, asked)


async def _would(
    doing: Doing, act: Act, closed: str, seen: tuple[Field, ...], texts: Mapping[str, str]
) -> Row:
    href = values.address(act.plural, *doing.where)
    if closed:
        return Row(doing.name, href, (closed,), bad=True)
    try:
        tried = replace(doing, values=forms.read(seen, texts))
    except errors.Invalid:
        tried = doing
    value = f"{doing.namespace}/{doing.name}/{doing.uid or ''}"
    try:
        return Row(doing.name, href, tuple(filter(None, await act.follows(tried))), value)
    except errors.LabfleetError as error:
        return Row(doing.name, href, (error.message,), value, bad=True)


async def done(services: ServiceContext, caller: Caller, row: Kind, sent: Sent) -> Several:
    """Do one act to each chosen object, in their order, and return what became of each.

    Fields that cannot be read stop all of it before the first.
    """
    able, chosen = verbs(caller, row.name), _chosen(sent.form)
    given = {name: found[-1] for name, found in sent.form.items()}
    made = replace(_empty(row, able, sent.form), given=given)
    act = next((each for each in able if each.verb == made.verb), None)
    if act is None:
        raise errors.Denied(_nobody(caller, row), reason="Forbidden")
    try:
        forms.read(acts.seen_fields(act, services, caller, None), given)
    except errors.Invalid as wrong:
        told = replace(made, problem=wrong.message, places=wrong.problems, status=400)
        return await _shown(services, caller, told, act, chosen)
    if page.LOOK in given:
        return await _shown(services, caller, made, act, chosen)
    rows = list[Row]()
    for number, each in enumerate(chosen):
        try:
            if number:
                sent.take()
            begun = await _begun(services, caller, act, each)
            rows.append(await _one(begun, act, given, f"{sent.key}.{number}"))
        except errors.LabfleetError as error:
            href = values.address(act.plural, each.name, each.namespace)
            rows.append(Row(each.name, href, (error.message,), bad=True))
    return replace(made, act=act, rows=tuple(rows), done=True)


async def _one(begun: tuple[Doing, str], act: Act, given: Mapping[str, str], key: str) -> Row:
    doing, closed = begun
    href = values.address(act.plural, *doing.where)
    if closed:
        return Row(doing.name, href, (closed,), bad=True)
    found = await page.done(replace(doing, key=key), act, given)
    return Row(doing.name, href, (found.said,))
