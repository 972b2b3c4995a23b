"""What an act is: a verb of the service that people call on a page, with what it follows from.

Who may do it is what `access` says of the same action for the API; nothing here grants anything.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import API_VERSION, DEFAULT_NAMESPACE, Key, Resource
from labfleet.service.core import access
from labfleet.service.core.access import Principal, Role
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.web.acts.fields import Field

ROOT = "/act/"
_PEOPLE = (Role.USER, Role.OPERATOR, Role.ADMIN)
_TOLD = frozenset({Role.OPERATOR, Role.ADMIN})
"""Roles that are shown what they may not do, with whom to ask; to others it is not for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing:
    """One act, asked for by one person: on which object, with which values.

    `obj` is None for an act on a kind, or on an object that its caller does not see yet. `key` is the
    idempotency key of the form.
    """

    services: ServiceContext
    caller: Caller
    name: str = ""
    namespace: str = DEFAULT_NAMESPACE
    obj: Any = None
    values: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None

    @property
    def where(self) -> tuple[str, str]:
        """Return name and namespace of the object."""
        return self.name, self.namespace

    @property
    def uid(self) -> str | None:
        """Return the identity of the object that is meant, None without one."""
        return None if self.obj is None else self.obj.metadata.uid

    @property
    def argument(self) -> str:
        """Return the object as a word of a command, with its namespace where that is another one."""
        return shlex.quote(Key("", self.namespace, self.name).argument)

    def text(self, name: str) -> str:
        """Return a value that is text, "" when the field was left empty."""
        value = self.values.get(name)
        return "" if value is None else str(value)

    def line(self, *words: str, target: str | None = None) -> str:
        """Return a command of the CLI on this object; empty words are left out."""
        aim = self.name if target is None else target
        named = shlex.quote(aim) if aim else ""
        away = named and self.namespace != DEFAULT_NAMESPACE
        space = f"-n {shlex.quote(self.namespace)}" if away else ""
        head, *rest = (each for each in words if each)
        return " ".join(each for each in ("labfleet", head, named, space, *rest) if each)

    def manifest(self, kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body that sets some fields of the object, as `labfleet apply` takes it."""
        metadata = {"name": self.name, "namespace": self.namespace}
        return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": dict(spec)}

    def applied(self, kind: str, spec: Mapping[str, Any]) -> str:
        """Return the command of the CLI that sets some fields of the object."""
        text = json.dumps(self.manifest(kind, spec), ensure_ascii=False)
        return f"labfleet apply -f - <<< {shlex.quote(text)}"

    def option(self, flag: str, name: str) -> str:
        """Return an option of the CLI with a value of the form; "" when that was left empty."""
        value = self.text(name)
        return f"{flag} {shlex.quote(value)}" if value else ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is said of an act that made something, and where that is seen."""

    said: str
    where: str


Follows = Callable[[Doing], Awaitable[Sequence[str]]]
Open = Callable[[ServiceContext, Caller, Any], str | None]


async def _nothing(_doing: Doing) -> Sequence[str]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One act.

    `verb` and `kind` are its address. `right` is the action of `access.ACTIONS` that it needs.
    `does` calls the service and returns what is said of it then; `follows` returns in sentences what
    it ends, whom it hits and what it costs, and raises what the service would refuse. `opens` returns
    "" when it makes sense for an object, why not when it does not now, and None when it is not even
    shown. `line` is the command of the CLI that does the same. `back` says how it is taken back.
    An act that is `whole` is on no object; one that is `blind` is on an object that its caller may
    not see. `routes` names the operations of the API that do the same, "" when the API has none.
    """

    verb: str
    kind: str
    title: str
    right: str
    routes: str
    does: Callable[[Doing], Awaitable[str | Outcome]]
    line: Callable[[Doing], str]
    follows: Follows = _nothing
    fields: Callable[[ServiceContext, Caller, Any], tuple[Field, ...]] = lambda _s, _c, _o: ()
    opens: Open = lambda _s, _c, _o: ""
    back: str = ""
    grave: bool = False
    many: bool = False
    whole: bool = False
    look: bool = False
    """Whether its form has to be looked at with what follows before it can be sent."""
    blind: bool = False
    goes: Callable[[Doing], str] | None = None
    """Where the result is seen; the object's own page without it."""
    undo: Callable[[Doing], str] | None = None
    """The address of the act that takes it back, worked out before it is done; "" where there is none."""

    @property
    def plural(self) -> str:
        """Return the plural of its kind."""
        return KINDS[self.kind].plural


@dataclass(frozen=True, slots=True)
class Offer:
    """One act as a page offers it: `refused` says why it cannot be done now, or not by its reader."""

    title: str
    href: str
    refused: str = ""
    grave: bool = False


def address(act: Act, name: str = "", namespace: str = DEFAULT_NAMESPACE, **query: str) -> str:
    """Return the page of an act, on an object of this name."""
    return _written(f"{ROOT}{act.verb}/{act.plural}", name, namespace, query)


def _written(root: str, name: str, namespace: str, query: Mapping[str, str]) -> str:
    made = root + (f"/{quote(name, safe='')}" if name else "")
    asked = {} if namespace == DEFAULT_NAMESPACE else {"namespace": namespace}
    asked |= {key: value for key, value in query.items() if value}
    return f"{made}?{urlencode(asked)}" if asked else made


def same(doing: Doing, plural: str, verb: str, **query: str) -> str:
    """Return the address of another act on the same object, with values for its form."""
    asked = {"uid": doing.uid or "", **query}
    return _written(f"{ROOT}{verb}/{plural}", doing.name, doing.namespace, asked)


def denied(principal: Principal, act: Act) -> str:
    """Return that somebody may not do this, and whom to ask; "" when they may."""
    if access.may(principal, act.right, act.kind):
        return ""
    able = [
        str(role) for role in _PEOPLE
        if access.may(Principal("", role), act.right, act.kind)
    ]  # fmt: skip
    ask = f"; ask somebody with role {' or '.join(able)}" if able else ""
    deed = access.deed_of(act.right, act.kind)
    return f"your role, {principal.role}, may not {deed}{ask}"


def state(services: ServiceContext, caller: Caller, act: Act, obj: Resource) -> str | None:
    """Return "" when somebody may do this to an object now, why not, or None when it is not shown."""
    told = act.opens(services, caller, obj)
    if told is None:
        return None
    refused = denied(caller.principal, act)
    if refused:
        return refused if caller.principal.role in _TOLD else None
    if obj.deleting and not told:
        return f"this {act.kind.lower()} is being deleted already"
    return told


def offers(
    services: ServiceContext, caller: Caller, acts: Sequence[Act], obj: Resource
) -> tuple[Offer, ...]:
    """Return what a page offers to do with an object, to this caller, now."""
    found = []
    for act in acts:
        told = state(services, caller, act, obj)
        if told is not None:
            href = address(act, obj.name, obj.namespace, uid=obj.metadata.uid)
            found.append(Offer(act.title, href, told, act.grave))
    return tuple(found)


def seen_fields(
    act: Act, services: ServiceContext, caller: Caller, obj: Resource | None
) -> tuple[Field, ...]:
    """Return the fields that this caller is asked: some need a right of their own."""
    return tuple(
        each
        for each in act.fields(services, caller, obj)
        if not each.right or access.may(caller.principal, each.right, act.kind)
    )
