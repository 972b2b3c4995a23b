"""Interfaces and links, conditioning and packet captures."""

from typing import Any

from cml_simulator.core import builder, lifecycle, links, views
from cml_simulator.core.errors import CmlError, not_found, refused
from cml_simulator.core.model import Interface, Link, Node, State
from cml_simulator.routes.labs import lab_of
from cml_simulator.routes.web import NO_CONTENT, Call, Reply, Route


def lab_interfaces(call: Call) -> Any:
    """Return a lab's interfaces with `operational` (2.10); data=false: their ids."""
    lab = lab_of(call)
    operational = bool(call.flag("operational", default=True))
    ports = [(node, port) for node in lab.nodes.values() for port in node.interfaces]
    if not call.flag("data", default=True):
        return [port.id for _, port in ports]
    return [views.interface_view(node, p, operational=operational) for node, p in ports]


def _interface_of(call: Call) -> tuple[Node, Interface]:
    lab = lab_of(call)
    key = call.params["interface_id"]
    interface = call.server.interfaces.get(key)
    if interface is None or interface.node_id not in lab.nodes:
        raise not_found("Interface", key)
    return lab.nodes[interface.node_id], interface


def create_interfaces(call: Call) -> Any:
    """Add the next interface, or all up to a slot; not after the node has been started."""
    lab = lab_of(call)
    body = call.document(("node", "slot", "mac_address"), ("node",))
    key = body.read.text(body.row, "node", 64) or ""
    slot = body.read.whole(body.row, "slot", 0, 128)
    mac = body.read.mac(body.row, "mac_address")
    body.done()
    node = lab.nodes.get(key)
    if node is None:
        raise not_found("Node", key)
    if node.phase is not State.DEFINED:
        raise CmlError(404, f"Node interfaces are frozen until the node is wiped: {key}")
    made = builder.fill_slots(call.server, node, slot)
    for port in made:
        lifecycle.changed(call.server, lab, ("INTERFACE", port.id), "ADD", call.now)
    if mac is not None:
        made[-1].mac = mac
    shown = [views.interface_view(node, port, operational=False) for port in made]
    return shown[0] if len(shown) == 1 else shown


def get_interface(call: Call) -> Any:
    """Return an interface."""
    node, interface = _interface_of(call)
    return views.interface_view(node, interface, operational=bool(call.flag("operational")))


def patch_interface(call: Call) -> Any:
    """Set a MAC address."""
    node, interface = _interface_of(call)
    body = call.document(("mac_address",))
    mac = body.read.mac(body.row, "mac_address")
    body.done()
    if node.phase is not State.DEFINED:
        raise refused(f"Node must be wiped before it can be changed: {node.id}")
    interface.mac = mac
    return views.interface_view(node, interface, operational=False)


def delete_interface(call: Call) -> Reply:
    """Remove an interface of a wiped node."""
    node, interface = _interface_of(call)
    if node.phase is not State.DEFINED:
        raise refused(f"Node must be wiped before it can be changed: {node.id}")
    builder.drop_interface(call.server, node, interface)
    lab = call.server.labs[node.lab_id]
    lifecycle.changed(call.server, lab, ("INTERFACE", interface.id), "REMOVE", call.now)
    return NO_CONTENT


def interface_state(call: Call) -> Any:
    """Return an interface's state."""
    node, interface = _interface_of(call)
    return {"label": interface.label, "state": str(views.interface_state(node, interface))}


def list_links(call: Call) -> Any:
    """Return the ids of a lab's links, or with data their bodies."""
    links = lab_of(call).links
    if not call.flag("data"):
        return list(links)
    return [views.link_view(call.server, link) for link in links.values()]


def create_link(call: Call) -> Any:
    """Connect two interfaces."""
    lab = lab_of(call)
    body = call.document(("src_int", "dst_int"), ("src_int", "dst_int"))
    keys = [body.read.text(body.row, name, 64) or "" for name in ("src_int", "dst_int")]
    body.done()
    ends = []
    for key in keys:
        interface = call.server.interfaces.get(key)
        if interface is None or interface.node_id not in lab.nodes:
            raise not_found("Interface", key)
        ends.append(interface)
    link = builder.add_link(call.server, lab, ends[0], ends[1])
    lifecycle.changed(call.server, lab, ("LINK", link.id), "ADD", call.now)
    if call.server.config.profile.whole_links:
        return views.link_view(call.server, link)
    return {"id": link.id}


def _link_of(call: Call) -> Link:
    link = lab_of(call).links.get(call.params["link_id"])
    if link is None:
        raise not_found("Link", call.params["link_id"])
    return link


def get_link(call: Call) -> Any:
    """Return a link."""
    return views.link_view(call.server, _link_of(call))


def delete_link(call: Call) -> Reply:
    """Remove a link."""
    lab, link = lab_of(call), _link_of(call)
    builder.drop_link(call.server, lab, link)
    lifecycle.changed(call.server, lab, ("LINK", link.id), "REMOVE", call.now)
    return NO_CONTENT


def link_converged(call: Call) -> Any:
    """Return true: links change at once with their nodes, so none is ever in transition."""
    _link_of(call)
    return True


def link_state(call: Call) -> Any:
    """Return a link's label and state."""
    link = _link_of(call)
    return {"label": link.label, "state": str(views.link_state(call.server, link))}


