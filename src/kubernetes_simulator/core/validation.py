"""What the API server refuses of an object: names, and what the built kinds cannot do without."""

import re
from collections.abc import Iterator
from typing import Any

from kubernetes_simulator.core.errors import ApiError, invalid
from kubernetes_simulator.core.inputs import Json
from kubernetes_simulator.core.kinds import RBAC, Resource
from kubernetes_simulator.core.quantities import is_quantity, read
from kubernetes_simulator.core.runs import wish_of
from kubernetes_simulator.core.selectors import chosen

Cause = tuple[str, str, str]
"""Field, reason and sentence of one problem."""
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_KEY = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?")
_VALUE = re.compile(r"([A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?)?")
SHORT = frozenset({"namespaces", "services"})
REQUIRED, WRONG, CHANGED = "FieldValueRequired", "FieldValueInvalid", "FieldValueForbidden"
TEMPLATED = frozenset({"apps/deployments", "apps/replicasets", "apps/statefulsets", "batch/jobs"})
NEVER_CHANGED = "field is immutable"
FORM = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
ANNOTATIONS_MOST = 256 * 1024


def named(resource: Resource, name: str) -> Iterator[Cause]:
    """Yield what is wrong with a name."""
    if resource.group == RBAC:
        if not name or "/" in name or "%" in name or len(name) > 253:
            yield "metadata.name", WRONG, f"Invalid value: {name!r}: may not contain '/' or '%'"
        return
    form, most = (_LABEL, 63) if resource.plural in SHORT else (_SUBDOMAIN, 253)
    if len(name) > most or not form.fullmatch(name):
        yield "metadata.name", WRONG, f'Invalid value: "{name}": {FORM}'


def _meta(meta: Json) -> Iterator[Cause]:
    labels = meta.get("labels") or {}
    for field in ("labels", "annotations"):
        rows = meta.get(field) or {}
        if not isinstance(rows, dict) or not all(isinstance(each, str) for each in rows.values()):
            yield f"metadata.{field}", WRONG, "Invalid value: must be a map of texts"
            return
        for key in rows:
            if not _KEY.fullmatch(key):
                yield f"metadata.{field}", WRONG, f'Invalid value: "{key}": name part is not valid'
    for value in labels.values():
        if not _VALUE.fullmatch(value):
            yield (
                "metadata.labels",
                WRONG,
                f'Invalid value: "{value}": a valid label must be an empty string or consist of alphanumeric characters',
            )
    notes = meta.get("annotations") or {}
    if sum(len(key) + len(value) for key, value in notes.items()) > ANNOTATIONS_MOST:
        yield (
            "metadata.annotations",
            "FieldValueTooLong",
            f"Too long: may not be more than {ANNOTATIONS_MOST} bytes",
        )


def _amounts(field: str, each: Json) -> Iterator[Cause]:
    rows = each.get("resources") or {}
    for part in ("requests", "limits"):
        for name, value in (rows.get(part) or {}).items():
            if not is_quantity(value) or read(value) < 0:
                yield (
                    f"{field}.resources.{part}[{name}]",
                    WRONG,
                    f"Invalid value: {value!r}: must be a quantity, 0 or more",
                )
                return
    for name, value in (rows.get("requests") or {}).items():
        limit = (rows.get("limits") or {}).get(name)
        if limit is not None and read(value) > read(limit):
            yield (
                f"{field}.resources.requests",
                WRONG,
                f'Invalid value: "{value}": must be less than or equal to {name} limit of {limit}',
            )


def _pod(field: str, spec: Any, notes: Json) -> Iterator[Cause]:
    boxes = spec.get("containers") if isinstance(spec, dict) else None
    if not boxes or not isinstance(boxes, list):
        yield f"{field}.containers", REQUIRED, "Required value"
        return
    names: set[str] = set()
    more = spec.get("initContainers") or []
    for place, each in enumerate([*boxes, *more]):
        here = f"{field}.containers[{place}]"
        if not isinstance(each, dict):
            yield here, WRONG, "Invalid value: must be an object"
            continue
        name = each.get("name", "")
        if not name:
            yield f"{here}.name", REQUIRED, "Required value"
        elif not _LABEL.fullmatch(str(name)):
            yield f"{here}.name", WRONG, f'Invalid value: "{name}": {FORM}'
        elif name in names:
            yield f"{here}.name", "FieldValueDuplicate", f'Duplicate value: "{name}"'
        names.add(name)
        if not each.get("image"):
            yield f"{here}.image", REQUIRED, "Required value"
        yield from _amounts(here, each)
    policies = ("Always", "OnFailure", "Never")
    if spec.get("restartPolicy", "Always") not in policies:
        yield (
            f"{field}.restartPolicy",
            "FieldValueNotSupported",
            f'Unsupported value: "{spec["restartPolicy"]}": supported values: {", ".join(policies)}',
        )
    for name, text in wish_of(notes)[1]:
        yield f"metadata.annotations[{name}]", WRONG, f"Invalid value: {text}"


