"""A kind that only tests have: Gadget, in its two declarations."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum

import pytest

from labfleet.engine.index import Index
from labfleet.resources import kinds
from labfleet.resources.conditions import Condition, ConditionType, Reason
from labfleet.resources.declaration import (
    OVER,
    Kind,
    Loud,
    Page,
    PageColumn,
    State,
    columns,
    filters,
    runbook,
)
from labfleet.resources.meta import Record, Resource
from labfleet.service.core import intake
from labfleet.service.core.kind_table import TABLE, Change, EventType, KindRules
from labfleet.service.core.roles import Role
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds.admitted import Admitted

# --- the first declaration: fields, and all that is shown ----------------------------------


class GadgetPhase(StrEnum):
    """Whether it turns."""

    RESTING = "RESTING"
    TURNING = "TURNING"


class GadgetSpec(Record, frozen=True, kw_only=True):
    """What people want of a gadget.

    colour: Its colour.
    owner: Whose it is.
    size: How large it is.
    """

    colour: str = "grey"
    owner: str = ""
    size: int = 1


class GadgetStatus(Record, frozen=True, kw_only=True):
    """What was seen of a gadget.

    phase: Whether it turns.
    phase_since: Since when.
    message: Sentence for people.
    conditions: Facts about it.
    """

    phase: GadgetPhase = GadgetPhase.RESTING
    phase_since: datetime | None = None
    message: str = ""
    conditions: tuple[Condition, ...] = ()


class Gadget(Resource, frozen=True, kw_only=True):
    """A thing that turns."""

    spec: GadgetSpec
    status: GadgetStatus = GadgetStatus()
    kind: str = "Gadget"


class GadgetReason(Reason):
    """Why a condition of a gadget is as it is."""

    GREASED = "Greased", "Somebody has greased it."
    SQUEAKS = "Squeaks", "It was heard from afar."


class GadgetCondition(ConditionType):
    """The facts that are recorded of a gadget."""

    SMOOTH = "Smooth", "It turns without a sound.", GadgetReason.GREASED, GadgetReason.SQUEAKS


KIND = Kind(
    name="Gadget",
    plural="gadgets",
    short=("gad",),
    type=Gadget,
    summary="A thing that turns.",
    columns=columns("PHASE=status.phase", "COLOUR=spec.colour", "SIZE=spec.size*"),
    filters=filters("phase=status.phase", "colour=spec.colour", "owner=spec.owner"),
    frozen=("colour",),
    named_by="colour",
    conditions=GadgetCondition,
    reasons=GadgetReason,
    news=((GadgetCondition.SMOOTH, "False"),),
    loud=(Loud(GadgetCondition.SMOOTH, "False", "warning"),),
    resting=("RESTING",),
    runbook=runbook(
        "Gadget",
        ("TURNING", "an hour", "Nobody stops it.", "labfleet explain gadget/NAME", "Stop it."),
        ("Smooth", "", "False: it squeaks.", "labfleet explain gadget/NAME", "Grease it."),
    ),
    states={
        GadgetPhase.TURNING: State("turning", 2, "good", "●"),
        GadgetPhase.RESTING: State("resting", OVER, "calm", "■"),
    },
    page=Page(
        9,
        "Gadgets",
        (
            PageColumn("Gadget", "name"),
            PageColumn("State", "state", "status.phase"),
            PageColumn("Colour", "text", "spec.colour"),
        ),
        groups=("turning", "resting"),
        none="No gadgets",
        hints=(("Make one:", "labfleet apply -f gadget.yaml"),),
    ),
    followed=True,
)

# --- the second: rules, access, explanation, events, indices -------------------------------


class GadgetEvent(EventType):
    """What can happen to a gadget."""

    CREATED = "gadget.created", "somebody made a gadget"
    PAINTED = "gadget.resized", "it has another size (size)"


async def _create(services: ServiceContext, caller: Caller, new: Gadget) -> Admitted:
    del services, caller
    if new.spec.size > 9:
        raise intake.invalid(("spec.size", "gadgets are small"))
    return Admitted(new)


def _changed(old: Gadget, new: Gadget) -> Iterator[Change]:
    if old.spec.size != new.spec.size:
        yield Change(GadgetEvent.PAINTED, {"size": new.spec.size})


BY_SIZE: Index[Gadget, int] = Index(Gadget, "size", lambda gadget: (gadget.spec.size,))
RULES = KindRules(
    name="Gadget",
    create=_create,
    grants={Role.USER: frozenset({"read", "create"})},
    owned=frozenset({Role.USER}),
    about=lambda gadget: f"it is {gadget.spec.colour}",
    event_types=GadgetEvent,
    changed=_changed,
    indices=(BY_SIZE,),
)


def declare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the two declarations for one test: nothing else is told."""
    monkeypatch.setitem(kinds.KINDS, KIND.name, KIND)
    monkeypatch.setitem(TABLE, RULES.name, RULES)
