"""The fleet of a plan: templates, pools and definitions as specs, and each variant's changes.

Refuses undefined names, at the key that uses them. `feasibility` checks what a lab needs and
whether it fits; a recorded fleet comes from `recording`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from labfleet.controllers.worker.observer import MEMORY_RESERVE_MIB
from labfleet.kernel import errors
from labfleet.rehearsal.plans import plan as plans
from labfleet.rehearsal.plans.plan import (
    Lab,
    PoolPlan,
    TemplatePlan,
    Variant,
    WhatIfPlan,
    read_text,
)
from labfleet.rehearsal.plans.plan_words import Wrong, explained
from labfleet.resources import amounts, manifests, prices
from labfleet.resources.amounts import Amounts
from labfleet.resources.machine import Machine
from labfleet.resources.meta import Resource
from labfleet.resources.pool import Scaling, ScalingPolicy

Fleet = list[tuple[str, str, dict[str, Any]]]
Found = dict[tuple[str, str], dict[str, Any]]

REAL_MEMORY = 0.98
"""Share of a machine's nominal memory that CML can give to labs.

188.5 of 192 GiB: facts/aws-bugs.md#case-43.
"""

LABS, PORTS, STORAGE_MIB = 20, 6000, 400 * 1024
"""What a worker has besides CPU and memory when a plan does not say (resources.machine)."""

UNLICENSED_NODES = 5
"""Nodes that every CML server runs; a licence is for no fewer (resources.machine)."""

FREE_USD = 1e-12
"""A price too small to add up: 0 in a template would mean that it states no price."""

LONGEST_DRAWN = 1.2
"""How much longer than usual a slot is drawn at most (demand)."""
USUAL_LIMIT = 480
ORDER = ("Template", "Pool", "Definition")


def whole(
    asked: WhatIfPlan, folder: Path, recorded: Mapping[tuple[str, str], dict[str, Any]]
) -> Fleet:
    """Return (kind, name, spec) of the whole fleet in order; the plan's own come first.

    Raises Wrong for duplicate names, for a file that cannot be read and for an unknown template.
    """
    _unique(asked)
    found = {**recorded, **_files(asked, folder)}
    for number, shape in enumerate(asked.templates):
        machine = _machine(shape, number)
        try:
            msgspec.convert(machine, Machine)
        except msgspec.ValidationError as problem:
            raise Wrong(str(problem), "templates", number) from None
        found["Template", shape.name] = {"machine": machine}
    for pool in asked.pools:
        found["Pool", pool.name] = {
            "template": pool.template,
            "track": pool.track,
            "namePrefix": _prefix(pool.name),
            "scaling": msgspec.to_builtins(pool.scaling),
            "strategy": pool.strategy,
        }
    for number, lab in enumerate(asked.definitions):
        found["Definition", lab.name] = _definition(lab, folder, number)
    _templates(asked, found)
    return [
        (kind, name, found[kind, name])
        for kind, name in sorted(
            (each for each in found if each[0] in ORDER),
            key=lambda each: (ORDER.index(each[0]), each[1]),
        )
    ]


def _unique(asked: WhatIfPlan) -> None:
    named: dict[str, tuple[TemplatePlan | PoolPlan | Lab | Variant, ...]] = {
        "templates": asked.templates,
        "pools": asked.pools,
        "definitions": asked.definitions,
        "variants": asked.variants,
    }
    for word, group in named.items():
        names = [each.name for each in group]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise Wrong(f"two {word} have the name {name!r}", word, number, "name")


def _files(asked: WhatIfPlan, folder: Path) -> Found:
    found: Found = {}
    spaces: set[str] = set()
    for number, name in enumerate(asked.manifests):
        try:
            text = read_text(folder / name)
            for each in manifests.load(text, name=str(folder / name), topology_file=_in(folder)):
                if found and each.object.namespace not in spaces:
                    told = "a plan plays one namespace, and its manifests name two"
                    raise errors.Invalid(f"{each.object.key.path}: {told}")
                spaces.add(each.object.namespace)
                found[each.kind, each.object.name] = spec_of(each.object)
        except errors.LabfleetError as problem:
            raise Wrong(problem.message, "manifests", number) from None
    return found


def _in(folder: Path) -> manifests.Fetch:
    return lambda name: read_text(folder / name)


def _templates(asked: WhatIfPlan, found: Found) -> None:
    """Refuse pools and variants with a missing template, and policies that are not implemented."""
    if not any(kind == "Pool" for kind, _ in found):
        raise Wrong("the plan has no pool; add one under pools or manifests", "pools")
    known = sorted(name for kind, name in found if kind == "Template")
    told = f"no template has this name; there are {', '.join(known) or 'none'}"
    wanted: dict[str, tuple[PoolPlan | Variant, ...]] = {
        "pools": asked.pools,
        "variants": asked.variants,
    }
    for word, group in wanted.items():
        for number, each in enumerate(group):
            if each.template is not None and each.template not in known:
                raise Wrong(f"{each.template}: {told}", word, number, "template")
    places = {pool.name: number for number, pool in enumerate(asked.pools)}
    for (kind, name), spec in found.items():
        if kind != "Pool":
            continue
        if spec["template"] not in known:
            raise Wrong(f"pool {name} wants template {spec['template']}: {told}", "manifests")
        policy = spec.get("scaling", {}).get("policy", ScalingPolicy.NEED_BASED)
        if policy not in set(ScalingPolicy):
            steps = ("pools", places[name], "scaling", "policy") if name in places else ()
            raise Wrong(f"{policy} is no policy; choose {_policies()}", *steps)


def _policies() -> str:
    return " or ".join(ScalingPolicy)


def _prefix(name: str) -> str:
    made = re.sub(r"[^a-z0-9-]", "-", name)[:20].strip("-") or "w"
    return made if made[0].isalpha() else f"w{made}"


def spec_of(obj: Resource) -> dict[str, Any]:
    """Return an object's spec as a client would send it."""
    return dict(msgspec.to_builtins(obj.spec))