def _templated(resource: Resource, spec: Json) -> Iterator[Cause]:
    template = spec.get("template") or {}
    held = template.get("metadata") or {}
    if resource.plural != "jobs":
        if not spec.get("selector"):
            yield "spec.selector", REQUIRED, "Required value"
        elif not chosen(spec["selector"], held.get("labels")):
            yield (
                "spec.template.metadata.labels",
                WRONG,
                "Invalid value: `selector` does not match template `labels`",
            )
    elif (template.get("spec") or {}).get("restartPolicy", "Always") == "Always":
        yield (
            "spec.template.spec.restartPolicy",
            "FieldValueNotSupported",
            'Unsupported value: "Always": supported values: "OnFailure", "Never"',
        )
    for key in ("replicas", "parallelism", "completions", "backoffLimit"):
        value = spec.get(key)
        if value is not None and (not isinstance(value, int) or not 0 <= value <= 100_000):
            yield (
                f"spec.{key}",
                WRONG,
                f"Invalid value: {value!r}: must be a whole number from 0 to 100000",
            )
    yield from _pod("spec.template.spec", template.get("spec") or {}, held.get("annotations") or {})


def problems(resource: Resource, obj: Json) -> list[Cause]:
    """Return what is wrong with an object, apart from what it was before."""
    meta = obj["metadata"]
    found = [*named(resource, str(meta.get("name", ""))), *_meta(meta)]
    if any(cause[0] == "metadata.annotations" for cause in found):
        return found
    spec = obj.get("spec") or {}
    if not isinstance(spec, dict):
        return [*found, ("spec", WRONG, "Invalid value: must be an object")]
    if resource.plural == "pods":
        found += _pod("spec", spec, meta.get("annotations") or {})
    elif resource.path in TEMPLATED:
        found += _templated(resource, spec)
    return found


def refuse(resource: Resource, obj: Json, causes: list[Cause]) -> ApiError:
    """Return the 422 of problems."""
    return invalid(resource.group, resource.kind, str(obj["metadata"].get("name", "")), causes)


def changes(resource: Resource, old: Json, new: Json) -> list[Cause]:
    """Return what a change changes that may never change."""
    was, now = old.get("spec") or {}, new.get("spec") or {}
    fixed: tuple[str, ...] = ()
    if resource.path in {"apps/deployments", "apps/replicasets"}:
        fixed = ("selector",)
    elif resource.path == "apps/statefulsets":
        fixed = ("selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates")
    elif resource.path == "batch/jobs":
        fixed = ("selector", "completions", "completionMode")
        if not was.get("suspend"):
            fixed = (*fixed, "template")
    found = [
        (f"spec.{key}", WRONG, f"Invalid value: {NEVER_CHANGED}")
        for key in fixed
        if was.get(key) != now.get(key)
    ]
    if resource.plural == "pods" and _bones(was) != _bones(now):
        text = (
            "Forbidden: pod updates may not change fields other than "
            "`spec.containers[*].image`,`spec.initContainers[*].image`,"
            "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
            "tolerations),`spec.terminationGracePeriodSeconds`"
        )
        found.append(("spec", CHANGED, text))
    held = ("data", "binaryData", "immutable")
    fixed_data = resource.plural in {"secrets", "configmaps"} and old.get("immutable")
    if fixed_data and any(old.get(key) != new.get(key) for key in held):
        found.append(("data", CHANGED, "Forbidden: field is immutable when `immutable` is set"))
    return found


def _bones(spec: Json) -> Json:
    free = {"activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds"}
    found = {key: value for key, value in spec.items() if key not in free}
    for key in ("containers", "initContainers"):
        if found.get(key):
            found[key] = [{**each, "image": ""} for each in found[key]]
    return found
