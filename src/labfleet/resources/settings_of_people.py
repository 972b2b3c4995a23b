"""The settings of what owners see and are told; `fleet_settings` has all others and puts them together."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from labfleet.resources.meta import Record


class Access(Record, frozen=True, kw_only=True):
    """How much of `status.access` callers of role user see of their own sessions.

    `ports`, the default, shows the host and each port's URL: what using a lab takes. CML's page and
    the lab's are left out, because its server is shared by labs of others, its address may be one
    for operators alone, and an owner has no account there. `all` shows these too, for fleets whose
    people have accounts on CML; `nothing` tells that there is something, and nothing of it.

    user_sees: How much they see.
    """

    user_sees: Literal["nothing", "ports", "all"] = "ports"


class Notices(Record, frozen=True, kw_only=True):
    """What owners are told of their sessions (docs/how-to/get-told.md).

    pages_url: Where people reach the pages, such as https://fleet.example.org: links of notices and
    calendars begin with it. Empty means that they are paths without a server.
    """

    pages_url: Annotated[
        str,
        msgspec.Meta(
            max_length=256, pattern=r"^(https?://[A-Za-z0-9.:\[\]-]+(/[A-Za-z0-9._~-]+)*)?$"
        ),
    ] = ""