def _machine(shape: TemplatePlan, number: int) -> dict[str, Any]:
    price = shape.hourly_price_usd
    if price is None:
        price = float(prices.SHIPPED.hourly(prices.REGION, shape.instance_type) or 0)
    size = _capacity(shape, number)
    return {
        "provider": {
            "kind": "aws",
            "amiId": "ami-1",
            "instanceTypes": [shape.instance_type],
            "subnetIds": ["subnet-a", "subnet-b", "subnet-c"],
            "volumeSizeGib": 500,
        },
        "cml": {
            "adminPassword": {"env": "CML_PASSWORD"},
            "tls": {"mode": "off"},
            "maxNodesLicensed": max(UNLICENSED_NODES, size.nodes),
        },
        "licence": {"product": "CML_Enterprise", "token": {"env": "CML_TOKEN"}},
        "capacity": msgspec.to_builtins(size),
        "hourlyPriceUsd": FREE_USD if shape.hourly_price_usd == 0 else price,
    }


def _capacity(shape: TemplatePlan, number: int) -> Amounts:
    """Return what a machine has for labs: as stated, else as listed, else as usual."""
    stated = shape.capacity or Amounts()
    known = prices.TYPES.get(shape.instance_type)
    usual = Amounts(storage_mib=STORAGE_MIB, nodes=shape.max_nodes, labs=LABS, ports=PORTS)
    if known is not None:
        memory = int(known.memory_gib * 1024 * REAL_MEMORY) - MEMORY_RESERVE_MIB
        usual += Amounts(cpu_milli=known.vcpus * 1000, memory_mib=memory)
    size = Amounts(**{
        name: getattr(stated, name) or getattr(usual, name) for name in amounts.DIMENSIONS
    })  # fmt: skip
    if not size.cpu_milli or not size.memory_mib:
        told = f"{shape.instance_type} is not in the price file: give capacity with cpu and memory"
        raise Wrong(told, "templates", number, "instanceType")
    return size


def _definition(lab: Lab, folder: Path, number: int) -> dict[str, Any]:
    text = topology(lab.name, lab.nodes or ("alpine",))
    if lab.topology_file is not None:
        try:
            text = read_text(folder / lab.topology_file)
        except errors.LabfleetError as problem:
            raise Wrong(problem.message, "definitions", number, "topologyFile") from None
    spec: dict[str, Any] = {
        "topology": text,
        "track": lab.track,
        "defaultDurationMinutes": lab.minutes,
        "graceMinutes": lab.grace_minutes,
    }
    longest = lab.max_minutes or max(USUAL_LIMIT, round(lab.minutes * LONGEST_DRAWN + 0.5))
    if longest != USUAL_LIMIT:
        spec["maxDurationMinutes"] = longest
    if lab.resources is not None:
        spec["resources"] = msgspec.to_builtins(lab.resources)
    return spec


def topology(title: str, nodes: Iterable[str]) -> str:
    """Return a CML topology of these nodes, each with a serial console."""
    lines = [f"lab: {{title: {title}, version: 0.3.0, description: '', notes: ''}}", "nodes:"]
    lines += [
        f"- {{id: n{number}, label: N{number}, node_definition: {kind}, x: 0, y: 0, "
        'tags: ["serial:5001"], interfaces: [{id: i0, label: e0, slot: 0, type: physical}]}'
        for number, kind in enumerate(nodes)
    ]
    return "\n".join([*lines, "links: []"]) + "\n"


def variants(asked: WhatIfPlan, fleet: Fleet) -> list[tuple[Variant, Fleet]]:
    """Return every variant with its fleet; a plan without any has one, `as planned`."""
    if not asked.variants:
        return [(Variant(name="as planned"), fleet)]
    return [(each, _changed(fleet, each, number)) for number, each in enumerate(asked.variants)]


def _changed(fleet: Fleet, variant: Variant, number: int) -> Fleet:
    """Return the fleet as a variant has it; Wrong for a pool or setting nobody knows."""
    here = ("variants", number)
    names = sorted(name for kind, name, _ in fleet if kind == "Pool")
    for place, pool in enumerate(variant.pools):
        if pool not in names:
            raise Wrong(f"no pool {pool}; there are {', '.join(names)}", *here, "pools", place)
    made = []
    for kind, name, spec in fleet:
        new = spec
        if kind == "Pool" and (not variant.pools or name in variant.pools):
            scaling = {**spec.get("scaling", {}), **variant.scaling}
            try:
                msgspec.convert(scaling, Scaling)
            except (msgspec.ValidationError, ValueError) as problem:
                root = (*here, "scaling")
                wrong = explained(str(problem), plans.TYPES, root, "scaling")
                raise Wrong(f"variant {variant.name}: {wrong.message}", *wrong.steps) from None
            new = {**spec, "scaling": scaling, "template": variant.template or spec["template"]}
            if variant.strategy is not None:
                new["strategy"] = variant.strategy
        made.append((kind, name, new))
    return made
