"""One server's node and image definitions: the stock ones, less removed ones, plus uploads.

All servers share the stock (`definitions`, `catalogue`); a store holds only the differences.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from cml_simulator.core import catalogue
from cml_simulator.core.definitions import DEFINITIONS, IMAGES, Definition
from cml_simulator.core.errors import CmlError, Problem, invalid, not_found, refused
from cml_simulator.core.fields import Reader

DEFINITION_LIMIT = 100_000
KEPT = 1000
"""How many definitions, images and dropped files one server takes, each."""
PARTS = ("general", "device", "sim", "boot")
DRIVERS = {"kvm", "docker", "iol", "none", "ums"}
SIZES = ("ram", "cpus", "cpu_limit", "boot_disk_size", "data_volume")
IMAGE_KEYS = (
    *SIZES,
    "id",
    "node_definition_id",
    "label",
    "description",
    "disk_image",
    "disk_image_2",
    "disk_image_3",
    "disk_image_4",
    "docker_tag",
    "efi_boot",
    "sha256",
    "read_only",
    "configuration",
    "pyats",
    "schema_version",
)


@dataclass(slots=True)
class DefinitionStore:
    """The differences to the stock: kinds and bodies by id, image bodies by id, removed ids."""

    docker: bool = True
    kinds: dict[str, Definition] = field(default_factory=dict)
    bodies: dict[str, dict[str, Any]] = field(default_factory=dict)
    images: dict[str, dict[str, Any]] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    removed_images: set[str] = field(default_factory=set)
    loose: set[str] = field(default_factory=set)
    loose_images: set[str] = field(default_factory=set)
    dropped: dict[str, int] = field(default_factory=dict)

    def upload(self, images: Mapping[str, str]) -> None:
        """Add image definitions (id -> node definition), but for those that are there."""
        for name, kind in images.items():
            if self.image(name) is None:
                self.images[name] = catalogue.uploaded(name, kind)

    def stock(self, name: str) -> bool:
        """Whether a stock node definition is still there, in a release that has it."""
        kind = DEFINITIONS.get(name)
        if kind is None or name in self.removed or name in self.kinds:
            return False
        return self.docker or kind.driver != "docker"

    def kind(self, name: str) -> Definition | None:
        """Return a node kind, or None."""
        return self.kinds.get(name) or (DEFINITIONS[name] if self.stock(name) else None)

    def names(self) -> Iterator[str]:
        """Yield the ids of all node definitions."""
        yield from (name for name in DEFINITIONS if self.stock(name))
        yield from self.kinds

    def image_names(self) -> Iterator[str]:
        """Yield the ids of all image definitions."""
        yield from (name for name in IMAGES if self.stock_image(name))
        yield from self.images

    def stock_image(self, name: str) -> bool:
        """Whether a stock image is still there."""
        if name not in IMAGES or name in self.removed_images or name in self.images:
            return False
        return self.stock(IMAGES[name]) or IMAGES[name] in self.kinds

    def image(self, name: str) -> dict[str, Any] | None:
        """Return the body of an image definition, or None."""
        if name in self.images:
            return self.images[name]
        if not self.stock_image(name):
            return None
        body = catalogue.image_definition(name)
        return {**body, "read_only": False} if name in self.loose_images else body

    def images_of(self, kind: str) -> list[dict[str, Any]]:
        """Return the image definitions of one node definition."""
        stock = DEFINITIONS.get(kind)
        own = [body for body in self.images.values() if body["node_definition_id"] == kind]
        if stock is not None and stock.image is not None:
            body = self.image(stock.image)
            if body is not None and body not in own:
                return [body, *own]
        return own

    def body(self, name: str) -> dict[str, Any]:
        """Return the whole document of a node definition, or 404."""
        if name in self.bodies:
            return self.bodies[name]
        if not self.stock(name):
            raise not_found("Node definition", name)
        body = catalogue.node_definition(name)
        if name in self.loose:
            return {**body, "general": {**body["general"], "read_only": False}}
        return body

    def simplified(self, name: str) -> dict[str, Any]:
        """Return one item of simplified_node_definitions."""
        images = [body["id"] for body in self.images_of(name)]
        if name not in self.kinds:
            return {**catalogue.simplified(name), "image_definitions": images}
        kind, body = self.kinds[name], self.bodies[name]
        return {
            "id": name,
            "general": body["general"],
            "device": body["device"],
            "ui": body.get("ui", {}),
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
            "image_definitions": images,
        }


def sized(definition_store: DefinitionStore, name: str, image: str | None) -> Definition | None:
    """Return a node's kind when it is not stock or its image has sizes of its own; else None."""
    kind = definition_store.kind(name)
    body = (
        definition_store.image(image)
        if image
        else next(iter(definition_store.images_of(name)), None)
    )
    own = {k: body[k] for k in ("ram", "cpus") if body is not None and body.get(k) is not None}
    if kind is None or (not own and name not in definition_store.kinds):
        return None
    return replace(kind, **own)


