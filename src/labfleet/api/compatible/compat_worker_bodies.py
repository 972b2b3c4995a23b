"""Bodies and replies of the worker routes under the compatible names: snake_case, no verbs here.

Unknown keys in the bodies of reports are ignored: these come from programs of several versions.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from labfleet.api.compatible.compat_routes import SeedRecord
from labfleet.service.verbs import adoption

Text = Annotated[str, msgspec.Meta(max_length=256)]
Words = Annotated[str, msgspec.Meta(max_length=1024)]


class FoundInstance(msgspec.Struct, frozen=True, kw_only=True):
    """One instance that a scan found; `tags` tell whether it has an owner."""

    instance_id: Text
    state: Text = "running"
    public_ip: str | None = None
    private_ip: str | None = None
    instance_type: str | None = None
    image_id: str | None = None
    launch_time: datetime | None = None
    name: str | None = None
    tags: dict[str, str] = {}


class BulkImportBody(msgspec.Struct, frozen=True, kw_only=True):
    """What a scan of one region found (upstream 002)."""

    discovered_instances: Annotated[
        tuple[FoundInstance, ...], msgspec.Meta(max_length=adoption.FOUND_LIMIT)
    ]
    aws_region: Text
    source: Text = ""


class BulkImportReply(SeedRecord, frozen=True, kw_only=True):
    """The result of the import; `skipped` gives the reason for each instance left alone."""

    total_found: int
    total_imported: int
    imported: tuple[str, ...]
    skipped: dict[str, str]


class StatusBody(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a worker as the caller reports it."""

    status: Text
    reason: Words = ""


class StatusReply(SeedRecord, frozen=True, kw_only=True):
    """The worker's real state."""

    worker_id: str
    status: str
    phase: str
    health: str
    desired_status: str
    message: str
    reported: str | None = None


class WhyBody(msgspec.Struct, frozen=True, kw_only=True):
    """The reason of the request, and who makes it."""

    reason: Words = ""
    requested_by: Text = ""
    terminated_by: Text = ""


class ScaleUpBody(msgspec.Struct, frozen=True, kw_only=True):
    """A request for one more worker: of which template, and why."""

    template: Text
    reason: Words = ""


class CleanupBody(msgspec.Struct, frozen=True, kw_only=True):
    """Which records of ended workers to remove."""

    retention_days: Annotated[int, msgspec.Meta(ge=1, le=365)] = 30
    dry_run: bool = False


class CleanupReply(SeedRecord, frozen=True, kw_only=True):
    """The records that were removed, or would be."""

    removed: tuple[str, ...]
    dry_run: bool


class CapacityReply(SeedRecord, frozen=True, kw_only=True):
    """A worker's capacity and what of it is reserved; null is unknown."""

    worker_id: str
    declared_capacity: dict[str, int] | None
    allocated_capacity: dict[str, int]


class CreateBody(SeedRecord, frozen=True, kw_only=True):
    """A worker to make in a region."""

    name: Text
    template: Text


class TagsBody(SeedRecord, frozen=True, kw_only=True):
    """Tags to set; a null value removes one."""

    tags: dict[str, str | None]


class ImportBody(SeedRecord, frozen=True, kw_only=True):
    """An instance to take over by its id: `aws_instance_id` (upstream 002) or `instance_id`.

    Without a template it is that of the settings (`discovery.template`), as for what discovery
    finds.
    """

    aws_instance_id: Text | None = None
    instance_id: Text | None = None
    template: Text | None = None
    name: Text | None = None
