"""The server itself: information, stats, health, compute hosts, maintenance, diagnostics, keys."""

from typing import Any

from cml_simulator.core import diagnostics, host_views
from cml_simulator.core.errors import not_found
from cml_simulator.routes.web import Access, Call, Route


def information(call: Call) -> Any:
    """Return version and readiness; needs no login."""
    return host_views.information(call.server, call.now)


def stats(call: Call) -> Any:
    """Return the host's figures."""
    return host_views.stats(call.server, call.now)


def health(call: Call) -> Any:
    """Return the health of controller and computes."""
    return host_views.health(call.server, call.now, admin=call.account.admin)


def compute_hosts(call: Call) -> Any:
    """Return the compute hosts."""
    return [host_views.compute_host(call.server, call.now)]


def one_compute_host(call: Call) -> Any:
    """Return one compute host."""
    key = call.params["compute_id"]
    if key != call.server.compute_id:
        raise not_found("Compute host", key)
    return host_views.compute_host(call.server, call.now)


def _maintenance(call: Call) -> dict[str, Any]:
    return {
        "maintenance_mode": call.server.maintenance,
        "notice": call.server.notice,
        "resolved_notice": None,
    }


def get_maintenance(call: Call) -> Any:
    """Return the maintenance mode; needs no login."""
    return _maintenance(call)


def set_maintenance(call: Call) -> Any:
    """Switch the maintenance mode: people without admin rights get 403 while it is on."""
    body = call.document(("maintenance_mode", "notice"))
    value = body.flag("maintenance_mode")
    notice = body.read.text(body.row, "notice", 64)
    body.done()
    if value is not None:
        call.server.maintenance = value
    if "notice" in body:
        call.server.notice = notice
    return _maintenance(call)


def diagnose(call: Call) -> Any:
    """Return one diagnostics category."""
    return diagnostics.diagnose(call.server, call.params["category"], call.now)


def diagnostic_events(call: Call) -> Any:
    """Return boot events."""
    return diagnostics.events(call.server, call.now)


def console_keys(call: Call) -> Any:
    """Return every console key that the caller may see."""
    everything = call.flag("show_all")
    return {
        key: {
            "node_id": node.id,
            "compute_id": call.server.compute_id,
            "lab_id": node.lab_id,
            "label": node.label,
            "driver": node.kind.id,
            "line": line,
        }
        for node in call.server.active.values()
        if (everything and call.account.admin)
        or call.server.labs[node.lab_id].owner == call.account.id
        for line, key in enumerate(node.console_keys)
    }


def vnc_keys(call: Call) -> Any:
    """Return every VNC key that the caller may see."""
    everything = call.flag("show_all")
    return {
        node.vnc_key: {
            "node_id": node.id,
            "compute_id": call.server.compute_id,
            "lab_id": node.lab_id,
            "label": node.label,
            "driver": node.kind.id,
        }
        for node in call.server.active.values()
        if node.vnc_key is not None
        and (
            (everything and call.account.admin)
            or call.server.labs[node.lab_id].owner == call.account.id
        )
    }


def connectors(call: Call) -> Any:
    """Return the two usual external connectors; on AWS only NAT works."""
    return [
        {
            "id": call.server.compute_id[:-1] + "0",
            "device_name": "virbr0",
            "label": "NAT",
            "protected": False,
            "snooped": True,
            "tags": ["NAT"],
            "allowed": True,
            "operational": {"forwarding": "NAT", "mtu": 1500, "exists": True, "enabled": True},
        }
    ]


ROUTES = (
    Route("GET", "/system_information", information, Access.PUBLIC),
    Route("GET", "/system_stats", stats),
    Route("GET", "/system_health", health),
    Route("GET", "/system/compute_hosts", compute_hosts),
    Route("GET", "/system/compute_hosts/{compute_id}", one_compute_host),
    Route("GET", "/system/maintenance_mode", get_maintenance, Access.PUBLIC),
    Route("PATCH", "/system/maintenance_mode", set_maintenance, Access.ADMIN),
    Route("GET", "/system/external_connectors", connectors),
    Route("GET", "/diagnostics/{category}", diagnose),
    Route("GET", "/diagnostic_event_data", diagnostic_events),
    Route("GET", "/keys/console", console_keys),
    Route("GET", "/keys/vnc", vnc_keys),
)
