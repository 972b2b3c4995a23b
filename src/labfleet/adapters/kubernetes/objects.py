"""The few fields of Kubernetes objects that are read; all others are skipped while decoding.

Names are those of the API. A pod has some ten kilobytes of JSON, of which we keep a hundredth.
"""

from __future__ import annotations

import msgspec

Quantity = str | int | float
Quantities = dict[str, Quantity]


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Part of an object."""


class OwnerRef(_Part, frozen=True, kw_only=True):
    """Which object made another."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class Meta(_Part, frozen=True, kw_only=True, rename=None):
    """Identity of an object; lightkube reads `resourceVersion` by this name."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815
    labels: dict[str, str] | None = None
    ownerReferences: list[OwnerRef] | None = None  # noqa: N815
    deletionTimestamp: str | None = None  # noqa: N815


class Resources(_Part, frozen=True, kw_only=True):
    """What a container or pod requests."""

    requests: Quantities | None = None


class Container(_Part, frozen=True, kw_only=True):
    """A container as asked for."""

    name: str = ""
    resources: Resources | None = None
    restart_policy: str | None = None


class PodSpec(_Part, frozen=True, kw_only=True):
    """What was asked for; a bookmark has none."""

    node_name: str | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: Quantities | None = None
    resources: Resources | None = None


class Terminated(_Part, frozen=True, kw_only=True):
    """How a container ended."""

    exit_code: int = 0
    reason: str | None = None
    finished_at: str | None = None


class Waiting(_Part, frozen=True, kw_only=True):
    """Why a container does not run."""

    reason: str | None = None
    message: str | None = None


class ContainerState(_Part, frozen=True, kw_only=True):
    """One of three; running is neither."""

    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(_Part, frozen=True, kw_only=True):
    """A container as it is."""

    name: str = ""
    state: ContainerState | None = None
    last_state: ContainerState | None = None


class ObjectCondition(_Part, frozen=True, kw_only=True):
    """A fact about a pod or node."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class PodStatus(_Part, frozen=True, kw_only=True):
    """A pod as it is."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    conditions: list[ObjectCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None


class PodObject(_Part, frozen=True, kw_only=True):
    """A pod."""

    metadata: Meta = Meta()
    spec: PodSpec | None = None
    status: PodStatus | None = None


class Taint(_Part, frozen=True, kw_only=True):
    """What keeps pods from a node."""

    key: str = ""
    effect: str = ""


class NodeSpec(_Part, frozen=True, kw_only=True):
    """How a node is used."""

    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class NodeStatus(_Part, frozen=True, kw_only=True):
    """A node as it is."""

    allocatable: Quantities | None = None
    conditions: list[ObjectCondition] | None = None


class NodeObject(_Part, frozen=True, kw_only=True):
    """A node."""

    metadata: Meta = Meta()
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class OwnerStatus(_Part, frozen=True, kw_only=True):
    """What makes pods, as it is: a Job says here that it is over."""

    conditions: list[ObjectCondition] | None = None


class OwnerObject(_Part, frozen=True, kw_only=True):
    """Whatever makes pods: who it is, and whether it is over."""

    metadata: Meta = Meta()
    status: OwnerStatus | None = None


class Measured(_Part, frozen=True, kw_only=True):
    """A container as metrics.k8s.io measured it."""

    usage: Quantities | None = None


class PodFigures(_Part, frozen=True, kw_only=True):
    """A pod as metrics.k8s.io measured it."""

    metadata: Meta = Meta()
    timestamp: str = ""
    containers: list[Measured] | None = None


class NodeFigures(_Part, frozen=True, kw_only=True):
    """A node as metrics.k8s.io measured it."""

    metadata: Meta = Meta()
    timestamp: str = ""
    usage: Quantities | None = None
