"""What people do with definitions and simulations: out of use, other amounts, an early end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labfleet.kernel import quantity
from labfleet.kernel.quantity import count
from labfleet.resources.kinds import KINDS
from labfleet.resources.lab_recommendation import SizedAmounts
from labfleet.resources.session import TERMINAL, Session
from labfleet.resources.simulation import OPEN
from labfleet.service.core import intake
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices, rules
from labfleet.service.verbs import admission, objects, recommending
from labfleet.web import recommended, values
from labfleet.web.acts import edits, fields
from labfleet.web.acts.act import Act, Doing, same
from labfleet.web.acts.fields import Field

_CHOICES = (
    ("bound", "the bound of what past sessions used"),
    ("max", "the greatest peak"),
    ("latest", "the newest session's peak"),
    ("custom", "amounts of one's own"),
)
_PROPOSED = ("proposed", "what is proposed")


def _deprecate(*, deprecated: bool, said: str) -> Any:
    async def does(doing: Doing) -> str:
        await edits.write(doing, "Definition", {"deprecated": deprecated})
        return f"Done: {said.format(doing.name)}."

    return does


async def _deprecate_follows(doing: Doing) -> Sequence[str]:
    await edits.tried(doing, [doing.manifest("Definition", {"deprecated": True})])
    index = indices.filter_of("Session", "definition")
    found = [
        each for each in doing.services.cache.by(index, doing.name)
        if isinstance(each, Session) and each.namespace == doing.namespace
        and each.status.phase not in TERMINAL
    ]  # fmt: skip
    return [
        "No new session may use it; its family's newest other version is used instead.",
        f"{count(len(found), 'session')} of it that are not over keep it.",
    ]


def _amount_fields(*, propose: bool) -> Any:
    def asked(_s: ServiceContext, _c: Caller, _definition: Any) -> tuple[Field, ...]:
        choices = _CHOICES if propose else (*_CHOICES, _PROPOSED)
        told = "Only of one's own; empty leaves it as it is declared."
        return (
            Field(name="value", label="What it asks for", show="choice", required=True,
                  choices=choices, first="bound"),
            Field(name="cpu", label="CPU", help=f"Such as 2 or 500m. {told}", most=20),
            Field(name="memory", label="Memory", help=f"Such as 4Gi. {told}", most=20),
            Field(name="storage", label="Disk", help=f"Such as 20Gi. {told}", most=20),
            fields.reason(recommending.TEXT_LIMIT),
        )  # fmt: skip

    return asked


def _custom(doing: Doing) -> SizedAmounts | None:
    """Return the amounts of one's own; Invalid for what is none, or stands beside another choice."""
    texts = {name: doing.text(name) for name in ("cpu", "memory", "storage")}
    if doing.text("value") != "custom":
        given = [name for name, text in texts.items() if text]
        if given:
            raise intake.invalid((given[0], "is for amounts of one's own"))
        return None
    made: dict[str, int | None] = {}
    for name, text in texts.items():
        try:
            made[name] = None if not text else (
                quantity.parse_cpu(text) if name == "cpu" else quantity.parse_memory(text)
            )  # fmt: skip
        except ValueError as error:
            raise intake.invalid((name, str(error))) from None
    return SizedAmounts(
        cpu_milli=made["cpu"], memory_mib=made["memory"], storage_mib=made["storage"]
    )


async def _apply(doing: Doing) -> str:
    value: Any = doing.text("value")
    new = await recommending.apply(
        doing.services, doing.caller, *doing.where, value=value, custom=_custom(doing),
        reason=doing.text("reason"), key=doing.key,
    )  # fmt: skip
    return f"Done: {new.name} is the new version; sessions keep the one that they have."


async def _propose(doing: Doing) -> str:
    value: Any = doing.text("value")
    await recommending.propose(
        doing.services, doing.caller, *doing.where, value=value, custom=_custom(doing),
        reason=doing.text("reason"),
    )  # fmt: skip
    return f"Done: proposed for {doing.name}; an admin may apply it."


async def _withdraw(doing: Doing) -> str:
    await recommending.propose(doing.services, doing.caller, *doing.where, value=None)
    return f"Done: nothing is proposed for {doing.name}."


async def _undo(doing: Doing) -> str:
    done = await recommending.undo(
        doing.services, doing.caller, *doing.where, reason=doing.text("reason")
    )
    return f"Done: {done.name} is out of use; new sessions get the version before."


async def _size_follows(doing: Doing) -> Sequence[str]:
    """Say what the chosen amounts come to, by past sessions; that the choice is refused, when it is."""
    choices = await recommended.choices(doing.services, doing.caller, doing.obj)
    if choices is None:
        return ()
    chosen = doing.text("value") or "bound"
    rows = [each for each in choices if each[0] == chosen]
    told = [
        f"It would ask for {amounts}; past ones beyond that: {exceeded}. {outcome}."
        for _, amounts, exceeded, outcome, refused in rows if not refused
    ]  # fmt: skip
    told += [f"It cannot be applied: {each[4]}." for each in rows if each[4]]
    return [*told, "It is a new version: sessions that were accepted keep the one that they have."]


