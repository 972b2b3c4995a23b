"""What the demo asks for: a template, a pool, a cluster, definitions and sessions."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labfleet.kernel import errors, ids
from labfleet.resources import topology as topologies

LIMIT = 4 * 2**20
KUBECONFIG = "kubeconfig"
"""The file in the demo's secrets folder by which its cluster is reached."""
SUFFIXES = frozenset({".yaml", ".yml", ".json"})


@dataclass(frozen=True)
class Cast:
    """Everything of one run, as bodies for the API."""

    template: dict[str, Any]
    pool: dict[str, Any]
    cluster: dict[str, Any]
    settings: dict[str, Any]
    definitions: list[dict[str, Any]]
    sessions: list[dict[str, Any]]
    unreadable: dict[str, str] = field(default_factory=dict)


def _object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "labfleet.dev/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": {"demo": "true"}},
        "spec": spec,
    }


def template(*, cml_port: int, region: str, subnets: list[str]) -> dict[str, Any]:
    """Return the demo's template: metal workers with an enterprise licence of 200 nodes."""
    return _object(
        "Template",
        "metal",
        {
            "description": "m5zn.metal with a 200-node enterprise licence",
            "machine": {
                "provider": {
                    "kind": "aws",
                    "region": region,
                    "instanceTypes": ["m5zn.metal"],
                    "amiNamePattern": "cisco-cml2.9*",
                    "subnetIds": subnets,
                    "volumeSizeGib": 500,
                    "volumeType": "io1",
                    "volumeIops": 10000,
                },
                "cml": {
                    "port": cml_port,
                    "adminPassword": {"env": "LABFLEET_SECRET_DEMO_CML_PASSWORD"},
                    "tls": {"mode": "pin"},
                },
                "licence": {
                    "product": "CML_Enterprise",
                    "token": {"env": "LABFLEET_SECRET_DEMO_LICENCE_TOKEN"},
                },
                "hourlyPriceUsd": 4.3605,
            },
        },
    )


def pool(*, maximum: int) -> dict[str, Any]:
    """Return the demo's pool: starts empty, grows by need, lets empty workers go."""
    scaling = {
        "policy": "NEED_BASED",
        "minWorkers": 0,
        "maxWorkers": maximum,
        "cooldownUpSeconds": 30,
        "cooldownDownSeconds": 60,
        "emptySeconds": 300,
    }
    return _object(
        "Pool", "demo", {"template": "metal", "track": "demo", "namePrefix": "w",
                         "scaling": scaling}
    )  # fmt: skip


def cluster(*, speed: float) -> dict[str, Any]:
    """Return the cluster for the simulations: what it has and uses is seen, not stated."""
    spec = {
        "kubernetes": {"kubeconfig": {"file": KUBECONFIG}},
        "metrics": [{"name": "metrics-server", "kind": "kubernetes"}],
        # Fleet time: where this machine is busy for a while, figures are not old yet.
        "safeAfterSeconds": min(3600, max(120, round(30 * speed))),
    }
    return _object("Cluster", "default", spec)


def settings(*, speed: float) -> dict[str, Any]:
    """Return what holds in the whole fleet: a crash is told soon, an approval kept for a while.

    Both are for callers who are as slow as real programs on a clock that is fast.
    """
    admission = {
        "graceSeconds": min(86_400, max(60, round(2 * speed))),
        "takeUpSeconds": min(86_400, max(300, round(60 * speed))),
    }
    return _object("Settings", "fleet", {"admission": admission})


def _lab(title: str, nodes: list[tuple[str, str, list[str]]]) -> str:
    """Return a topology of these (label, definition, tags), linked one to the next."""
    lines = ["lab:", f"  title: {title}", "  version: 0.3.0", '  description: ""', '  notes: ""']
    lines.append("nodes:")
    for number, (label, definition, tags) in enumerate(nodes):
        lines += [
            f"  - id: n{number}",
            f"    label: {label}",
            f"    node_definition: {definition}",
            f"    x: {number % 20 * 120}",
            f"    y: {number // 20 * 120}",
            f"    tags: [{', '.join(chr(34) + tag + chr(34) for tag in tags)}]",
            "    interfaces:",
            "      - {id: i0, label: if0, slot: 0, type: physical}",
            "      - {id: i1, label: if1, slot: 1, type: physical}",
        ]
    lines.append("links:")
    for number in range(len(nodes) - 1):
        lines.append(f"  - {{id: l{number}, n1: n{number}, i1: i1, n2: n{number + 1}, i2: i0}}")
    return "\n".join(lines) + "\n"


