"""Leak: a licence that could not be given back; it outlives the worker that lost it.

Cisco's portal still counts it for an instance that is gone. A person removes the product
instance there and resolves the leak here.
"""

from __future__ import annotations

from datetime import datetime

from labfleet.resources.conditions import Condition
from labfleet.resources.declaration import Kind, columns
from labfleet.resources.meta import Record, Resource

KEPT = 1000
FIX = (
    "in Cisco Smart Software Manager remove the product instance with this product UUID or "
    "host name, then: labfleet resolve"
)


class LeakSpec(Record, frozen=True, kw_only=True):
    """Whose licence it is and why it was lost.

    worker: Name of the worker that had the licence.
    worker_uid: Identity of that worker.
    instance_id: The provider's name for its machine.
    region: Region of its machine.
    product_uuid: Identity of the machine in the licence portal.
    hostname: Name of the server in the licence portal.
    product: Product that it holds.
    since: Since when the licence is lost.
    why: Why it could not be given back.
    fix: What a person has to do.
    certain: Whether it is sure; false when an answer was lost and the portal may have been told
    after all.
    """

    worker: str
    worker_uid: str = ""
    instance_id: str | None = None
    region: str | None = None
    product_uuid: str | None = None
    hostname: str | None = None
    product: str | None = None
    since: datetime
    why: str = ""
    fix: str = FIX
    certain: bool = True


class LeakStatus(Record, frozen=True, kw_only=True):
    """Nothing is observed: who could tell is Cisco's portal.

    conditions: Facts about it, each with its reason.
    observed_generation: Generation of the spec that this status is about.
    """

    conditions: tuple[Condition, ...] = ()
    observed_generation: int = 0


class Leak(Resource, frozen=True, kw_only=True):
    """One licence that a person must free by hand."""

    spec: LeakSpec
    status: LeakStatus = LeakStatus()
    kind: str = "Leak"


KIND = Kind(
    name="Leak",
    plural="leaks",
    type=Leak,
    summary="A licence that could not be given back; a person must free it.",
    columns=columns(
        "WORKER=spec.worker",
        "PRODUCT UUID=spec.productUuid",
        "HOSTNAME=spec.hostname",
        "SINCE=spec.since",
        "WHY=spec.why",
        "FIX=spec.fix*",
    ),
    frozen=(
        "worker",
        "worker_uid",
        "instance_id",
        "region",
        "product_uuid",
        "hostname",
        "product",
        "since",
        "why",
        "fix",
        "certain",
    ),
    creatable=False,
)
