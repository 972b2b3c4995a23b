"""Verbs on groups, as routes: all seats last longer, end earlier, or are moved."""

from __future__ import annotations

from datetime import datetime

from labfleet.api.core.route import Name, Routes, Uid
from labfleet.api.verbs.verb_routes import MoveRequest, Namespace
from labfleet.resources.group import Group
from labfleet.resources.meta import Record
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.verbs import group_verbs


class GroupEndRequest(Record, frozen=True, kw_only=True):
    """The new end of a group; seats with a factor are moved by as much more.

    end: The new end.
    """

    end: datetime


def routes(services: ServiceContext) -> Routes:
    """Return the routes."""
    made = Routes("groups")

    @made.post(
        "/api/v1/groups/{name:str}/extend", "Let all seats of a group last longer",
        tag="groups", needs=("extend", "Group"),
    )  # fmt: skip
    async def extend_group(
        who: Caller,
        name: Name,
        sent: GroupEndRequest,
        namespace: Namespace = "default",
        uid: Uid = None,
    ) -> Group:
        """Give all seats that are not over a later end, or none of them; the manifest stays as it is."""
        return await group_verbs.extend(services, who, name, namespace, end=sent.end, uid=uid)

    @made.post(
        "/api/v1/groups/{name:str}/shorten", "Let all seats of a group end earlier",
        tag="groups", needs=("shorten", "Group"),
    )  # fmt: skip
    async def shorten_group(
        who: Caller,
        name: Name,
        sent: GroupEndRequest,
        namespace: Namespace = "default",
        uid: Uid = None,
    ) -> Group:
        """Give all seats that are not over an earlier end; the time after it is free at once."""
        return await group_verbs.shorten(services, who, name, namespace, end=sent.end, uid=uid)

    @made.post(
        "/api/v1/groups/{name:str}/move", "Move all seats of a group to another start",
        tag="groups", needs=("move", "Group"),
    )  # fmt: skip
    async def move_group(
        who: Caller,
        name: Name,
        sent: MoveRequest,
        namespace: Namespace = "default",
        uid: Uid = None,
    ) -> Group:
        """Move a group and all its seats in one commit; where one cannot be moved, none is."""
        return await group_verbs.move(services, who, name, namespace, start=sent.start, uid=uid)

    return made
