"""The page of an act: what follows from it, its form, and what became of it.

Reading it does nothing. A form that is sent is refused or done; only then the visitor is led to
where the result is seen, with the words that the service's answer gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from labfleet.kernel import errors
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import DEFAULT_NAMESPACE
from labfleet.service.core import access, lookup
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.web import values
from labfleet.web.acts import act as acts
from labfleet.web.acts import fields as forms
from labfleet.web.acts.act import Act, Doing
from labfleet.web.acts.fields import Field
from labfleet.web.statuses import places, sentence, status_of

_OURS = frozenset({"flag", "hidden"})
_NOTHING: Mapping[str, str] = {}
LOOK = "look"
"""Name of the button that asks what would follow, and does nothing."""


@dataclass(frozen=True, slots=True)
class Asking:
    """The page of an act, for its template.

    `given` are the texts that stand in the fields; `problem` is what the service refuses, with the
    places that are wrong; `closed` says why it cannot be done at all now, and then there is no form.
    """

    act: Act
    name: str
    namespace: str
    action: str
    back: str
    follows: tuple[str, ...]
    fields: tuple[Field, ...]
    given: Mapping[str, str]
    line: str
    closed: str = ""
    problem: str = ""
    places: tuple[tuple[str, str], ...] = ()
    status: int = 200
    first: bool = False
    """Whether nobody has typed anything yet."""
    ready: bool = True
    """Whether it may be sent: what has to be looked at before was, and is not refused."""


@dataclass(frozen=True, slots=True)
class Done:
    """What became of an act, where it is seen, and the address of what takes it back."""

    said: str
    where: str
    undo: str = ""


async def begun(
    services: ServiceContext, caller: Caller, act: Act, name: str, asked: Mapping[str, str]
) -> tuple[Doing, str]:
    """Return an act with its object, and why it cannot be done now ("" when it can).

    Gone when there is no such object, or another one has its name; Denied without the right.
    """
    namespace = asked.get("namespace") or DEFAULT_NAMESPACE
    doing = Doing(services=services, caller=caller, name=name, namespace=namespace)
    refused = acts.denied(caller.principal, act)
    if refused:
        raise errors.Denied(refused, reason="Forbidden")
    if act.whole or act.blind:
        return doing, ""
    access.demand(caller.principal, "read", act.kind)
    obj: Any = await lookup.found(services, caller, KINDS[act.kind].type, name, namespace)
    lookup.demand_uid(obj, asked.get("uid") or None)
    await services.fresh()
    told = acts.state(services, caller, act, obj)
    doing = replace(doing, obj=obj, name=obj.name)
    return doing, "it does not apply to it as it is now" if told is None else told


async def asking(
    doing: Doing, act: Act, closed: str, given: Mapping[str, str] | None = None,
    error: errors.LabfleetError | None = None, *, first: Mapping[str, str] = _NOTHING,
) -> Asking:  # fmt: skip
    """Return the page of an act: at first, or with what was typed and what is wrong with it.

    `given` None: the fields have their first values, those of `first` before their own.
    """
    seen = acts.seen_fields(act, doing.services, doing.caller, doing.obj)
    # An address may fill a field, and tick nothing: what ends more is a person's own choice.
    texts = {
        each.name: each.first if each.show in _OURS else first.get(each.name, each.first)
        for each in seen
    }
    if given is not None:
        # What is hidden says how the object was when the form was made: a new form says it anew.
        texts = {
            each.name: each.first if each.show == "hidden" else given.get(each.name, "")
            for each in seen
        }
    follows: tuple[str, ...] = ()
    if not closed:
        # What takes a whole trial is tried for a form that was sent, which counts as a write.
        typed = {} if act.look and given is None else texts
        doing, error = _with_values(doing, seen, typed, error, strict=given is not None)
        follows, found = await _followed(doing, act)
        # What was refused when it was done counts more than what would be.
        error = error or found
    return Asking(
        act=act, name=doing.name, namespace=doing.namespace,
        action=acts.address(act, doing.name, doing.namespace, uid=doing.uid or ""),
        back=_back(doing, act), follows=follows, fields=() if closed else seen, given=texts,
        line=act.line(doing), closed=closed, problem="" if error is None else sentence(error),
        places=() if error is None else places(error),
        status=200 if error is None or given is None else status_of(error),
        first=given is None, ready=not act.look or (given is not None and error is None),
    )  # fmt: skip


def _with_values(
    doing: Doing, seen: Sequence[Field], texts: Mapping[str, str],
    error: errors.LabfleetError | None, *, strict: bool,
) -> tuple[Doing, errors.LabfleetError | None]:  # fmt: skip
    """Return the act with what can be read of the form; a first look tells of no empty field."""
    try:
        return replace(doing, values=forms.read(tuple(seen), texts)), error
    except errors.Invalid as wrong:
        return doing, error or (wrong if strict else None)


async def _followed(doing: Doing, act: Act) -> tuple[tuple[str, ...], errors.LabfleetError | None]:
    try:
        return tuple(each for each in await act.follows(doing) if each), None
    except errors.LabfleetError as error:
        return (), error


async def done(doing: Doing, act: Act, given: Mapping[str, str]) -> Done:
    """Do it, and return what the service said; a LabfleetError when it refuses."""
    seen = acts.seen_fields(act, doing.services, doing.caller, doing.obj)
    doing = replace(doing, values=forms.read(seen, given))
    undo = "" if act.undo is None else act.undo(doing)
    said = await act.does(doing)
    if isinstance(said, acts.Outcome):
        return Done(said.said, said.where, undo)
    return Done(said, act.goes(doing) if act.goes is not None else _back(doing, act), undo)


def _back(doing: Doing, act: Act) -> str:
    if act.whole or not doing.name:
        return f"/{act.plural}"
    return values.address(act.plural, doing.name, doing.namespace)
