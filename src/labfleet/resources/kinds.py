"""The one table of kinds: REST, OpenAPI, CLI and the reference page come from it."""

from __future__ import annotations

from typing import Any

import msgspec

from labfleet.kernel import errors
from labfleet.resources import (
    cluster,
    definition,
    fleet_settings,
    leak,
    pool,
    region,
    session,
    template,
    webhook,
    worker,
)
from labfleet.resources.meta import Record, Resource


class Column(Record, frozen=True, kw_only=True):
    """One column of a table for people: heading, dotted path, only in wide output or not."""

    title: str
    path: str
    wide: bool = False


class Kind(Record, frozen=True, kw_only=True):
    """One row: what a kind is called, its type, and the rules that are the same for all.

    `frozen` lists spec fields (snake_case) that may not change after creation. `amounts`
    lists (path, is_supply) of Amounts blocks where friendly quantities are accepted.
    `filters` lists (name, path) by which a list can be filtered; an index is kept of each.
    `creatable` False means: objects appear through a verb, never by POST.
    """

    name: str
    plural: str
    type: Any
    summary: str
    short: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    filters: tuple[tuple[str, str], ...] = ()
    frozen: tuple[str, ...] = ()
    amounts: tuple[tuple[str, bool], ...] = ()
    creatable: bool = True


def _columns(*rows: str) -> tuple[Column, ...]:
    made = []
    for row in rows:
        title, path = row.removesuffix("*").split("=")
        made.append(Column(title=title, path=path, wide=row.endswith("*")))
    return tuple(made)


def _filters(*rows: str) -> tuple[tuple[str, str], ...]:
    return tuple([(name, path) for name, _, path in (row.partition("=") for row in rows)])