# ------------------------------------------------------------------ node definitions


def put_node_definition(definition_store: DefinitionStore, document: Any, *, new: bool) -> str:
    """Add or replace a node definition; return its id."""
    if not isinstance(document, dict):
        raise invalid([Problem(("body",), "dict_type", "Input should be a valid dictionary")])
    problems: list[Problem] = []
    read = Reader(problems, ("body",))
    name = read.text(document, "id", 250, needed=True, line=True, least=1) or ""
    if "/" in name:
        read.fail("id", "string_pattern_mismatch", "String should not hold a slash")
    kind = _kind(name, document, read)
    if problems:
        raise invalid(problems)
    known = definition_store.kind(name)
    if new and known is not None:
        raise refused(f"Node definition already exists: {name}")
    if not new and known is None:
        raise not_found("Node definition", name)
    if not new and is_read_only(definition_store, name):
        raise CmlError(403, f"Node definition is read-only: {name}")
    if len(definition_store.kinds) >= KEPT:
        raise refused("Too many node definitions.")
    definition_store.kinds[name], definition_store.bodies[name] = kind, document
    return name


def _kind(name: str, document: dict[str, Any], read: Reader) -> Definition:
    for part in PARTS:
        if not isinstance(document.get(part), dict):
            read.fail(part, "missing", "Field required")
    native = _inner(document, "sim", "linux_native", read)
    ports = _inner(document, "device", "interfaces", read)
    boot = document.get("boot") if isinstance(document.get("boot"), dict) else {}
    driver = native.get("libvirt_domain_driver", "kvm")
    if driver not in DRIVERS:
        read.deeper("sim", "linux_native").fail(
            "libvirt_domain_driver", "enum", f"Input should be one of {sorted(DRIVERS)}"
        )
        driver = "kvm"
    sim, device = read.deeper("sim", "linux_native"), read.deeper("device", "interfaces")
    physical = ports.get("physical") or []
    if not isinstance(physical, list) or not all(isinstance(p, str) for p in physical):
        device.fail("physical", "list_type", "Input should be a list of strings")
        physical = []
    minimum = device.whole(ports, "min_count", 0, 129) or 0
    count = device.whole(ports, "default_count", 0, 129)
    timeout = read.deeper("boot").whole(boot or {}, "timeout", 0, 86_400)
    return Definition(
        name,
        cpus=sim.whole(native, "cpus", 0, 128) or (0 if driver in {"none", "ums"} else 1),
        ram=sim.whole(native, "ram", 0, 1_048_576) or 0,
        disk=sim.whole(native, "boot_disk_size", 0, 4096) or 4,
        serial=device.whole(ports, "serial_ports", 0, 4) or 0,
        ports=len(physical) if count is None else min(count, 129),
        boot=max(2, (timeout or 60) // 2),
        timeout=timeout or 60,
        pattern="port{n}",
        first=tuple(physical),
        driver=str(driver),
        nature=str((document.get("general") or {}).get("nature", "server"))
        if isinstance(document.get("general"), dict)
        else "server",
        config_file=_config_file(document),
        minimum=minimum,
        vnc=bool(native.get("video")),
        loopback=bool(ports.get("has_loopback_zero")),
    )


def _inner(document: dict[str, Any], part: str, key: str, read: Reader) -> dict[str, Any]:
    outer = document.get(part)
    inner = outer.get(key) if isinstance(outer, dict) else None
    if isinstance(inner, dict):
        return inner
    if isinstance(outer, dict):
        read.deeper(part).fail(key, "missing", "Field required")
    return {}


def _config_file(document: dict[str, Any]) -> str:
    section = document.get("configuration")
    provisioning = section.get("provisioning") if isinstance(section, dict) else None
    files = provisioning.get("files") if isinstance(provisioning, dict) else None
    rows = [row for row in files if isinstance(row, dict)] if isinstance(files, list) else []
    editable = [row for row in rows if row.get("editable")] or rows
    return str(editable[0].get("name", "node.cfg")) if editable else "node.cfg"


def is_read_only(definition_store: DefinitionStore, name: str) -> bool:
    """Whether a node definition may not be changed."""
    return bool(definition_store.body(name)["general"].get("read_only", False))


def set_read_only(definition_store: DefinitionStore, name: str, *, value: bool) -> dict[str, Any]:
    """Lock or unlock a node definition; return its document."""
    body = definition_store.body(name)
    if name in definition_store.bodies:
        definition_store.bodies[name] = {**body, "general": {**body["general"], "read_only": value}}
    elif value:
        definition_store.loose.discard(name)
    else:
        definition_store.loose.add(name)
    return definition_store.body(name)


def remove_node_definition(definition_store: DefinitionStore, name: str) -> None:
    """Remove a node definition that is not locked and has no images."""
    if is_read_only(definition_store, name):
        raise CmlError(403, f"Node definition is read-only: {name}")
    if any(body["node_definition_id"] == name for body in definition_store.images.values()):
        raise refused(f"Node definition has image definitions: {name}")
    definition_store.kinds.pop(name, None)
    definition_store.bodies.pop(name, None)
    definition_store.removed.add(name)


# ------------------------------------------------------------------ image definitions


def put_image(definition_store: DefinitionStore, row: dict[str, Any], *, new: bool) -> str:
    """Add or replace an image definition of checked keys; return its id."""
    problems: list[Problem] = []
    read = Reader(problems, ("body",))
    name = read.text(row, "id", 250, needed=True, line=True, least=1) or ""
    if "/" in name:
        read.fail("id", "string_pattern_mismatch", "String should not hold a slash")
    kind = read.text(row, "node_definition_id", 250, needed=True) or ""
    label = read.text(row, "label", 250, needed=True) or ""
    body = {**dict.fromkeys(IMAGE_KEYS[:5]), "description": "", "read_only": False}
    body["schema_version"] = "0.0.1"
    for key in SIZES:
        body[key] = read.whole(row, key, 0, 1_048_576)
    for key in IMAGE_KEYS[8:]:
        if row.get(key) is not None and key != "pyats":
            body[key] = row[key]
            if isinstance(row[key], dict | list):
                read.fail(key, "string_type", "Input should be a valid string")
    if problems:
        raise invalid(problems)
    if definition_store.kind(kind) is None:
        raise not_found("Node definition", kind)
    known = definition_store.image(name)
    if new and known is not None:
        raise refused(f"Image definition already exists: {name}")
    if not new and known is None:
        raise not_found("Image definition", name)
    if known is not None and known["read_only"]:
        raise CmlError(403, f"Image definition is read-only: {name}")
    if len(definition_store.images) >= KEPT:
        raise refused("Too many image definitions.")
    definition_store.images[name] = {"id": name, "node_definition_id": kind, "label": label, **body}
    return name


def known_image(definition_store: DefinitionStore, name: str) -> dict[str, Any]:
    """Return an image definition, or 404."""
    body = definition_store.image(name)
    if body is None:
        raise not_found("Image definition", name)
    return body


def set_image_read_only(
    definition_store: DefinitionStore, name: str, *, value: bool
) -> dict[str, Any]:
    """Lock or unlock an image definition."""
    body = known_image(definition_store, name)
    if name in definition_store.images:
        definition_store.images[name] = {**body, "read_only": value}
    elif value:
        definition_store.loose_images.discard(name)
    else:
        definition_store.loose_images.add(name)
    return known_image(definition_store, name)


def remove_image(definition_store: DefinitionStore, name: str) -> None:
    """Remove an image definition that is not locked."""
    if known_image(definition_store, name)["read_only"]:
        raise CmlError(403, f"Image definition is read-only: {name}")
    definition_store.images.pop(name, None)
    definition_store.removed_images.add(name)
