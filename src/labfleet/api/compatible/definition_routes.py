"""The compatible route by which an admin applies what sessions of a definition used."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from labfleet.api.compatible.compat_routes import Id, SeedRecord
from labfleet.api.core.route import Key, Routes
from labfleet.api.kinds.kind_routes import Namespace
from labfleet.resources.definition import family_of
from labfleet.resources.lab_recommendation import SizedAmounts
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.verbs import recommending

Cores = Annotated[float, msgspec.Meta(gt=0, le=1e6)]
Megabytes = Annotated[int, msgspec.Meta(ge=1, le=2**40)]


class AppliedBody(SeedRecord, frozen=True, kw_only=True):
    """What the next version shall ask for, in upstream 000's units.

    value: The greatest peak, the newest one, the bound, amounts of one's own, or what is proposed.
    cpu_cores: Cores, with custom.
    memory_mb: MB of memory, with custom.
    storage_mb: MB of disk, with custom.
    """

    value: Literal["max", "latest", "bound", "custom", "proposed"]
    cpu_cores: Cores | None = None
    memory_mb: Megabytes | None = None
    storage_mb: Megabytes | None = None


class AppliedReply(SeedRecord, frozen=True, kw_only=True):
    """The version that was made.

    definition_id: Name of the new version.
    made_of: Name of the version that it was made of.
    family: Family of both.
    version: The new version.
    cpu_cores: Cores that one lab asks for now.
    memory_mb: MB of memory that one lab asks for now.
    storage_mb: MB of disk that one lab asks for now.
    applied_at: When it was made.
    """

    definition_id: str
    made_of: str
    family: str
    version: str
    cpu_cores: float
    memory_mb: int
    storage_mb: int
    applied_at: datetime | None


def routes(services: ServiceContext) -> Routes:
    """Return the route."""
    made = Routes("seeds")

    @made.post(
        "/api/lablet-definitions/{id_:str}/apply", "Apply what sessions of a definition used",
        needs=("apply", "Definition"), status=201,
    )  # fmt: skip
    async def apply_observations(
        who: Caller,
        id_: Id,
        sent: AppliedBody,
        *,
        namespace: Namespace = "default",
        idempotency_key: Key = None,
    ) -> AppliedReply:
        """Make the family's next version; sessions that were accepted keep the one that they have."""
        custom = SizedAmounts(
            cpu_milli=None if sent.cpu_cores is None else max(1, round(sent.cpu_cores * 1000)),
            memory_mib=sent.memory_mb,
            storage_mib=sent.storage_mb,
        )
        new = await recommending.apply(
            services, who, id_, namespace, value=sent.value, key=idempotency_key,
            custom=None if custom == SizedAmounts() else custom,
        )  # fmt: skip
        applied, demand = new.status.applied, new.status.demand
        return AppliedReply(
            definition_id=new.name,
            made_of="" if applied is None else applied.source,
            family=family_of(new),
            version=new.spec.version,
            cpu_cores=demand.cpu_milli / 1000,
            memory_mb=demand.memory_mib,
            storage_mb=demand.storage_mib,
            applied_at=None if applied is None else applied.at,
        )

    return made
