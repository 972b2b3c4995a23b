"""Bodies of the stock node and image definitions, made from the table in `definitions`.

What people upload beside them is on the server's `definition_store`.
"""

from functools import cache
from typing import Any

from cml_simulator.core.definitions import DEFINITIONS, IMAGES, Definition

DRIVERS = {
    **dict.fromkeys(("cat8000v", "cat9800", "cat-sdwan-edge"), "csr1000v"),
    **dict.fromkeys(("cat9000v-q200", "cat9000v-uadp"), "cat9k"),
    **dict.fromkeys(("desktop", "syslog", "radius", "tacplus"), "server"),
    **dict.fromkeys(("frr", "nginx", "dnsmasq", "net-tools", "chrome", "firefox"), "server"),
    **dict.fromkeys(("ftdv", "fmcv", "vwlc"), "server"),
    **dict.fromkeys(("cat-sdwan-controller", "cat-sdwan-validator"), "server"),
    **dict.fromkeys(("cat-sdwan-manager", "cat-sdwan-vedge"), "server"),
    "iol-xe": "iol",
    "ioll2-xe": "iol_l2",
}
"""Node definition -> its driver, where the driver has another name."""
INHERITED = ("ram", "cpus", "cpu_limit", "data_volume", "boot_disk_size")


def _device(kind: Definition) -> dict[str, Any]:
    management = [name for name in kind.first if name.lower().startswith("m")]
    return {
        "interfaces": {
            "serial_ports": kind.serial,
            "physical": [kind.label(n) for n in range(max(kind.ports, 8 if kind.has_vm else 1))],
            "has_loopback_zero": kind.loopback,
            "min_count": kind.minimum,
            "default_count": kind.ports,
            # Both lists are left out when they would be empty: the schema wants one item at least.
            **({"loopback": ["Loopback0"]} if kind.loopback else {}),
            **({"management": management} if management else {}),
        }
    }


def _general(kind: Definition) -> dict[str, Any]:
    return {"nature": kind.nature, "description": f"{kind.id} node", "read_only": True}


def _interface(kind: Definition) -> dict[str, Any]:
    return {
        "label_prefix": f"{kind.id}-",
        "icon": kind.nature if kind.nature in {"router", "switch", "firewall"} else "server",
        "label": kind.id,
        "visible": True,
        "group": "Cisco" if kind.config_file.startswith("ios") else "Others",
        "description": f"{kind.id} node",
    }


def _simplified_interface(kind: Definition) -> dict[str, Any]:
    return {
        **_interface(kind),
        "has_configuration": kind.has_vm,
        "show_ram": kind.has_vm,
        "show_cpus": kind.has_vm,
        "show_cpu_limit": kind.has_vm,
        "show_data_volume": False,
        "show_boot_disk_size": kind.has_vm,
        "has_config_extraction": kind.has_vm,
    }


@cache
def node_definition(name: str) -> dict[str, Any]:
    """Return the whole document of a stock node definition."""
    kind = DEFINITIONS[name]
    return {
        "id": kind.id,
        "boot": {"timeout": kind.timeout, "completed": ["login:"], "uses_regex": False},
        "sim": {
            "linux_native": {
                "libvirt_domain_driver": kind.driver,
                "driver": DRIVERS.get(kind.id, kind.id),
                **{key: value for key, value in (("ram", kind.ram), ("cpus", kind.cpus)) if value},
                "cpu_limit": 100,
                "disk_driver": "virtio",
                "nic_driver": "virtio",
                "data_volume": 0,
                "boot_disk_size": kind.disk,
                **({"video": {"memory": 16}} if kind.vnc else {}),
            }
        },
        "general": _general(kind),
        "configuration": {
            "generator": {"driver": None},
            "provisioning": {
                "files": [{"editable": True, "name": kind.config_file, "content": ""}],
                "media_type": "iso",
                "volume_name": "disk",
            },
        },
        "device": _device(kind),
        "ui": _interface(kind),
        "inherited": {
            "image": dict.fromkeys(INHERITED, True),
            "node": dict.fromkeys(INHERITED, True),
        },
        "schema_version": "0.0.1",
    }


@cache
def simplified(name: str) -> dict[str, Any]:
    """Return one item of simplified_node_definitions."""
    kind = DEFINITIONS[name]
    return {
        "id": kind.id,
        "general": _general(kind),
        "device": _device(kind),
        "ui": _simplified_interface(kind),
        "sim": {
            "ram": kind.ram,
            "cpus": kind.cpus,
            "cpu_limit": 100,
            "data_volume": 0,
            "boot_disk_size": kind.disk,
            "console": kind.serial > 0,
            "simulate": kind.has_vm,
            "custom_mac": kind.has_vm,
            "vnc": kind.vnc,
            "parameters": {},
        },
        "image_definitions": [kind.image] if kind.image else [],
    }


@cache
def image_definition(name: str) -> dict[str, Any]:
    """Return one image definition of the stock."""
    body = uploaded(name, IMAGES[name])
    return {**body, "description": f"Reference image {name}", "read_only": True}


def uploaded(name: str, kind: str) -> dict[str, Any]:
    """Return an image definition as somebody uploads it."""
    return {
        "id": name,
        "node_definition_id": kind,
        "label": name,
        "description": f"Image {name}",
        "disk_image": f"{name}.qcow2",
        "read_only": False,
        "ram": None,
        "cpus": None,
        "cpu_limit": None,
        "boot_disk_size": None,
        "data_volume": None,
        "schema_version": "0.0.1",
    }
