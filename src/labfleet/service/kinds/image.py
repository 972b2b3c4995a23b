"""The rules of machine images: they are only read, and forgotten."""

from __future__ import annotations

from labfleet.kernel.quantity import count
from labfleet.resources.image import Image
from labfleet.service.core.kind_table import KindRules


def _about(image: Image) -> str:
    """Say what was seen, and where."""
    status = image.status
    if status.since is None:
        return "no worker of this image was looked at yet"
    return (
        f"its workers have {count(status.node_definitions, 'node definition')} and "
        f"{count(status.image_definitions, 'image definition')}; last seen on {status.worker}"
    )


RULES = KindRules(name="Image", about=_about)
