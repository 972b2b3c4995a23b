"""The reference platform: node and image definitions with sizes, labels and boot times.

Numbers from facts/cml.md#boot-times and #node-definitions. The bodies that show them are in
`catalogue`.
"""

from dataclasses import dataclass

MAX_SLOT = 128


@dataclass(frozen=True, slots=True)
class Definition:
    """One node kind. ram MiB, disk GB, boot and timeout in seconds at full speed."""

    id: str
    cpus: int
    ram: int
    disk: int
    serial: int
    ports: int
    boot: int
    timeout: int
    pattern: str
    first: tuple[str, ...] = ()
    driver: str = "kvm"
    nature: str = "server"
    config_file: str = "node.cfg"
    image: str | None = None
    minimum: int = 0
    vnc: bool = False
    loopback: bool = False

    @property
    def has_vm(self) -> bool:
        """Whether a node of this kind costs CPU, RAM and a licence."""
        return self.driver not in {"none", "ums"}

    def label(self, slot: int) -> str:
        """Return the interface label of a slot."""
        if slot < len(self.first):
            return self.first[slot]
        n = slot - len(self.first)
        return self.pattern.format(n=n, n1=n + 1, n2=n + 2, q=n // 4, r=n % 4)


GIG0 = "GigabitEthernet0/{n}"
GIG1 = "GigabitEthernet{n1}"
XR = "GigabitEthernet0/0/0/{n}"
ETH = "eth{n}"
IOS = "ios_config.txt"


def _docker(name: str, ram: int, image: str) -> Definition:
    return Definition(
        name, 1, ram, 4, 2, 1, 5, 30, ETH, driver="docker", config_file="boot.sh", image=image
    )


_ALL = (
    Definition("alpine", 1, 512, 16, 1, 1, 15, 60, ETH, image="alpine-base-3-21-3", vnc=True),
    Definition(
        "asav", 1, 2048, 9, 1, 2, 150, 300, GIG0, ("Management0/0",), nature="firewall",
        config_file="day0-config", image="asav-9-23-1",
    ),
    Definition(
        "cat8000v", 1, 4096, 8, 2, 4, 240, 250, GIG1, nature="router", config_file=IOS,
        image="cat8000v-17-16-01a", loopback=True,
    ),
    Definition(
        "cat9000v-q200", 4, 18432, 16, 2, 25, 420, 600, GIG0, nature="switch", config_file=IOS,
        image="cat9000v-q200-17-15-03", minimum=9,
    ),
    Definition(
        "cat9000v-uadp", 4, 18432, 16, 2, 25, 420, 600, GIG0, nature="switch", config_file=IOS,
        image="cat9000v-uadp-17-15-03", minimum=9,
    ),
    Definition(
        "cat9800", 2, 6144, 16, 2, 4, 280, 300, GIG1, nature="wireless", config_file=IOS,
        image="cat9800-17-15-01",
    ),
    Definition("coreos", 2, 2048, 64, 1, 1, 40, 120, ETH, image="coreos-2135-4-0"),
    Definition(
        "csr1000v", 1, 3072, 8, 2, 4, 200, 250, GIG1, nature="router", config_file=IOS,
        image="csr1000v-17-03-08a", loopback=True,
    ),
    Definition("desktop", 1, 512, 16, 1, 1, 30, 90, ETH, image="desktop-3-21-3-xfce", vnc=True),
    Definition(
        "external_connector", 0, 0, 0, 0, 1, 2, 5, "port", driver="none",
        nature="external_connector", config_file="default",
    ),
    Definition(
        "unmanaged_switch", 0, 0, 0, 0, 8, 2, 5, "port{n}", driver="none", nature="switch",
        config_file="default",
    ),
    Definition(
        "ftdv", 4, 8192, 50, 1, 4, 290, 300, GIG0, ("Management0/0",), nature="firewall",
        config_file="day0-config", image="ftdv-7-7-0",
    ),
    Definition(
        "fmcv", 4, 32768, 250, 1, 1, 1500, 1800, ETH, config_file="day0-config", image="fmcv-7-7-0"
    ),
    Definition(
        "iol-xe", 0, 1000, 2, 1, 4, 15, 60, "Ethernet{q}/{r}", driver="iol", nature="router",
        config_file=IOS, image="iol-xe-17-16-01a", minimum=4, loopback=True,
    ),
    Definition(
        "ioll2-xe", 0, 1000, 4, 1, 4, 15, 60, "Ethernet{q}/{r}", driver="iol", nature="switch",
        config_file=IOS, image="ioll2-xe-17-16-01a", minimum=4, loopback=True,
    ),
    Definition(
        "iosv", 1, 512, 2, 2, 4, 80, 120, GIG0, nature="router", config_file=IOS,
        image="iosv-159-3-m10", loopback=True,
    ),
    Definition(
        "iosvl2", 1, 768, 4, 2, 4, 90, 120, "GigabitEthernet{q}/{r}", nature="switch",
        config_file=IOS, image="iosvl2-2020",
    ),
    Definition(
        "iosxrv", 1, 3072, 4, 3, 4, 240, 300, XR, ("MgmtEth0/0/CPU0/0",), nature="router",
        config_file="iosxr_config.txt", image="iosxrv-6-3-1", loopback=True,
    ),
    Definition(
        "iosxrv9000", 4, 20480, 64, 4, 4, 660, 900, XR,
        ("MgmtEth0/RP0/CPU0/0", "donotuse1", "donotuse2"), nature="router",
        config_file="iosxr_config.txt", image="iosxrv9000-24-3-1", minimum=3, loopback=True,
    ),
    Definition(
        "nxosv", 1, 3072, 4, 2, 4, 200, 300, "Ethernet2/{n1}", ("mgmt0",), nature="switch",
        config_file="nxos_config.txt", image="nxosv-7-3-0", loopback=True,
    ),
    Definition(
        "nxosv9000", 2, 8192, 10, 2, 4, 390, 480, "Ethernet1/{n1}", ("mgmt0",), nature="switch",
        config_file="nxos_config.txt", image="nxosv9300-10-5-2-f", loopback=True,
    ),
    Definition("server", 1, 128, 16, 1, 1, 15, 60, ETH, config_file="iosxe_config.txt",
               image="server-tcl-16-0"),
    Definition("trex", 1, 512, 2, 1, 2, 30, 90, ETH, image="trex-2-87"),
    Definition(
        "ubuntu", 1, 2048, 64, 1, 1, 60, 120, "ens{n2}", config_file="user-data",
        image="ubuntu-24-04-20250503", vnc=True,
    ),
    Definition("wan_emulator", 1, 512, 2, 1, 2, 20, 60, ETH, image="alpine-wanem-3-21-3"),
    Definition(
        "cat-sdwan-edge", 2, 5120, 8, 2, 4, 240, 250, GIG1, nature="router", config_file=IOS,
        image="cat-sdwan-edge-17-15-01a",
    ),
    Definition("cat-sdwan-controller", 2, 4096, 10, 1, 4, 280, 300, ETH, config_file="user-data",
               image="cat-sdwan-controller-20-15-1"),
    Definition("cat-sdwan-validator", 2, 4096, 10, 1, 4, 280, 300, ETH, config_file="user-data",
               image="cat-sdwan-validator-20-15-1"),
    Definition("cat-sdwan-manager", 8, 16384, 100, 1, 4, 290, 300, ETH, config_file="user-data",
               image="cat-sdwan-manager-20-15-1"),
    Definition("cat-sdwan-vedge", 2, 2048, 10, 1, 4, 110, 120, ETH, nature="router",
               config_file="user-data", image="cat-sdwan-vedge-20-9-5"),
    Definition(
        "vwlc", 1, 2048, 8, 1, 2, 280, 300, ETH, ("service-port", "data-port"), nature="wireless",
        image="vwlc-8-10",
    ),
    _docker("frr", 256, "frr-10-2-1-r1"),
    _docker("nginx", 256, "nginx-1-27"),
    _docker("dnsmasq", 128, "dnsmasq-2-90"),
    _docker("net-tools", 128, "net-tools-1-0"),
    _docker("syslog", 128, "syslog-4-8"),
    _docker("radius", 256, "radius-3-2"),
    _docker("tacplus", 128, "tacplus-f4"),
    _docker("chrome", 2048, "chrome-131"),
    _docker("firefox", 2048, "firefox-133"),
)  # fmt: skip

DEFINITIONS: dict[str, Definition] = {d.id: d for d in _ALL}
IMAGES: dict[str, str] = {d.image: d.id for d in _ALL if d.image is not None}
"""Image definition id -> node definition id."""

UNKNOWN = Definition("unknown", 1, 512, 4, 1, 1, 60, 60, ETH, image=None)
"""Stands for a definition the server does not have (import option `warn`); it cannot start."""


def definition_of(name: str) -> Definition:
    """Return the definition, or the stand-in for an unknown one."""
    return DEFINITIONS.get(name, UNKNOWN)