def get_condition(call: Call) -> Any:
    """Return a link's conditioning, {} if it has none."""
    return links.condition_view(_link_of(call))


def patch_condition(call: Call) -> Any:
    """Change a link's conditioning."""
    link = _link_of(call)
    body = call.document(links.CONDITION_KEYS)
    values = links.condition(body.row, body.read)
    body.done()
    link.conditioning = {**link.conditioning, **values}
    lifecycle.changed(call.server, lab_of(call), ("LINK", link.id), "CHANGE", call.now)
    return links.condition_view(link)


def delete_condition(call: Call) -> Reply:
    """Remove a link's conditioning."""
    _link_of(call).conditioning = {}
    return NO_CONTENT


def start_capture(call: Call) -> Any:
    """Begin to capture packets: maxpackets, maxtime (s) or both."""
    link = _link_of(call)
    body = call.document(links.CAPTURE_KEYS)
    read, row = body.read, body.row
    asked = {
        "maxpackets": read.whole(row, "maxpackets", 1, links.PACKETS_MOST),
        "maxtime": read.whole(row, "maxtime", 1, 86_400),
        "bpfilter": read.text(row, "bpfilter", 128, line=True),
        "encap": row.get("encap"),
    }
    if asked["encap"] is not None and asked["encap"] not in links.ENCAPS:
        read.fail("encap", "enum", f"Input should be one of {', '.join(links.ENCAPS)}")
    body.done()
    state = views.link_state(call.server, link)
    links.start_capture(call.server, link, asked, state, call.now)
    return links.status(call.server, link, call.now)


def stop_capture(call: Call) -> Reply:
    """End a capture; its packets stay."""
    links.stop_capture(_link_of(call), call.now)
    return NO_CONTENT


def capture_status(call: Call) -> Any:
    """Return what a capture was asked and how far it is."""
    return links.status(call.server, _link_of(call), call.now)


def capture_key(call: Call) -> Any:
    """Return the key of a link's capture."""
    link = _link_of(call)
    if link.capture is None:
        raise not_found("Packet capture", link.id)
    return link.capture.key


def pcap_file(call: Call) -> Reply:
    """Return a capture as a file."""
    capture = links.find(call.server, call.params["key"])
    return Reply(200, links.file(capture, call.now), "application/vnd.tcpdump.pcap")


def pcap_packets(call: Call) -> Any:
    """Return one line for each captured packet."""
    return links.summaries(links.find(call.server, call.params["key"]), call.now)


def pcap_packet(call: Call) -> Any:
    """Return one captured packet."""
    capture = links.find(call.server, call.params["key"])
    return links.detail(capture, call.params["number"], call.now)


def _set_up(call: Call, target: Interface | Link, *, up: bool) -> Reply:
    target.up = up
    call.server.revision += 1
    return NO_CONTENT


def _start_interface(call: Call) -> Reply:
    return _set_up(call, _interface_of(call)[1], up=True)


def _stop_interface(call: Call) -> Reply:
    return _set_up(call, _interface_of(call)[1], up=False)


def _start_link(call: Call) -> Reply:
    return _set_up(call, _link_of(call), up=True)


def _stop_link(call: Call) -> Reply:
    return _set_up(call, _link_of(call), up=False)


ROUTES = (
    *(
        Route(method, f"/labs/{{lab_id}}{path}", handler)
        for method, path, handler in (
            ("POST", "/interfaces", create_interfaces),
            ("GET", "/interfaces/{interface_id}", get_interface),
            ("PATCH", "/interfaces/{interface_id}", patch_interface),
            ("DELETE", "/interfaces/{interface_id}", delete_interface),
            ("GET", "/interfaces/{interface_id}/state", interface_state),
            ("PUT", "/interfaces/{interface_id}/state/start", _start_interface),
            ("PUT", "/interfaces/{interface_id}/state/stop", _stop_interface),
            ("GET", "/links", list_links),
            ("POST", "/links", create_link),
            ("GET", "/links/{link_id}", get_link),
            ("DELETE", "/links/{link_id}", delete_link),
            ("GET", "/links/{link_id}/state", link_state),
            ("GET", "/links/{link_id}/check_if_converged", link_converged),
            ("PUT", "/links/{link_id}/state/start", _start_link),
            ("PUT", "/links/{link_id}/state/stop", _stop_link),
            ("GET", "/links/{link_id}/condition", get_condition),
            ("PATCH", "/links/{link_id}/condition", patch_condition),
            ("DELETE", "/links/{link_id}/condition", delete_condition),
            ("PUT", "/links/{link_id}/capture/start", start_capture),
            ("PUT", "/links/{link_id}/capture/stop", stop_capture),
            ("GET", "/links/{link_id}/capture/status", capture_status),
            ("GET", "/links/{link_id}/capture/key", capture_key),
        )
    ),
    Route("GET", "/labs/{lab_id}/interfaces", lab_interfaces, first=10),
    Route("GET", "/pcap/{key}", pcap_file),
    Route("GET", "/pcap/{key}/packets", pcap_packets),
    Route("GET", "/pcap/{key}/packet/{number}", pcap_packet),
    Route("GET", "/pcap/{key}/packets/{number}", pcap_packet),
)
