"""Edits that other people make, unknown to the API's client, as in CML's own web interface.

Reached through `/_control`; permissions are not checked.
"""

from typing import Any

import msgspec

from cml_simulator.core import builder, configurations, licensing, lifecycle
from cml_simulator.core.errors import not_found, refused
from cml_simulator.core.model import Lab, Node
from cml_simulator.core.server import ADMIN_ID, Server
from cml_simulator.core.world import record, settle

Answer = dict[str, Any]
PERSON = "5c1f9d6a-3b52-4e0c-9a77-0d2f6be1c3a4"
"""The user who makes these edits: somebody who is not CML's own administrator."""


class Edit(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One edit: an action, and what it needs of lab, node, tag and text."""

    action: str
    lab_id: str = ""
    node_id: str = ""
    tag: str = ""
    text: str = ""


def _lab(server: Server, edit: Edit) -> Lab:
    lab = server.labs.get(edit.lab_id)
    if lab is None:
        raise not_found("Lab", edit.lab_id)
    return lab


def _node(server: Server, edit: Edit) -> Node:
    node = server.nodes.get(edit.node_id)
    if node is None:
        raise not_found("Node", edit.node_id)
    return node


def _delete_lab(server: Server, edit: Edit, now: float) -> Answer:
    lifecycle.force_delete_lab(server, _lab(server, edit), now)
    return {}


def _add_lab(server: Server, edit: Edit, now: float) -> Answer:
    return {"lab_id": builder.new_lab(server, ADMIN_ID, now, edit.text or None).id}


def _rename_lab(server: Server, edit: Edit, now: float) -> Answer:
    lab = _lab(server, edit)
    lab.title = edit.text or lab.title
    lifecycle.touch(lab, now)
    return {}


def _notes(server: Server, edit: Edit, now: float) -> Answer:
    lab = _lab(server, edit)
    lab.notes = edit.text
    lifecycle.touch(lab, now)
    return {}


def _start_lab(server: Server, edit: Edit, now: float) -> Answer:
    lifecycle.start_lab(server, _lab(server, edit), now)
    return _deed(server, "start_lab", edit, now)


def _stop_lab(server: Server, edit: Edit, now: float) -> Answer:
    lifecycle.stop_lab(server, _lab(server, edit), now)
    return _deed(server, "stop_lab", edit, now)


def _start_node(server: Server, edit: Edit, now: float) -> Answer:
    lifecycle.start_node(server, _node(server, edit), now)
    return _deed(server, "start_node", edit, now)


def _stop_node(server: Server, edit: Edit, now: float) -> Answer:
    lifecycle.stop_node(server, _node(server, edit), now)
    return _deed(server, "stop_node", edit, now)


def _use(server: Server, edit: Edit, now: float) -> Answer:
    """Do something that only telemetry shows; `text` is its category, `tag` another user's id."""
    return _deed(server, edit.text or "user_activity", edit, now)


def _clear_telemetry(server: Server, edit: Edit, now: float) -> Answer:
    """Lose the events, like a server whose disk was wiped."""
    _ = edit, now
    server.telemetry.clear()
    return {}


def _deed(server: Server, category: str, edit: Edit, now: float) -> Answer:
    data = {"user_id": edit.tag or PERSON, "lab_id": edit.lab_id, "node_id": edit.node_id}
    record(server, category, {key: value for key, value in data.items() if value}, now)
    return {}


def _delete_node(server: Server, edit: Edit, now: float) -> Answer:
    node = _node(server, edit)
    lifecycle.drop_running(server, node, now)
    lifecycle.delete_node(server, node, now)
    return {}


def _add_tag(server: Server, edit: Edit, now: float) -> Answer:
    node = _node(server, edit)
    if edit.tag not in node.tags:
        lifecycle.set_tags(server, node, [*node.tags, edit.tag], now)
    return {}


def _remove_tag(server: Server, edit: Edit, now: float) -> Answer:
    node = _node(server, edit)
    lifecycle.set_tags(server, node, [tag for tag in node.tags if tag != edit.tag], now)
    return {}


def _break_node(server: Server, edit: Edit, now: float) -> Answer:
    """From its next start on, the node's console never shows that it has booted."""
    _ = now
    _node(server, edit).broken = True
    return {}


def _configure(server: Server, edit: Edit, now: float) -> Answer:
    """Type a configuration into a booted node's console; the lab has it once it is extracted."""
    configurations.type_in(_node(server, edit), edit.text, now)
    return {}


def _revoke_tokens(server: Server, edit: Edit, now: float) -> Answer:
    _ = edit, now
    server.sessions.live.clear()
    return {}


def _deregister(server: Server, edit: Edit, now: float) -> Answer:
    _ = edit
    settle(server, now)
    active = len(server.active) + len(server.queue)
    told = licensing.deregister(server.licence, server.cloud, active_nodes=active)
    server.revision += 1
    return {"told": told}


ACTIONS = {
    "add_lab": _add_lab,
    "delete_lab": _delete_lab,
    "rename_lab": _rename_lab,
    "set_notes": _notes,
    "start_lab": _start_lab,
    "stop_lab": _stop_lab,
    "start_node": _start_node,
    "stop_node": _stop_node,
    "use": _use,
    "clear_telemetry": _clear_telemetry,
    "delete_node": _delete_node,
    "break_node": _break_node,
    "configure": _configure,
    "add_tag": _add_tag,
    "remove_tag": _remove_tag,
    "revoke_tokens": _revoke_tokens,
    "deregister": _deregister,
}


def act(server: Server, edit: Edit, now: float) -> Answer:
    """Do one edit; return what it made."""
    settle(server, now)
    action = ACTIONS.get(edit.action)
    if action is None:
        raise refused(f"Unknown action: {edit.action}")
    return action(server, edit, now)
