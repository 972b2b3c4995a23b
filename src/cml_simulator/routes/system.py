"""The server itself: information, stats, health, compute hosts, maintenance, notices, bridges."""

from typing import Any

from cml_simulator.core import compute, diagnostics, host_views
from cml_simulator.core.errors import CmlError, not_found
from cml_simulator.core.model import Connector, Notice
from cml_simulator.core.server import Admission
from cml_simulator.routes.web import NO_CONTENT, Access, Call, Document, Reply, Route

LEVELS = ("INFO", "SUCCESS", "WARNING", "ERROR")
NOTICES_KEPT = 1000


def information(call: Call) -> Any:
    """Return version and readiness; needs no login."""
    return host_views.information(call.server, call.now)


def stats(call: Call) -> Any:
    """Return the host's figures."""
    return host_views.stats(call.server, call.now)


def health(call: Call) -> Any:
    """Return the health of controller and computes."""
    return host_views.health(call.server, call.now, admin=call.account.admin)


# ------------------------------------------------------------------ compute hosts


def compute_hosts(call: Call) -> Any:
    """Return the compute hosts."""
    known = call.server.compute_known
    return [host_views.compute_host(call.server, call.now)] if known else []


def one_compute_host(call: Call) -> Any:
    """Return one compute host."""
    compute.check(call.server, call.params["compute_id"])
    return host_views.compute_host(call.server, call.now)


def _admission(body: Document, allowed: tuple[Admission, ...]) -> Admission:
    value = body.row.get("admission_state")
    if value not in allowed:
        body.read.fail("admission_state", "enum", f"Input should be one of {', '.join(allowed)}")
    body.done()
    return Admission(str(value))


def patch_compute_host(call: Call) -> Any:
    """Move a compute host to another admission state; ONLINE drains it."""
    compute.check(call.server, call.params["compute_id"])
    body = call.document(("admission_state",))
    compute.move(call.server, _admission(body, tuple(Admission)), call.now)
    return host_views.compute_host(call.server, call.now)


def delete_compute_host(call: Call) -> Reply:
    """Forget an unregistered compute host."""
    compute.check(call.server, call.params["compute_id"])
    compute.remove(call.server)
    return NO_CONTENT


def host_configuration(call: Call) -> Any:
    """Return the admission state that new hosts get."""
    return {"admission_state": str(call.server.new_hosts)}


def set_host_configuration(call: Call) -> Any:
    """Set the admission state that new hosts get."""
    body = call.document(("admission_state",))
    call.server.new_hosts = _admission(body, (Admission.READY, Admission.REGISTERED))
    return host_configuration(call)


# ------------------------------------------------------------------ maintenance and notices


def _maintenance(call: Call) -> dict[str, Any]:
    notice = call.server.notices.get(call.server.notice or "")
    return {
        "maintenance_mode": call.server.maintenance,
        "notice": call.server.notice,
        "resolved_notice": _notice_view(notice) if notice is not None else None,
    }


def get_maintenance(call: Call) -> Any:
    """Return the maintenance mode; needs no login."""
    return _maintenance(call)


def set_maintenance(call: Call) -> Any:
    """Switch the maintenance mode: people without admin rights get 403 while it is on."""
    body = call.document(("maintenance_mode", "notice"))
    value = body.flag("maintenance_mode")
    notice = body.read.text(body.row, "notice", 64)
    if notice is not None and notice not in call.server.notices:
        body.read.fail("notice", "value_error", f"System notice not found: {notice}")
    body.done()
    if value is not None:
        call.server.maintenance = value
    if "notice" in body:
        call.server.notice = notice
    return _maintenance(call)


def _notice_view(notice: Notice) -> dict[str, Any]:
    return {
        "id": notice.id,
        "level": notice.level,
        "label": notice.label,
        "content": notice.content,
        "enabled": notice.enabled,
        "groups": notice.groups,
        "acknowledged": notice.acknowledged,
    }


