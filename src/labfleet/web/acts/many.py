"""One act on several objects: chosen, shown with what would happen to each, done one by one.

At most `MOST` at once. Each is judged, refused or done by itself, so that what cannot be done to one
holds no other up; the page of the results names every one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from labfleet.kernel import errors
from labfleet.resources.kinds import KINDS, Kind
from labfleet.service.core import access
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.web import values, words
from labfleet.web.acts import act as acts
from labfleet.web.acts import fields as forms
from labfleet.web.acts import page, table
from labfleet.web.acts.act import Act, Doing
from labfleet.web.acts.fields import Field

ROOT = "/acts/"
MOST = words.ROWS
"""So many objects are shown and done at once."""
CHOSEN = "o"
"""Name of the field of a chosen object: namespace, name and, where it is known, uid."""
Query = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Sent:
    """A form that was sent: to which address, with what, and under which key it counts once.

    `take` counts one write and raises Throttled beyond what its caller may.
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
    """The page: the chosen objects with what would happen to each and one form, or what did."""

    act: Act
    action: str
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


async def chosen(services: ServiceContext, caller: Caller, row: Kind, query: Query) -> Several:
    """Return the page of the objects that were chosen in a list; nothing is done."""
    access.demand(caller.principal, "read", row.name)
    await services.fresh()
    _, made = _asked(caller, row, query)
    return await _shown(services, caller, made, _chosen(row, query))


def _nobody(caller: Caller, row: Kind) -> str:
    """Return why somebody may not do an act to several objects, and whom to ask."""
    first = next((each for each in table.of(row.name) if each.many), None)
    told = "" if first is None else acts.denied(caller.principal, first)
    return told or f"that is not done to several {row.plural} at once"


def _asked(caller: Caller, row: Kind, query: Query) -> tuple[Act, Several]:
    """Return the act that is asked for, and its page without rows; Denied without the right."""
    verb = query.get("verb", [""])[-1]
    act = next((each for each in verbs(caller, row.name) if each.verb == verb), None)
    if act is None:
        raise errors.Denied(_nobody(caller, row), reason="Forbidden")
    return act, Several(act, f"{ROOT}{row.plural}")


def _chosen(row: Kind, query: Query) -> list[Chosen]:
    """Return what was chosen of a kind, each once; Invalid for nothing, and for too many."""
    found = dict.fromkeys(query.get(CHOSEN, ()))
    if len(found) > MOST:
        raise errors.Invalid(f"At most {MOST} are done at once, not {len(found)}: choose fewer.")
    parts = (each.split("/") for each in found)
    chosen = [Chosen(*each) for each in parts if len(each) in {2, 3}]
    if not chosen:
        raise errors.Invalid(f"Nothing was selected: select some {row.plural} in their list first.")
    return chosen


async def _shown(
    services: ServiceContext, caller: Caller, made: Several, chosen: Sequence[Chosen]
) -> Several:
    """Return what would happen to each of the chosen objects, with one form for all.

    `made` has what was typed, None at first.
    """
    act, rows, seen = made.act, list[Row](), tuple[Field, ...]()
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
    return replace(made, rows=tuple(rows), fields=seen, given=texts)


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
    act, empty = _asked(caller, row, sent.form)
    chosen = _chosen(row, sent.form)
    given = {name: found[-1] for name, found in sent.form.items()}
    made = replace(empty, given=given)
    try:
        forms.read(acts.seen_fields(act, services, caller, None), given)
    except errors.Invalid as wrong:
        told = replace(made, problem=wrong.message, places=wrong.problems, status=400)
        return await _shown(services, caller, told, chosen)
    if page.LOOK in given:
        return await _shown(services, caller, made, chosen)
    rows = list[Row]()
    for each in chosen:
        try:
            if each is not chosen[0]:
                sent.take()
            doing, _ = await _begun(services, caller, act, each)
            # By the object: who goes back and sends the form for fewer asks nothing else of them.
            found = await page.done(replace(doing, key=f"{sent.key}.{doing.uid}"), act, given)
            rows.append(Row(doing.name, values.address(act.plural, *doing.where), (found.said,)))
        except errors.LabfleetError as error:
            href = values.address(act.plural, each.name, each.namespace)
            rows.append(Row(each.name, href, (error.message,), bad=True))
    return replace(made, rows=tuple(rows), done=True)