def _applied(_s: ServiceContext, _c: Caller, definition: Any) -> str | None:
    return None if definition.status.applied is None else ""


def _value_line(doing: Doing, flag: str) -> str:
    own = [doing.option(f"--{name}", name) for name in ("cpu", "memory", "storage")]
    asked = f"--{flag} {doing.text('value') or 'bound'}"
    return doing.line("recommend", asked, *own, doing.option("--reason", "reason"))


def _open_run(_s: ServiceContext, _c: Caller, run: Any) -> str | None:
    return "" if run.status.phase in OPEN else None


async def _cancel_run(doing: Doing) -> str:
    await admission.simulation_complete(
        doing.services, doing.caller, *doing.where, status="cancelled"
    )
    return f"Done: {doing.name} is cancelled, and what it held is free."


async def _cancel_run_follows(doing: Doing) -> Sequence[str]:
    return [
        "What it holds is free for others at once.",
        "Nothing here stops its pods: whoever started them ends them.",
        f"It is {doing.obj.status.phase} on cluster {doing.obj.spec.cluster}.",
    ]


async def _delete(doing: Doing) -> str:
    kind = doing.obj.kind
    await objects.delete(doing.services, doing.caller, KINDS[kind], *doing.where, uid=doing.uid)
    return f"Done: {kind.lower()} {doing.name} is gone."


async def delete_follows(doing: Doing) -> Sequence[str]:
    """Say that an object goes, and raise what would refuse that."""
    await rules.delete(doing.services, doing.caller, doing.obj)
    return ["Nothing refers to it any more, so it goes at once; its history stays in the log."]


ACTS = (
    Act(
        verb="apply", kind="Definition", title="Apply a recommendation", right="apply",
        routes="applyDefinitionRecommendation", does=_apply, follows=_size_follows,
        fields=_amount_fields(propose=False), line=lambda doing: _value_line(doing, "apply"),
        back="Undo the recommendation takes the new version out of use.",
    ),
    Act(
        verb="propose", kind="Definition", title="Propose", right="recommend",
        routes="proposeDefinitionRecommendation", does=_propose, follows=_size_follows,
        fields=_amount_fields(propose=True), line=lambda doing: _value_line(doing, "propose"),
        back="Withdraw takes it back.", undo=lambda doing: same(doing, "definitions", "withdraw"),
    ),
    Act(
        verb="withdraw", kind="Definition", title="Withdraw the proposal", right="recommend",
        routes="proposeDefinitionRecommendation", does=_withdraw,
        opens=lambda _s, _c, one: None if one.status.proposal is None else "",
        line=lambda doing: doing.line("recommend", "--withdraw"),
    ),
    Act(
        verb="undo-recommendation", kind="Definition", title="Undo the recommendation",
        right="apply", routes="undoDefinitionRecommendation", does=_undo, opens=_applied,
        fields=lambda _s, _c, _o: (fields.reason(recommending.TEXT_LIMIT),), grave=True,
        line=lambda doing: doing.line("recommend", "--undo", doing.option("--reason", "reason")),
        back="Put it in use again takes that back.",
    ),
    Act(
        verb="deprecate", kind="Definition", title="Deprecate", right="update", many=True,
        routes="patchDefinition", does=_deprecate(deprecated=True, said="no new session may use {}"),
        follows=_deprecate_follows, opens=lambda _s, _c, one: None if one.spec.deprecated else "",
        line=lambda doing: doing.applied("Definition", {"deprecated": True}),
        back="Put it in use again takes that back.",
        undo=lambda doing: same(doing, "definitions", "use-again"),
    ),
    Act(
        verb="use-again", kind="Definition", title="Put in use again", right="update", many=True,
        routes="patchDefinition", does=_deprecate(deprecated=False, said="sessions may use {} again"),
        opens=lambda _s, _c, one: "" if one.spec.deprecated else None,
        line=lambda doing: doing.applied("Definition", {"deprecated": False}),
        undo=lambda doing: same(doing, "definitions", "deprecate"),
    ),
    Act(
        verb="delete", kind="Definition", title="Delete", right="delete", many=True,
        routes="deleteDefinition", does=_delete, follows=delete_follows, grave=True,
        line=lambda doing: doing.line("delete definition"), goes=lambda _doing: "/definitions",
    ),
    Act(
        verb="cancel", kind="Simulation", title="Cancel", right="admit", many=True, grave=True,
        routes="simulationComplete", does=_cancel_run, follows=_cancel_run_follows,
        opens=_open_run, line=lambda doing: doing.line("cancel", target=f"sim/{doing.name}"),
    ),
    Act(
        verb="delete", kind="Simulation", title="Delete record", right="delete", many=True,
        routes="deleteSimulation", does=_delete, follows=delete_follows, grave=True,
        opens=lambda _s, _c, run: None if run.status.phase in OPEN else "",
        line=lambda doing: doing.line("delete simulation"),
        goes=lambda doing: "/" if doing.caller.principal.role != "runner" else values.address(
            "simulations", *doing.where, doing.uid or ""
        ),
    ),
)  # fmt: skip
