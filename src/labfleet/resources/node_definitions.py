"""What each CML node definition needs when the lab does not say.

Source: facts/cml.md#node-definitions and #boot-times.

Only a prior for a lab's demand: the server's own definitions decide what really starts, and
observations correct it later. Server-specific definitions can be laid over this table.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeDefault:
    """CPUs, RAM in MiB, largest disk in GiB, seconds to boot, and serial lines of one kind.

    `has_vm` False means: nothing runs and no licence counts (connector, unmanaged switch).
    `cpu_limit` is a percentage of each CPU.
    """

    cpus: int
    ram_mib: int
    disk_gib: int
    boot_seconds: int
    serial_lines: int = 1
    has_vm: bool = True
    cpu_limit: int = 100


UNKNOWN = NodeDefault(1, 1024, 16, 600)
"""Assumed for a definition that the table lacks; such definitions are always listed."""

_DOCKER = NodeDefault(1, 256, 1, 60, 2, cpu_limit=20)
_DOCKER_KINDS = (
    "frr", "nginx", "dnsmasq", "net-tools", "syslog", "radius", "tacplus", "chrome", "firefox",
    "thousandeyes-ea", "splunk",
)  # fmt: skip

DEFAULTS: dict[str, NodeDefault] = {
    "external_connector": NodeDefault(0, 0, 0, 5, 0, has_vm=False),
    "unmanaged_switch": NodeDefault(0, 0, 0, 5, 0, has_vm=False),
    "alpine": NodeDefault(1, 512, 16, 60),
    "asav": NodeDefault(1, 2048, 9, 300),
    "cat8000v": NodeDefault(1, 4096, 8, 300, 2),
    "cat9000v-q200": NodeDefault(4, 18432, 16, 900, 2),
    "cat9000v-uadp": NodeDefault(4, 18432, 16, 900, 2),
    "cat9800": NodeDefault(2, 8192, 16, 300, 2),
    "coreos": NodeDefault(2, 2048, 64, 120),
    "csr1000v": NodeDefault(1, 3072, 8, 300, 2),
    "desktop": NodeDefault(1, 512, 16, 60),
    "ftdv": NodeDefault(4, 8192, 50, 600),
    "fmcv": NodeDefault(4, 32768, 250, 1800),
    # IOL shares CPUs and takes no point of the host's CPU budget (cml-sizer).
    "iol-xe": NodeDefault(0, 1024, 2, 60),
    "ioll2-xe": NodeDefault(0, 1024, 4, 60),
    "iosv": NodeDefault(1, 512, 2, 180, 2),
    "iosvl2": NodeDefault(1, 768, 4, 180, 2),
    "iosxrv": NodeDefault(1, 3072, 4, 300, 3),
    "iosxrv9000": NodeDefault(4, 20480, 64, 900, 4),
    "nxosv": NodeDefault(1, 3072, 4, 300, 2),
    "nxosv9000": NodeDefault(2, 8192, 10, 480, 2),
    "server": NodeDefault(1, 128, 16, 60),
    "trex": NodeDefault(1, 512, 2, 60),
    "ubuntu": NodeDefault(1, 2048, 64, 180),
    "wan_emulator": NodeDefault(1, 512, 2, 60),
    "cat-sdwan-edge": NodeDefault(2, 5120, 16, 300, 2),
    "cat-sdwan-controller": NodeDefault(2, 4096, 20, 300),
    "cat-sdwan-validator": NodeDefault(2, 4096, 20, 300),
    "cat-sdwan-manager": NodeDefault(8, 32768, 30, 600),
    "cat-sdwan-vedge": NodeDefault(2, 2048, 16, 120),
    "vwlc": NodeDefault(1, 2048, 16, 300),
    **dict.fromkeys(_DOCKER_KINDS, _DOCKER),
}
