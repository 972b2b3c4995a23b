"""What is kept of a session's lab at its end: who may have it, its bounds, its record.

The text itself stands in no object and in no event: configurations may hold passwords.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from labfleet.resources.meta import Record

Keep = Literal["none", "operators", "owner"]
"""Who may have the kept lab, beside whom that includes: nobody, since nothing is kept, is first."""
MEDIA_TYPE = "application/yaml"
MIB = 1 << 20


class Keeping(Record, frozen=True, kw_only=True):
    """How labs are kept at their session's end, where their definition's `keep` asks for it.

    The time counts against the definition's `teardownMinutes`: at most half of them are taken.

    enabled: Whether anything is kept.
    days: How long a lab is kept.
    timeout_seconds: How long a teardown waits for it at most; what is not read by then is left.
    lab_mib: The largest lab that is kept, in MiB of text.
    owner_mib: How much is kept for one owner, in MiB as stored; it is compressed.
    all_mib: How much is kept in all, in MiB as stored.
    """

    enabled: bool = True
    days: Annotated[int, msgspec.Meta(ge=1, le=90)] = 7
    timeout_seconds: Annotated[int, msgspec.Meta(ge=5, le=100)] = 60
    lab_mib: Annotated[int, msgspec.Meta(ge=1, le=4)] = 2
    owner_mib: Annotated[int, msgspec.Meta(ge=1, le=1024)] = 16
    all_mib: Annotated[int, msgspec.Meta(ge=1, le=16_384)] = 512


class KeptWork(Record, frozen=True, kw_only=True):
    """What was kept of a session's lab before its teardown; never the text itself.

    readers: Who may download it: operators alone, or its owner too.
    tries: How often it was begun; a server that is ended meanwhile begins once more.
    at: When it was kept; null when it was not, and the condition WorkKept says why.
    until: Until when it is kept.
    size: Bytes of the lab's YAML.
    nodes: Nodes whose configuration was read out anew; null when an earlier try was interrupted.
    unread: Number of nodes whose configuration could not be read out, so an earlier one stands.
    missing: Labels of the first 50 of them.
    """

    readers: Literal["operators", "owner"]
    tries: int = 0
    at: datetime | None = None
    until: datetime | None = None
    size: int = 0
    nodes: int | None = None
    unread: int = 0
    missing: tuple[str, ...] = ()
