"""Routes of what definitions should ask for: read it, apply it, undo that, propose it."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar.params import QueryParameter

from labfleet.api.core.route import Key, Name, Routes
from labfleet.api.kinds.kind_routes import Namespace
from labfleet.resources.definition import Definition
from labfleet.resources.lab_recommendation import LabRecommendation, SizedAmounts, Value
from labfleet.resources.meta import Record
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import recommendations
from labfleet.service.verbs import recommending

Alone = Annotated[
    bool,
    QueryParameter(
        name="alone", description="By sessions of this very version, not of all its family's."
    ),
]
Words = Annotated[str, msgspec.Meta(max_length=recommending.TEXT_LIMIT)]


class ApplyRecommendation(Record, frozen=True, kw_only=True):
    """What the next version of the family shall ask for.

    value: The greatest peak, the newest one, the bound, amounts of one's own, or what is proposed.
    custom: The amounts that custom means; what is left out stays as declared.
    reason: Why, for the log and for people.
    """

    value: Value
    custom: SizedAmounts | None = None
    reason: Words = ""


class ProposeRecommendation(Record, frozen=True, kw_only=True):
    """What the definition shall ask for, for an admin to apply.

    value: As in applying; null takes the proposal back.
    custom: The amounts that custom means; what is left out stays as declared.
    reason: Why, for people.
    """

    value: Value | None
    custom: SizedAmounts | None = None
    reason: Words = ""


class UndoRecommendation(Record, frozen=True, kw_only=True):
    """Why a version that a recommendation made is taken out of use.

    reason: Why, for the log and for people.
    """

    reason: Words = ""


def routes(services: ServiceContext) -> Routes:
    """Return the routes."""
    made = Routes("definitions")
    _reading(made, services)
    _applying(made, services)
    return made


def _reading(made: Routes, services: ServiceContext) -> None:
    @made.get(
        "/api/v1/definitions/{name:str}/recommendation", "What a definition should ask for",
        needs=("recommend", "Definition"),
    )  # fmt: skip
    async def get_definition_recommendation(
        who: Caller, name: Name, *, namespace: Namespace = "default", alone: Alone = False
    ) -> LabRecommendation:
        """Return what the newest sessions of its family used, what may be applied, and what follows."""
        return await recommendations.recommendation(services, who, name, namespace, alone=alone)

    @made.post(
        "/api/v1/definitions/{name:str}/recommendation/propose", "Propose what it should ask for",
        needs=("recommend", "Definition"),
    )  # fmt: skip
    async def propose_definition_recommendation(
        who: Caller, name: Name, sent: ProposeRecommendation, namespace: Namespace = "default"
    ) -> Definition:
        """Record what somebody proposes, until an admin applies it or somebody takes it back."""
        return await recommending.propose(
            services, who, name, namespace,
            value=sent.value, custom=sent.custom, reason=sent.reason,
        )  # fmt: skip


def _applying(made: Routes, services: ServiceContext) -> None:
    @made.post(
        "/api/v1/definitions/{name:str}/recommendation/apply",
        "Make the next version, which asks for other amounts",
        needs=("apply", "Definition"), status=201,
    )  # fmt: skip
    async def apply_definition_recommendation(
        who: Caller,
        name: Name,
        sent: ApplyRecommendation,
        *,
        namespace: Namespace = "default",
        idempotency_key: Key = None,
    ) -> Definition:
        """Make the family's next version; sessions that were accepted keep the one that they have."""
        return await recommending.apply(
            services, who, name, namespace,
            value=sent.value, custom=sent.custom, reason=sent.reason, key=idempotency_key,
        )  # fmt: skip

    @made.post(
        "/api/v1/definitions/{name:str}/recommendation/undo",
        "Take the version out of use that a recommendation made",
        needs=("apply", "Definition"),
    )  # fmt: skip
    async def undo_definition_recommendation(
        who: Caller, name: Name, sent: UndoRecommendation, namespace: Namespace = "default"
    ) -> Definition:
        """Deprecate that version; new sessions that name the family get the one before."""
        return await recommending.undo(services, who, name, namespace, reason=sent.reason)
