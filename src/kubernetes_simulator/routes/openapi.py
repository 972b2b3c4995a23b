"""OpenAPI as far as kubectl asks: which kinds take a patch, and with which parameters.

Version 2, which it asks for before it applies a `List`, describes no kind: fields are not checked then.

Schemas are open objects: kubectl 1.32 leaves the check of fields to the server, and makes
strategic patches by the types it has built in.
"""

import hashlib

from kubernetes_simulator.core.inputs import Json, canonical
from kubernetes_simulator.core.kinds import Resource, groups, of_group
from kubernetes_simulator.routes.web import Reply, Request, json_reply

TITLE, VERSION = "Kubernetes (simulated)", "v1.32.4"
PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""What is answered; asked for is the older spelling with @, which no media type may have."""
PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}
    for name, kind in (
        ("dryRun", "string"),
        ("fieldManager", "string"),
        ("fieldValidation", "string"),
        ("force", "boolean"),
        ("pretty", "string"),
    )
]
PATCHES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
)
"""Not the strategic one: a kubectl that reads it here makes such patches by these schemas."""


def _kind(each: Resource) -> Json:
    return {"group": each.group, "version": each.version, "kind": each.kind}


def _name(each: Resource) -> str:
    return f"io.k8s.{each.group or 'core'}.{each.version}.{each.kind}"


def _paths(each: Resource, base: str) -> Json:
    inner = "/namespaces/{namespace}" if each.namespaced else ""
    said = {
        "x-kubernetes-group-version-kind": _kind(each),
        "responses": {"200": {"description": "OK"}},
    }
    ref = {"$ref": f"#/components/schemas/{_name(each)}"}
    body = {"content": {"*/*": {"schema": ref}}}
    many = f"{base}{inner}/{each.plural}"
    found: Json = {many: {"get": {**said, "x-kubernetes-action": "list"}}}
    if "create" in each.verbs:
        found[many]["post"] = {
            **said, "x-kubernetes-action": "post", "parameters": PARAMETERS, "requestBody": body,
        }  # fmt: skip
    if "patch" in each.verbs:
        content = {kind: {"schema": {"type": "object"}} for kind in PATCHES}
        found[f"{many}/{{name}}"] = {
            "get": {**said, "x-kubernetes-action": "get"},
            "put": {**said, "x-kubernetes-action": "put", "parameters": PARAMETERS,
                    "requestBody": body},
            "patch": {**said, "x-kubernetes-action": "patch", "parameters": PARAMETERS,
                      "requestBody": {"content": content}},
            "delete": {**said, "x-kubernetes-action": "delete", "parameters": PARAMETERS},
        }  # fmt: skip
    return found


def document(group: str, version: str) -> Json | None:
    """Return the OpenAPI 3 document of a group's version; None if there is none."""
    rows = list(of_group(group, version))
    if not rows:
        return None
    base = f"/apis/{group}/{version}" if group else f"/api/{version}"
    paths: Json = {}
    schemas: Json = {}
    for each in rows:
        paths |= _paths(each, base)
        schemas[_name(each)] = {
            "type": "object",
            "description": f"{each.kind}, as the simulator stores it: fields are not described.",
            "properties": {
                "apiVersion": {"type": "string", "description": "The version of the schema."},
                "kind": {"type": "string", "description": "The kind of the object."},
                "metadata": {"type": "object", "description": "Name, labels, annotations."},
                "spec": {"type": "object", "description": "What is wanted."},
                "status": {"type": "object", "description": "What is."},
            },
            "x-kubernetes-group-version-kind": [_kind(each)],
        }
    return {
        "openapi": "3.0.0",
        "info": {"title": TITLE, "version": VERSION},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def index() -> Json:
    """Return where the documents are."""
    found = [("api/v1", "", "v1")]
    found += [
        (f"apis/{name}/{version}", name, version)
        for name, versions in groups().items()
        for version in versions
    ]
    paths = {}
    for path, name, version in found:
        mark = hashlib.sha256(canonical(document(name, version)).encode()).hexdigest().upper()
        paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={mark}"}
    return {"paths": paths}


def second(request: Request) -> Reply:
    """Return the OpenAPI 2 document, to whom takes it as protobuf, which is what kubectl reads."""
    if PROTOBUF in request.headers.get("accept", "").replace("@", "."):
        info = _field(1, TITLE.encode()) + _field(2, VERSION.encode())
        return Reply(200, _field(1, b"2.0") + _field(2, info), PROTOBUF)
    info_of = {"title": TITLE, "version": VERSION}
    return json_reply({"swagger": "2.0", "info": info_of, "paths": {}, "definitions": {}})


def _field(number: int, value: bytes) -> bytes:
    """Return a protobuf field of at most 127 bytes."""
    return bytes((number << 3 | 2, len(value))) + value