def built_in_labs() -> dict[str, str]:
    """Return the demo's own topologies by name; the last is too large for any worker."""
    hosts = [("PC1", "alpine", ["serial:5001"]), ("PC2", "alpine", ["serial:5001", "vnc:5901"])]
    pod = [
        ("R1", "iosv", ["serial:5001"]),
        ("R2", "iosv", ["serial:5001"]),
        ("SW1", "iosvl2", ["serial:5001"]),
        ("PC1", "alpine", ["serial:5001"]),
    ]
    campus = [
        ("CORE1", "nxosv9000", ["serial:5001"]),
        ("CORE2", "nxosv9000", ["serial:5001"]),
        ("EDGE", "csr1000v", ["serial:5001"]),
        ("DIST", "iosvl2", []),
        ("SRV", "ubuntu", ["serial:5001", "vnc:5901"]),
    ]
    giant: list[tuple[str, str, list[str]]] = [
        (f"H{number}", "alpine", []) for number in range(240)
    ]
    return {
        "two-hosts": _lab("Two hosts", hosts),
        "routing-pod": _lab("Routing pod", pod),
        "campus": _lab("Campus", campus),
        "too-large": _lab("240 nodes on a 200-node licence", giant),
    }


def labs_of(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return (name -> topology) of a folder's files, and (name -> why) of unreadable ones."""
    found: dict[str, str] = {}
    unreadable: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix.lower() not in SUFFIXES or not path.is_file():
            continue
        name = ids.slug(path.stem, limit=50)
        try:
            if path.stat().st_size > LIMIT:
                unreadable[name] = f"larger than {LIMIT} bytes"
                continue
            found[name] = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            unreadable[name] = str(problem)
    return found, unreadable


def images_of(labs: Mapping[str, str]) -> dict[str, str]:
    """Return the image definitions that labs name, with the node definition of each.

    Those of an own CML are uploaded there; the demo's servers have them too, as theirs would.
    """
    found: dict[str, str] = {}
    for text in labs.values():
        with contextlib.suppress(errors.Invalid):  # told when it is applied
            for node in topologies.parse(text).nodes:
                if node.image_definition is not None:
                    found[node.image_definition] = node.node_definition
    return found


def definition(name: str, topology: str, *, minutes: int) -> dict[str, Any]:
    """Return the definition of one topology."""
    spec = {
        "topology": topology,
        "title": name,
        "track": "demo",
        "defaultDurationMinutes": minutes,
        # Room to extend them; the API's own limit is eight hours.
        "maxDurationMinutes": max(480, 2 * minutes),
    }
    return _object("Definition", name, spec)


def session(name: str, definition_name: str, owner: str) -> dict[str, Any]:
    """Return an on-demand session: start now, for the definition's default duration."""
    return _object(
        "Session", name, {"definition": definition_name, "owner": owner, "slot": {"zone": "UTC"}}
    )


def compose(
    labs: dict[str, str], *, copies: int, minutes: int, maximum: int, speed: float,
    cml_port: int, region: str, subnets: list[str], unreadable: dict[str, str],
) -> Cast:  # fmt: skip
    """Return the whole cast: one session for each lab, or `copies` of each."""
    definitions = [definition(name, text, minutes=minutes) for name, text in labs.items()]
    sessions = [
        session(f"{name}-{number}", name, f"student{number}")
        for name in labs
        for number in range(1, (1 if name == "too-large" else copies) + 1)
    ]
    return Cast(
        template=template(cml_port=cml_port, region=region, subnets=subnets),
        pool=pool(maximum=maximum),
        cluster=cluster(speed=speed),
        settings=settings(speed=speed),
        definitions=definitions,
        sessions=sessions,
        unreadable=unreadable,
    )
