"""The messages for a listener of `/ws/ui`: one for each event since the last call.

Pure: it reads the server's records; the shell sends. Rules: facts/cml.md#websocket.
"""

from typing import Any

from cml_simulator.core import host_views, sharing, usage, views
from cml_simulator.core.model import Lab, User
from cml_simulator.core.server import Server
from cml_simulator.core.world import settle

WORDS = {"ADD": "created", "REMOVE": "deleted", "CHANGE": "modified", "STATE_CHANGED": "state"}
STATS_EVERY = 5.0
"""Seconds between messages of statistics."""


def user_of(server: Server, token: str, now: float) -> User | None:
    """Return the user whose token is in a listener's first message."""
    found = server.sessions.check(token, now + server.server_conditions.clock_skew)
    return server.users.get(found[0]) if found else None


def since(server: Server, user: User, last: float, now: float) -> list[dict[str, Any]]:
    """Return the messages about what happened after `last` and up to `now`."""
    settle(server, now)
    messages = [
        (row["at"], _lab_news(server, row))
        for row in server.news
        if last < row["at"] <= now and _may_see(server, user, row["lab_id"])
    ]
    for lab in server.labs.values():
        if not sharing.visible(server, lab, user):
            continue
        messages.extend(
            (event["at"], _element(server, lab, event))
            for event in lab.events
            if last < event["at"] <= now and event["element_type"] != "LAB"
        )
    messages.sort(key=lambda pair: pair[0])
    found = [message for _, message in messages]
    if int(last // STATS_EVERY) != int(now // STATS_EVERY):
        found.extend(_figures(server, user, now))
    return found


def _may_see(server: Server, user: User, lab_id: str) -> bool:
    lab = server.labs.get(lab_id)
    return user.admin if lab is None else sharing.visible(server, lab, user)


def _lab_news(server: Server, row: dict[str, Any]) -> dict[str, Any]:
    """Return an event of a whole lab; by rule it names no element (facts/cml.md#websocket)."""
    named = {"element_type": "Lab", "element_id": row["lab_id"]}
    if server.config.rules.lab_event_element == "none" and row["event"] != "created":
        named = {}
    return {
        "event_type": "lab_event",
        "event": row["event"],
        **named,
        "lab_id": row["lab_id"],
        "data": row["data"],
    }


def _element(server: Server, lab: Lab, event: dict[str, Any]) -> dict[str, Any]:
    state = event["event"] == "STATE_CHANGED"
    kind = event["element_type"].title().replace("_", "")
    data = dict(event["data"])
    if not data:
        data = _body(server, lab, event)
    return {
        "event_type": "state_change" if state else "lab_element_event",
        "event": event["data"]["state"] if state else WORDS[event["event"]],
        "element_type": kind,
        "element_id": event["element_id"],
        "lab_id": lab.id,
        "data": data,
    }


def _body(server: Server, lab: Lab, event: dict[str, Any]) -> dict[str, Any]:
    """Return the element as it is now; empty when it is gone."""
    key, at = event["element_id"], event["at"]
    if event["element_type"] == "NODE" and key in lab.nodes:
        return views.node_view(server, lab.nodes[key], at, operational=False, exclude=True)
    if event["element_type"] == "LINK" and key in lab.links:
        return views.link_view(server, lab.links[key])
    if event["element_type"] == "INTERFACE" and key in server.interfaces:
        port = server.interfaces[key]
        return views.interface_view(lab.nodes[port.node_id], port, operational=False)
    rows = [*lab.annotations, *lab.smart_annotations]
    return next((dict(row) for row in rows if row.get("id") == key), {})


def _figures(server: Server, user: User, now: float) -> list[dict[str, Any]]:
    messages = [
        {
            "event_type": "lab_stats",
            "lab_id": lab.id,
            "data": usage.simulation_stats(server, lab, now),
        }
        for lab in server.labs.values()
        if lab.owner == user.id and any(node.admitted for node in lab.nodes.values())
    ]
    return [*messages, {"event_type": "system_stats", "data": host_views.stats(server, now)}]