_ROWS = (
    Kind(
        name="Worker",
        plural="workers",
        short=("w",),
        type=worker.Worker,
        summary="One CML server, usually one EC2 instance.",
        columns=_columns(
            "PHASE=status.phase", "HEALTH=status.health", "POOL=spec.pool",
            "LICENSED=status.licence.licensed",
            "ADDRESS=status.ec2.publicIp|status.ec2.privateIp|spec.origin.url",
            "INSTANCE=status.ec2.instanceId*", "TYPE=status.ec2.instanceType*",
            "ZONE=status.ec2.availabilityZone*", "VERSION=status.cml.version*",
            "MESSAGE=status.message*",
        ),
        filters=_filters("phase=status.phase", "pool=spec.pool"),
        frozen=("track", "pool", "template", "machine", "origin"),
        amounts=(("machine.capacity", True),),
    ),
    Kind(
        name="Pool",
        plural="pools",
        short=("p",),
        type=pool.Pool,
        summary="The workers of one lab track, with a scaling policy.",
        columns=_columns(
            "PHASE=status.phase", "TRACK=spec.track", "MIN=spec.scaling.minWorkers",
            "MAX=spec.scaling.maxWorkers", "WORKERS=status.workers", "READY=status.ready",
            "WAITING=status.waitingSessions", "PAUSED=spec.paused*", "TEMPLATE=spec.template*",
            "MESSAGE=status.message*",
        ),
        filters=_filters("phase=status.phase"),
        frozen=("track", "name_prefix"),
    ),
    Kind(
        name="Template",
        plural="templates",
        short=("t",),
        type=template.Template,
        summary="What a new worker is made of.",
        columns=_columns(
            "ENABLED=spec.enabled", "TYPES=spec.machine.aws.instanceTypes",
            "REGION=spec.machine.aws.region", "USD/H=spec.machine.hourlyPriceUsd",
        ),
        amounts=(("machine.capacity", True),),
    ),
    Kind(
        name="Definition",
        plural="definitions",
        short=("def",),
        type=definition.Definition,
        summary="A versioned lab: topology, requested resources, port template.",
        columns=_columns(
            "VERSION=spec.version", "PHASE=status.phase", "NODES=status.nodeCount",
            "CPU(m)=status.demand.cpuMilli", "MEMORY(MiB)=status.demand.memoryMib",
            "PORTS=status.demand.ports", "TITLE=spec.title*",
        ),
        filters=_filters("phase=status.phase"),
        frozen=(
            "topology", "version", "track", "resources", "port_template", "licence_affinity",
        ),
        amounts=(("resources", False),),
    ),
    Kind(
        name="Session",
        plural="sessions",
        short=("s", "lablet", "l"),
        type=session.Session,
        summary="One person's use of one definition in a time slot.",
        columns=_columns(
            "PHASE=status.phase", "DEFINITION=spec.definition", "OWNER=spec.owner",
            "WORKER=status.worker", "START=status.start", "END=status.end",
            "REASON=status.reason*", "MESSAGE=status.message*",
        ),
        filters=_filters(
            "phase=status.phase", "owner=spec.owner", "worker=status.worker", "definition=spec.definition",
        ),
        frozen=("definition", "owner", "track", "reservation_id"),
    ),
    Kind(
        name="Cluster",
        plural="clusters",
        type=cluster.Cluster,
        summary="A Kubernetes cluster, or one namespace of it, that simulations run on.",
        columns=_columns(
            "CPU(m)=spec.capacity.cpuMilli", "MEMORY(MiB)=spec.capacity.memoryMib",
            "TARGET%=spec.cpuPercent",
        ),
        amounts=(("capacity", True),),
    ),
    Kind(
        name="Simulation",
        plural="simulations",
        short=("sim",),
        type=cluster.Simulation,
        summary="One run that asked for admission to a cluster.",
        columns=_columns(
            "PHASE=status.phase", "CLUSTER=spec.cluster", "CPU(m)=spec.cost.cpuMilli",
            "MEMORY(MiB)=spec.cost.memoryMib", "DECIDED=status.decidedAt",
        ),
        filters=_filters("phase=status.phase", "owner=spec.owner", "cluster=spec.cluster"),
        frozen=("cluster", "params", "cost", "duration_seconds", "owner"),
        amounts=(("cost", False),),
        creatable=False,
    ),
    Kind(
        name="Settings",
        plural="settings",
        short=("setting",),
        type=fleet_settings.Settings,
        summary="What people change while the fleet runs: discovery, idle, thresholds, garbage.",
        columns=_columns(
            "PAUSED=spec.automation.paused", "BY=spec.automation.by",
            "REASON=spec.automation.reason",
        ),
    ),
    Kind(
        name="Webhook",
        plural="webhooks",
        short=("hook",),
        type=webhook.Webhook,
        summary="A subscription to events of the log, delivered as CloudEvents 1.0.",
        columns=_columns(
            "ENABLED=spec.enabled", "TYPES=spec.types", "URL=spec.url",
            "DELIVERED=status.delivered", "FAILURES=status.failures", "LAST=status.lastStatus",
            "ERROR=status.lastError*",
        ),
    ),
    Kind(
        name="Region",
        plural="regions",
        short=("r",),
        type=region.Region,
        summary="A provider region that is scanned and swept, and what was found there.",
        columns=_columns(
            "LAST SCAN=status.scan.lastRunAt", "FOUND=status.scan.discovered",
            "IMPORTED=status.scan.imported", "ENDED=status.ended", "WAITS=status.waits",
            "ERROR=status.scan.lastError*", "SUSPECTS=status.suspects*",
        ),
        creatable=False,
    ),
    Kind(
        name="Leak",
        plural="leaks",
        type=leak.Leak,
        summary="A licence that could not be given back; a person must free it.",
        columns=_columns(
            "WORKER=spec.worker", "PRODUCT UUID=spec.productUuid", "HOSTNAME=spec.hostname",
            "SINCE=spec.since", "WHY=spec.why", "FIX=spec.fix*",
        ),
        frozen=(
            "worker", "worker_uid", "instance_id", "region", "product_uuid", "hostname",
            "product", "since", "why", "fix", "certain",
        ),
        creatable=False,
    ),
)  # fmt: skip

KINDS: dict[str, Kind] = {row.name: row for row in _ROWS}


def by_word(word: str) -> Kind:
    """Return the kind that a person means by its name, plural or short form; Invalid if none."""
    wanted = word.lower()
    for row in _ROWS:
        if wanted in {row.name.lower(), row.plural, *row.short}:
            return row
    known = ", ".join(row.plural for row in _ROWS)
    message = f"unknown kind {word!r}; the kinds are {known}"
    raise errors.Invalid(message, reason="UnknownKind")


def encode(obj: Resource) -> bytes:
    """Return the stored form: JSON without resourceVersion, which the store's row carries."""
    bare = msgspec.structs.replace(obj.metadata, resource_version="")
    return msgspec.json.encode(msgspec.structs.replace(obj, metadata=bare))


_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    row.name: msgspec.json.Decoder(row.type) for row in _ROWS
}


def decode(kind: str, doc: bytes, revision: int) -> Any:
    """Return the typed object of a stored form, at this revision.

    Any, because the caller names the kind; `engine.objects` gives the typed faces.
    """
    obj = _DECODERS[kind].decode(doc)
    metadata = msgspec.structs.replace(obj.metadata, resource_version=str(revision))
    return msgspec.structs.replace(obj, metadata=metadata)
