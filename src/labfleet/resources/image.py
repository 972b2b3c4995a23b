"""Image: a machine image, and the node and image definitions that its workers were seen to have.

One object per image (of a server without an image: per worker), written by the worker controller's
leader and kept after the workers are gone, so that a lab is judged before a machine of the same
image is launched. Image definition is CML's word for a disk that nodes boot from; a machine image
is what a whole server is made of. Deleting an object forgets what was seen. Times are fleet time.
"""

from __future__ import annotations

import functools
from datetime import datetime

from labfleet.kernel import ids
from labfleet.resources.declaration import Kind, columns
from labfleet.resources.meta import DEFAULT_NAMESPACE, Record, Ref, Resource
from labfleet.resources.worker import Worker

NAMES_KEPT = 2000
"""Node and image definitions of one image, together; a server that lists more is not judged by."""


class Catalogue(Record, frozen=True, kw_only=True):
    """Ids of node definitions and of image definitions, in order.

    node_definitions: Ids of node definitions.
    image_definitions: Ids of image definitions.
    """

    node_definitions: tuple[str, ...] = ()
    image_definitions: tuple[str, ...] = ()


class ImageSpec(Record, frozen=True, kw_only=True):
    """Nothing is wanted of an image; templates name it."""


class ImageStatus(Record, frozen=True, kw_only=True):
    """What workers of the image were seen to have.

    seen: What any of them had since `since`.
    before: What they had in the day before and were not seen to have again; it counts for a day.
    since: When the looks of `seen` began.
    last_seen_at: When the last look was that counts; it moves once a day, or with something new.
    worker: Worker that was looked at then, with its namespace unless that is `default`.
    version: CML release of that worker.
    node_definitions: How many node definitions are known.
    image_definitions: How many image definitions are known.
    observed_generation: Generation of the spec that this status is about.
    """

    seen: Catalogue = Catalogue()
    before: Catalogue = Catalogue()
    since: datetime | None = None
    last_seen_at: datetime | None = None
    worker: str = ""
    version: str = ""
    node_definitions: int = 0
    image_definitions: int = 0
    observed_generation: int = 0


class Image(Resource, frozen=True, kw_only=True):
    """A machine image, as its workers were seen."""

    spec: ImageSpec = ImageSpec()
    status: ImageStatus = ImageStatus()
    kind: str = "Image"


@functools.lru_cache(maxsize=5000)
def ref(image: str) -> Ref[Image]:
    """Return the one object of a machine image; images are the fleet's, in `default`."""
    return Ref(Image, DEFAULT_NAMESPACE, ids.slug(image))


def of_worker(worker: Worker) -> Ref[Image] | None:
    """Return the object of a worker's image; None while it has no machine yet.

    A server of no image stands for itself: no other one is known to be like it.
    """
    shown = worker.status.machine
    if shown.image is not None:
        return ref(shown.image)
    external = worker.spec.origin is not None and worker.spec.origin.kind == "external"
    return ref(f"server-{worker.metadata.uid}") if shown.id is not None or external else None


KIND = Kind(
    name="Image",
    plural="images",
    short=("img",),
    type=Image,
    summary="A machine image, and the node and image definitions its workers were seen to have.",
    columns=columns(
        "NODE DEFINITIONS=status.nodeDefinitions",
        "IMAGE DEFINITIONS=status.imageDefinitions",
        "CML=status.version",
        "SEEN ON=status.worker",
        "LAST SEEN=status.lastSeenAt",
    ),
    creatable=False,
)