def list_notices(call: Call) -> Any:
    """Return every notice (people without admin rights: the enabled ones)."""
    admin = call.account.admin
    return [_notice_view(n) for n in call.server.notices.values() if admin or n.enabled]


def _notice_values(call: Call, body: Document) -> dict[str, Any]:
    read, row = body.read, body.row
    values: dict[str, Any] = {
        key: read.text(row, key, most, needed=True)
        for key, most in (("label", 64), ("content", 8192))
        if key in row
    }
    if "level" in row:
        if row["level"] not in LEVELS:
            read.fail("level", "enum", f"Input should be one of {', '.join(LEVELS)}")
        values["level"] = row["level"]
    if "enabled" in row:
        values["enabled"] = bool(body.flag("enabled"))
    for key in ("groups", "add_groups", "del_groups"):
        groups = row.get(key)
        if groups is None:
            continue
        if not isinstance(groups, list) or not all(
            isinstance(g, str) and g in call.server.groups for g in groups
        ):
            read.fail(key, "value_error", "Group does not exist")
        else:
            values[key] = groups
    body.done()
    return values


def create_notice(call: Call) -> Any:
    """Add a notice."""
    keys = ("level", "label", "content", "enabled", "groups")
    values = _notice_values(call, call.document(keys, ("level", "label")))
    if len(call.server.notices) >= NOTICES_KEPT:
        raise CmlError(400, "Too many system notices.")
    notice = Notice(call.server.new_id(), **values)
    call.server.notices[notice.id] = notice
    return _notice_view(notice)


def _notice_of(call: Call) -> Notice:
    notice = call.server.notices.get(call.params["notice_id"])
    if notice is None:
        raise not_found("System notice", call.params["notice_id"])
    return notice


def get_notice(call: Call) -> Any:
    """Return one notice."""
    return _notice_view(_notice_of(call))


def patch_notice(call: Call) -> Any:
    """Change a notice, or acknowledge it for oneself."""
    notice = _notice_of(call)
    keys = ("level", "label", "content", "enabled", "groups", "add_groups", "del_groups")
    body = call.document((*keys, "acknowledged"))
    seen = body.row.get("acknowledged")
    if seen is not None and not (
        isinstance(seen, dict) and all(isinstance(v, bool) for v in seen.values())
    ):
        body.read.fail("acknowledged", "dict_type", "Input should be a map of booleans")
    values = _notice_values(call, body)
    if values and not call.account.admin:
        raise CmlError(403, "User does not have permission for this operation.")
    if isinstance(seen, dict):
        mine = {key: v for key, v in seen.items() if call.account.admin or key == call.account.id}
        notice.acknowledged |= {k: v for k, v in mine.items() if k in call.server.users}
    more, less = values.pop("add_groups", []), values.pop("del_groups", [])
    for key, value in values.items():
        setattr(notice, key, value)
    if more or less:
        notice.groups = [g for g in dict.fromkeys([*(notice.groups or []), *more]) if g not in less]
    return _notice_view(notice)


def delete_notice(call: Call) -> Reply:
    """Remove a notice."""
    notice = _notice_of(call)
    del call.server.notices[notice.id]
    if call.server.notice == notice.id:
        call.server.notice = None
    return NO_CONTENT


# ------------------------------------------------------------------ diagnostics


def diagnose(call: Call) -> Any:
    """Return one diagnostics category."""
    return diagnostics.diagnose(call.server, call.params["category"], call.now)


def diagnose_all(call: Call) -> Any:
    """Return every diagnostics category (until 2.8)."""
    return diagnostics.everything(call.server, call.now)


def diagnostic_events(call: Call) -> Any:
    """Return boot events."""
    return diagnostics.events(call.server, call.now)


# ------------------------------------------------------------------ external connectors


