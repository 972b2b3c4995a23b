"""Label and field selectors: from the query's text, or from a selector in a spec, to a question."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from kubernetes_simulator.core.errors import bad_request
from kubernetes_simulator.core.inputs import Json

Test = Callable[[Json], bool]
"""Tells whether an object is selected."""

_SET = re.compile(r"^(?P<key>[\w./-]+)\s+(?P<how>in|notin)\s*\((?P<values>[^()]*)\)$")
_EQUAL = re.compile(r"^(?P<key>[\w./-]+)\s*(?P<how>==|=|!=)\s*(?P<value>[\w.-]*)$")
_NUMBER = re.compile(r"^(?P<key>[\w./-]+)\s*(?P<how>[<>])\s*(?P<value>-?\d+)$")
_THERE = re.compile(r"^(?P<not>!\s*)?(?P<key>[\w./-]+)$")
MOST = 4096
"""Longest text of a selector that is read."""


def _parts(text: str) -> list[str]:
    """Split at the commas outside parentheses."""
    found, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            found.append(text[start:at].strip())
            start = at + 1
    return [*found, text[start:].strip()]


def _one(text: str) -> tuple[str, str, tuple[str, ...]]:
    if found := _SET.match(text):
        values = tuple(each.strip() for each in found["values"].split(","))
        return found["key"], found["how"], values
    if found := _EQUAL.match(text):
        return found["key"], "notin" if found["how"] == "!=" else "in", (found["value"],)
    if found := _NUMBER.match(text):
        return found["key"], found["how"], (found["value"],)
    if found := _THERE.match(text):
        return found["key"], "absent" if found["not"] else "exists", ()
    raise bad_request(f'unable to parse requirement: found "{text}"')


def holds(labels: Mapping[str, str], key: str, how: str, values: tuple[str, ...]) -> bool:
    """Tell whether labels satisfy one requirement."""
    value = labels.get(key)
    match how:
        case "in":
            return value is not None and value in values
        case "notin":
            return value is None or value not in values
        case "exists":
            return value is not None
        case "absent":
            return value is None
        case _:
            if value is None or not value.lstrip("-").isdigit():
                return False
            return int(value) < int(values[0]) if how == "<" else int(value) > int(values[0])


@lru_cache(maxsize=1024)
def labels_of(text: str) -> Test:
    """Return the test of a `labelSelector` of the query; 400 if it cannot be read."""
    if len(text) > MOST:
        raise bad_request("the label selector is too long")
    rules = [_one(part) for part in _parts(text)] if text.strip() else []

    def test(obj: Json) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(holds(labels, *rule) for rule in rules)

    return test


HOW = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}


def chosen(selector: Json | None, labels: Mapping[str, str] | None) -> bool:
    """Tell whether labels satisfy a spec's selector; an absent one selects nothing."""
    if selector is None:
        return False
    held = labels or {}
    exact = selector.get("matchLabels") or {}
    if any(held.get(key) != value for key, value in exact.items()):
        return False
    return all(
        holds(held, each["key"], HOW[each["operator"]], tuple(each.get("values") or ()))
        for each in selector.get("matchExpressions") or ()
    )


FIELDS: dict[str, frozenset[str]] = {
    "pods": frozenset({
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
        "spec.hostNetwork", "status.phase", "status.podIP", "status.nominatedNodeName",
    }),
    "events": frozenset({
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name",
        "involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion",
        "involvedObject.fieldPath", "reason", "reportingComponent", "source", "type",
    }),
    "nodes": frozenset({"spec.unschedulable"}),
    "namespaces": frozenset({"status.phase"}),
    "secrets": frozenset({"type"}),
    "replicasets": frozenset({"status.replicas"}),
    "jobs": frozenset({"status.successful"}),
    "services": frozenset({"spec.clusterIP", "spec.type"}),
}  # fmt: skip
"""The fields of each resource that a server can select by, beside name and namespace."""
ALWAYS = frozenset({"metadata.name", "metadata.namespace"})


def field_of(obj: Json, path: str) -> str:
    """Return a field as text; "" when it is not there."""
    value: Any = obj
    if path == "source":
        path = "source.component"
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "false" if path in {"spec.unschedulable", "spec.hostNetwork"} else ""
    return str(value)


@lru_cache(maxsize=1024)
def fields_of(plural: str, text: str) -> Test:
    """Return the test of a `fieldSelector` of the query; 400 for fields that cannot be asked."""
    if len(text) > MOST:
        raise bad_request("the field selector is too long")
    rules: list[tuple[str, bool, str]] = []
    for part in text.split(",") if text.strip() else ():
        found = re.match(r"^\s*([\w.]+)\s*(==|=|!=)\s*(.*?)\s*$", part)
        if found is None:
            raise bad_request(f'invalid selector: "{part}"; can\'t understand it')
        path, how, value = found.groups()
        if path not in ALWAYS | FIELDS.get(plural, frozenset()):
            raise bad_request(f'field label not supported: "{path}"')
        rules.append((path, how != "!=", value))

    def test(obj: Json) -> bool:
        return all((field_of(obj, path) == value) is equal for path, equal, value in rules)

    return test


def exact_name(text: str) -> str | None:
    """Return the one name that a field selector leaves, or None: then only that is looked up."""
    found = re.fullmatch(r"metadata\.name==?([^,]+)", text)
    return found[1] if found else None
