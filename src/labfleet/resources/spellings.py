"""Earlier spellings of fields and names: what was written with them stays readable.

Rows of a store, events of the log, backups, manifests and requests all come through `present`;
paths and conditions that people name come through `path` and `condition`. A document is decoded
strictly first, so that one in today's spelling costs nothing here. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from labfleet.resources.machine import MachineState

Doc = dict[str, Any]

CONDITIONS = {"EC2Provisioned": "MachineProvisioned", "EC2Started": "MachineStarted"}
FINALIZERS = {"labfleet/ec2-instance": "labfleet/machine"}
STATES: Mapping[str, MachineState] = {
    "pending": "booting",
    "shutting-down": "ending",
    "terminated": "gone",
}
STATUS = {
    "instanceId": "id",
    "instanceType": "type",
    "amiId": "image",
    "availabilityZone": "zone",
    "publicIp": "publicAddress",
    "privateIp": "privateAddress",
    "launchTime": "launched",
    "rootVolumeId": "volume",
    "systemCheck": "hostCheck",
    "instanceCheck": "machineCheck",
}
"""Fields of `status.ec2` -> of `status.machine`; the rest kept their names."""
_PATH = re.compile(
    r"(?<![\w-])(?:status\.ec2(?P<field>\.\w+)?|spec\.machine\.aws|(?P<fact>"
    + "|".join(CONDITIONS)
    + r"))(?![\w-])"
)
WITH_MACHINE = frozenset({"Worker", "Template"})
_MARKS = (b'"ec2":', b'"aws":')
"""What every stored document of an earlier spelling has: all fields are written, set or not."""


def present(kind: str, raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a document in today's spelling: the same object when it has that already."""
    if kind not in WITH_MACHINE:
        return raw
    changed: Doc = {}
    spec, status, metadata = raw.get("spec"), raw.get("status"), raw.get("metadata")
    if isinstance(spec, Mapping) and _has(spec.get("machine"), "aws", "provider"):
        changed["spec"] = {**spec, "machine": _machine(spec["machine"])}
    if kind == "Worker" and _has(status, "ec2", "machine"):
        changed["status"] = _status(status)  # type: ignore[arg-type]  # a mapping, as just seen
    held = metadata.get("finalizers") if isinstance(metadata, Mapping) else None
    if isinstance(held, list) and any(each in FINALIZERS for each in held if _named(each)):
        names = [FINALIZERS.get(each, each) if _named(each) else each for each in held]
        changed["metadata"] = {**metadata, "finalizers": names}  # type: ignore[dict-item]
    return {**raw, **changed} if changed else raw


def earlier(kind: str, doc: bytes) -> bool:
    """Tell whether a stored document has an earlier spelling, without decoding it."""
    return kind in WITH_MACHINE and any(mark in doc for mark in _MARKS)


def path(text: str) -> str:
    """Return a path, or an expression of paths and conditions, in today's spelling."""
    return _PATH.sub(_today, text)


def _today(found: re.Match[str]) -> str:
    if found["fact"]:
        return CONDITIONS[found["fact"]]
    if found[0].startswith("spec"):
        return "spec.machine.provider"
    field = (found["field"] or "").removeprefix(".")
    return "status.machine" + (f".{STATUS.get(field, field)}" if field else "")


def condition(name: str) -> str:
    """Return a condition's name in today's spelling."""
    return CONDITIONS.get(name, name)


def _named(value: object) -> bool:
    return isinstance(value, str)


def _has(holder: object, old: str, new: str) -> bool:
    return isinstance(holder, Mapping) and old in holder and new not in holder


def _machine(machine: Mapping[str, Any]) -> Doc:
    made = {("provider" if key == "aws" else key): value for key, value in machine.items()}
    settings = made["provider"]
    if isinstance(settings, Mapping):
        made["provider"] = {"kind": "aws", **settings}
    return made


def _status(status: Mapping[str, Any]) -> Doc:
    made: Doc = {("machine" if key == "ec2" else key): value for key, value in status.items()}
    seen = made["machine"]
    if isinstance(seen, Mapping):
        renamed = {STATUS.get(key, key): value for key, value in seen.items()}
        state = renamed.get("state")
        if isinstance(state, str):
            renamed["state"] = STATES.get(state, state)
        made["machine"] = renamed
    facts = made.get("conditions")
    if isinstance(facts, list):
        made["conditions"] = _conditions(facts)
    return made


def _conditions(facts: list[Any]) -> list[Any]:
    """Return conditions under today's names, in their order by name."""
    if not all(isinstance(each, Mapping) and _named(each.get("type")) for each in facts):
        return facts  # the decoder says what is wrong
    if not any(each["type"] in CONDITIONS for each in facts):
        return facts
    made = [{**each, "type": condition(each["type"])} for each in facts]
    return sorted(made, key=lambda each: str(each["type"]))
