"""The envelope of every object: identity, versions, ownership, deletion.

Kubernetes conventions, because the users know them. `generation` moves on spec changes only;
`resourceVersion` is the revision of the last event about the object and moves on each write.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import msgspec

API_VERSION = "labfleet.dev/v1"
DEFAULT_NAMESPACE = "default"
"""Where the edges put what names no namespace; nothing below them assumes it."""

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
"""A short text that must not be empty."""


class Key(NamedTuple):
    """What names an object in the store: kind, namespace, name."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.lower()}/{self.label}"

    @property
    def path(self) -> str:
        """Return `namespace/name`: what indices and kept rows go by, unique within a kind."""
        return f"{self.namespace}/{self.name}"

    @property
    def argument(self) -> str:
        """Return the name as a command takes it: `w1`, outside of `default` `w1 -n exam`."""
        space = "" if self.namespace == DEFAULT_NAMESPACE else f" -n {self.namespace}"
        return self.name + space

    @property
    def label(self) -> str:
        """Return the name for people, with its namespace unless that is `default` or none."""
        return self.name if self.namespace in {DEFAULT_NAMESPACE, ""} else self.path


class Record(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True, gc=False
):
    """Base of everything that is stored: camelCase outside, unknown keys refused.

    Nothing in a record can hold the record itself, so the search for cycles passes them by.
    """


class OwnerReference(Record, frozen=True, kw_only=True):
    """The object that made this one and whose end is this one's end.

    kind: Kind of the owner.
    name: Name of the owner, in the same namespace.
    uid: Identity of the owner; another object may get its name later.
    """

    kind: str
    name: str
    uid: str


class Metadata(Record, frozen=True, kw_only=True):
    """Identity and bookkeeping; all but name, labels and annotations is the server's.

    name: Name, unique within kind and namespace.
    namespace: Namespace in which the object lies and its references are looked up.
    uid: Identity given by the server; a name may be given again, a uid never is.
    labels: Short words to select objects by (labelSelector).
    annotations: Texts for people and programs that nothing selects by.
    generation: Counts changes of spec; status and bookkeeping do not move it.
    resource_version: Revision of the last write; send it back to change only what you have read.
    finalizers: Promises to keep before the object is removed, such as an end of its machine.
    owner_references: Objects whose end is also the end of this one.
    creation_timestamp: When the object was made (fleet time).
    deletion_timestamp: When somebody asked for its end; null while nobody has.
    """

    name: str
    namespace: str = DEFAULT_NAMESPACE
    uid: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    generation: int = 0
    resource_version: str = ""
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None


class Resource(Record, frozen=True, kw_only=True):
    """Any object: envelope, what people want (spec), what was observed (status).

    api_version: Version of the API in which the object is written.
    kind: Kind of the object.
    metadata: Identity and bookkeeping.
    spec: What people want of it.
    status: What was observed of it; only the server writes it.
    """

    api_version: str = API_VERSION
    kind: str = ""
    metadata: Metadata
    spec: Any
    status: Any

    @property
    def key(self) -> Key:
        """Return what names this object in the store."""
        return Key(self.kind, self.metadata.namespace, self.metadata.name)

    @property
    def name(self) -> str:
        """Return the name, for messages."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """Return the namespace, in which the names in spec and status are looked up."""
        return self.metadata.namespace

    @property
    def revision(self) -> int:
        """Return resourceVersion as the store's number; 0 for an object not yet stored."""
        return int(self.metadata.resource_version or 0)

    @property
    def deleting(self) -> bool:
        """Tell whether somebody asked for this object's end."""
        return self.metadata.deletion_timestamp is not None


R = TypeVar("R", bound=Resource)


@dataclass(frozen=True, slots=True)
class Ref(Generic[R]):
    """A reference from one object to another, with the namespace in which it is looked up.

    Stored forms hold the bare name: it means the namespace of the object that holds it.
    `refs` makes these.
    """

    kind: type[R]
    namespace: str
    name: str

    @property
    def key(self) -> Key:
        """Return what names the object referred to in the store."""
        return Key(self.kind.__name__, self.namespace, self.name)


class SecretRef(Record, frozen=True, kw_only=True):
    """Where a secret is to be read, never the secret itself.

    Exactly one of `env` (a variable of the server's environment) and `file` (a path on the
    server), of those that the server's settings `secrets_folder` and `secrets_variables` allow.
    Resolved by the composition root at the moment of use, so rotation needs no restart.

    env: Name of a variable of the server's environment that holds the secret.
    file: Name or path of a file on the server that holds the secret.
    """

    env: str | None = None
    file: str | None = None

    def __post_init__(self) -> None:
        if (self.env is None) == (self.file is None):
            raise ValueError("secretRef: give exactly one of env and file")


class Effect(Record, frozen=True, kw_only=True):
    """One call to the outside world, recorded before it is made.

    The one open effect of an object is written in the commit that decided it. A successor waits
    until it has expired, looks up what became of it, and only then acts. `parameters` holds no
    secret.

    id: Operation id that travels with the call as its client token or marker.
    kind: Which call it is, for example a launch or an import.
    begun: When it was recorded, before the call was made (fleet time).
    expires: When the call's own deadline has surely passed (fleet time).
    attempt: Which try of the same call this is, from 1.
    parameters: What the call needs to be repeated exactly.
    """

    id: str
    kind: str
    begun: datetime
    expires: datetime
    attempt: int = 1
    parameters: dict[str, str] = {}


def with_finalizer(metadata: Metadata, name: str) -> Metadata:
    """Return metadata that carries the promise; unchanged when it already does."""
    if name in metadata.finalizers:
        return metadata
    return msgspec.structs.replace(metadata, finalizers=(*metadata.finalizers, name))


def without_finalizer(metadata: Metadata, name: str) -> Metadata:
    """Return metadata without the promise, once the outside thing was seen gone."""
    kept = tuple(each for each in metadata.finalizers if each != name)
    return msgspec.structs.replace(metadata, finalizers=kept)
