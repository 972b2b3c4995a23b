"""Bodies and replies of the worker routes under the compatible names: snake_case, no verbs here.

Unknown keys in the bodies of reports are ignored: these come from programs of several versions.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec

from labfleet.api.compatible.compat_routes import SeedRecord
from labfleet.resources.machine import LicenceProduct
from labfleet.resources.meta import SecretRef
from labfleet.service.core import intake
from labfleet.service.verbs import adoption

Text = Annotated[str, msgspec.Meta(max_length=256)]
Words = Annotated[str, msgspec.Meta(max_length=1024)]


class FoundInstance(msgspec.Struct, frozen=True, kw_only=True):
    """One instance that a scan found; `tags` tell whether it has an owner.

    instance_id: The provider's name for the instance.
    state: State of the instance.
    public_ip: Public address.
    private_ip: Private address.
    instance_type: Type of the instance.
    image_id: Image that it was started from.
    launch_time: When it was launched.
    name: Its name tag.
    tags: Its tags, which tell whether it has an owner.
    """

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
    """What a scan of one region found (upstream 002).

    discovered_instances: The instances.
    aws_region: Region that was scanned.
    source: Who scanned it.
    """

    discovered_instances: Annotated[
        tuple[FoundInstance, ...], msgspec.Meta(max_length=adoption.FOUND_LIMIT)
    ]
    aws_region: Text
    source: Text = ""


class BulkImportReply(SeedRecord, frozen=True, kw_only=True):
    """The result of the import; `skipped` gives the reason for each instance left alone.

    total_found: Instances of the request.
    total_imported: Workers made of them.
    imported: Names of these workers.
    skipped: Instance to why it was left alone.
    """

    total_found: int
    total_imported: int
    imported: tuple[str, ...]
    skipped: dict[str, str]


class LicenseBody(msgspec.Struct, frozen=True, kw_only=True):
    """With which token to register; upstream sends the token itself, here it is a reference.

    token: Where the token is, as {"env": NAME} or {"file": NAME}; the token itself is refused.
    product: Product to register.
    reregister: Whether to register anew what is registered.
    """

    token: Any = None
    product: LicenceProduct | None = None
    reregister: bool = False

    def reference(self) -> SecretRef | None:
        """Return where the token is; Invalid for the token itself, which is never kept."""
        if self.token is None:
            return None
        try:
            return msgspec.convert(self.token, SecretRef)
        except msgspec.ValidationError:
            what = 'say where the token is: {"env": NAME} or {"file": NAME}; the token itself is not taken'
            raise intake.invalid(("token", what), reason="SecretExpected") from None


class StatusBody(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a worker as the caller reports it.

    status: State that the caller has seen.
    reason: Why, in the caller's words.
    """

    status: Text
    reason: Words = ""


class StatusReply(SeedRecord, frozen=True, kw_only=True):
    """The worker's real state.

    worker_id: Name of the worker.
    status: Where it stands, in upstream 002's word.
    phase: Where it stands.
    health: How the server does as a whole.
    desired_status: State that people want.
    message: Sentence for people on where it stands.
    reported: State that the caller reported; null when none was.
    """

    worker_id: str
    status: str
    phase: str
    health: str
    desired_status: str
    message: str
    reported: str | None = None


class WhyBody(msgspec.Struct, frozen=True, kw_only=True):
    """The reason of the request, and who makes it.

    reason: Why, for the log and for people.
    requested_by: Who asks, in the caller's word.
    terminated_by: Who has ended it, in the caller's word.
    """

    reason: Words = ""
    requested_by: Text = ""
    terminated_by: Text = ""


class ScaleUpBody(msgspec.Struct, frozen=True, kw_only=True):
    """A request for one more worker: of which template, and why.

    template: Name of the template of the new worker.
    reason: Why, for the log and for people.
    """

    template: Text
    reason: Words = ""


class CleanupBody(msgspec.Struct, frozen=True, kw_only=True):
    """Which records of ended workers to remove.

    retention_days: Records of workers that ended longer ago are removed.
    dry_run: Whether they are only listed.
    """

    retention_days: Annotated[int, msgspec.Meta(ge=1, le=365)] = 30
    dry_run: bool = False


class CleanupReply(SeedRecord, frozen=True, kw_only=True):
    """The records that were removed, or would be.

    removed: Names of the workers.
    dry_run: Whether they were only listed.
    """

    removed: tuple[str, ...]
    dry_run: bool


class CapacityReply(SeedRecord, frozen=True, kw_only=True):
    """A worker's capacity and what of it is reserved; null is unknown.

    worker_id: Name of the worker.
    declared_capacity: What the worker has, by dimension; null when unknown.
    allocated_capacity: What is reserved of it, by dimension.
    """

    worker_id: str
    declared_capacity: dict[str, int] | None
    allocated_capacity: dict[str, int]


class CreateBody(SeedRecord, frozen=True, kw_only=True):
    """A worker to make in a region.

    name: Name of the worker.
    template: Name of the template that its machine is copied from.
    """

    name: Text
    template: Text


class TagsBody(SeedRecord, frozen=True, kw_only=True):
    """Tags to set; a null value removes one.

    tags: Key to value; null removes the tag.
    """

    tags: dict[str, str | None]


class ImportBody(SeedRecord, frozen=True, kw_only=True):
    """An instance to take over by its id, under upstream 002's name of it or ours.

    aws_instance_id: The provider's name for the instance.
    instance_id: The same; one of the two is enough.
    template: Name of the template whose CML access it gets; null means that of the setting
    `discovery.template`, as for what discovery finds.
    name: Name of the worker; null lets the server choose one.
    """

    aws_instance_id: Text | None = None
    instance_id: Text | None = None
    template: Text | None = None
    name: Text | None = None
