"""The setting that stops every automatic action; `fleet_settings` puts it beside all others."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from labfleet.resources.meta import Record


class Automation(Record, frozen=True, kw_only=True):
    """The switch that stops every automatic action at once; what people ask for goes on.

    paused: Whether every automatic action rests.
    reason: Why, in the words of whoever paused it.
    by: Who paused it.
    since: Since when it rests.
    """

    paused: bool = False
    reason: Annotated[str, msgspec.Meta(max_length=1024)] = ""
    by: Annotated[str, msgspec.Meta(max_length=256)] = ""
    since: datetime | None = None