def _connector_view(bridge: Connector) -> dict[str, Any]:
    return {
        "id": bridge.id,
        "device_name": bridge.device_name,
        "label": bridge.label,
        "protected": bridge.protected,
        "snooped": bridge.snooped,
        "tags": bridge.tags,
        "allowed": True,
        "operational": {
            "forwarding": bridge.forwarding,
            "label": bridge.label,
            "interface": None,
            "mtu": 1500,
            "exists": True,
            "enabled": True,
            "stp": False,
            "snooped": bridge.snooped,
            "protected": bridge.protected,
            "ip_networks": ["192.168.255.1/24"] if bridge.forwarding == "NAT" else [],
        },
    }


def connectors(call: Call) -> Any:
    """Return the host's bridges; on AWS only NAT works."""
    return [_connector_view(bridge) for bridge in call.server.connectors.values()]


def sync_connectors(call: Call) -> Any:
    """Read the bridges from the host again, or push the configuration to it."""
    body = call.document(("push_configured_state",))
    body.flag("push_configured_state")
    body.done()
    return connectors(call)


def _connector_of(call: Call) -> Connector:
    bridge = call.server.connectors.get(call.params["connector_id"])
    if bridge is None:
        raise not_found("External connector", call.params["connector_id"])
    return bridge


def get_connector(call: Call) -> Any:
    """Return one bridge."""
    return _connector_view(_connector_of(call))


def patch_connector(call: Call) -> Any:
    """Change a bridge's label, tags and flags."""
    bridge = _connector_of(call)
    body = call.document(("label", "tags", "snooped", "protected"))
    label = body.read.text(body.row, "label", 128, least=1)
    tags = body.row.get("tags")
    if tags is not None and not (isinstance(tags, list) and all(isinstance(t, str) for t in tags)):
        body.read.fail("tags", "list_type", "Input should be a list of strings")
    flags = {key: body.flag(key) for key in ("snooped", "protected")}
    body.done()
    bridge.label = label or bridge.label
    bridge.tags = bridge.tags if tags is None else tags
    for key, value in flags.items():
        if value is not None:
            setattr(bridge, key, value)
    call.server.revision += 1
    return _connector_view(bridge)


def delete_connector(call: Call) -> Reply:
    """Forget a bridge."""
    del call.server.connectors[_connector_of(call).id]
    call.server.revision += 1
    return NO_CONTENT


ADMIN = Access.ADMIN
ROUTES = (
    Route("GET", "/system_information", information, Access.PUBLIC),
    Route("GET", "/system_stats", stats),
    Route("GET", "/system_health", health),
    Route("GET", "/system/compute_hosts", compute_hosts),
    Route("GET", "/system/compute_hosts/configuration", host_configuration),
    Route("PATCH", "/system/compute_hosts/configuration", set_host_configuration, ADMIN),
    Route("GET", "/system/compute_hosts/{compute_id}", one_compute_host),
    Route("PATCH", "/system/compute_hosts/{compute_id}", patch_compute_host, ADMIN),
    Route("DELETE", "/system/compute_hosts/{compute_id}", delete_compute_host, ADMIN),
    Route("GET", "/system/maintenance_mode", get_maintenance, Access.PUBLIC),
    Route("PATCH", "/system/maintenance_mode", set_maintenance, ADMIN),
    Route("GET", "/system/notices", list_notices),
    Route("POST", "/system/notices", create_notice, ADMIN),
    Route("GET", "/system/notices/{notice_id}", get_notice),
    Route("PATCH", "/system/notices/{notice_id}", patch_notice),
    Route("DELETE", "/system/notices/{notice_id}", delete_notice, ADMIN),
    Route("GET", "/system/external_connectors", connectors),
    Route("PUT", "/system/external_connectors", sync_connectors, ADMIN),
    Route("GET", "/system/external_connectors/{connector_id}", get_connector),
    Route("PATCH", "/system/external_connectors/{connector_id}", patch_connector, ADMIN),
    Route("DELETE", "/system/external_connectors/{connector_id}", delete_connector, ADMIN),
    Route("GET", "/diagnostics", diagnose_all, last=8),
    Route("GET", "/diagnostics/{category}", diagnose, first=9),
    Route("GET", "/diagnostic_event_data", diagnostic_events),
)
