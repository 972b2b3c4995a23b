"""The OpenAPI 3.1 document: Litestar's paths and parameters, and what each route states.

Bodies are decoded by the product, not by Litestar. So their schemas are made here, from the
msgspec types that decode them; so are the errors that a client may meet, from the statement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, get_args, get_origin

import msgspec
from litestar import Litestar

from labfleet.api.core.problems import MEDIA_TYPE, Problem
from labfleet.api.core.refusals import statuses
from labfleet.api.core.route import Nothing, Route

PREFIX = "#/components/schemas/"
_FRIENDLY = {
    "cpu": 'CPUs: 2, 0.5 or "250m"; instead of cpuMilli.',
    "memory": 'For example "4Gi"; instead of memoryMib.',
    "storage": 'For example "20Gi"; instead of storageMib.',
    "network": "Mbit/s; instead of networkKbps.",
}


def document(app: Litestar, routes: Mapping[str, Route]) -> dict[str, Any]:
    """Return the whole document as plain values; `routes` by their names."""
    paths: dict[str, Any] = app.openapi_schema.to_schema()
    types = {t for r in routes.values() for t in (_body(r), r.reply) if _named(t)}
    ordered = sorted(types, key=_name)
    _, components = msgspec.json.schema_components(
        [*ordered, Problem], ref_template=PREFIX + "{name}"
    )
    _friendly(components.get("Amounts", {}))
    for operations in paths["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                parameter["name"] = parameter["name"].removesuffix("_")
            _describe(operation, routes[operation["operationId"]])
    paths["components"] = {
        "schemas": components,
        "securitySchemes": {
            "bearer": {"type": "http", "scheme": "bearer"},
            "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        },
        "responses": {
            "Problem": {
                "description": "What went wrong (RFC 9457)",
                "content": {MEDIA_TYPE: {"schema": {"$ref": PREFIX + "Problem"}}},
            }
        },
    }
    paths["security"] = [{"bearer": []}, {"apiKey": []}]
    paths["paths"] = {_path(path): value for path, value in paths["paths"].items()}
    return paths


def _describe(operation: dict[str, Any], route: Route) -> None:
    kind = _body(route)
    if kind is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {route.media[0]: {"schema": _schema(kind)}},
        }
        operation["x-body-limit"] = route.limit
        operation["x-body-values"] = route.values
    replies = operation["responses"]
    for status in [each for each in replies if each.startswith(("4", "5"))]:
        del replies[status]
    for other in route.also:
        replies[str(other)] = {"description": HTTPStatus(other).phrase, "headers": {}}
    for answer in replies.values():
        answer["content"] = {route.reply_type: {"schema": _schema(route.reply)}}
    for status in sorted(statuses(route)):
        replies[str(status)] = {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": {"$ref": PREFIX + "Problem"}}},
        }
    replies["default"] = {"$ref": "#/components/responses/Problem"}
    if route.public:
        operation["security"] = []
    else:
        operation["x-roles"] = [str(role) for role in route.roles]


def _body(route: Route) -> Any:
    """Return the type of the body that the document shows; a verb without parameters has none."""
    return None if route.body is Nothing else route.body


def _schema(kind: Any) -> dict[str, Any]:
    if _named(kind):
        return {"$ref": PREFIX + _name(kind)}
    if get_origin(kind) is list:
        return {"type": "array", "items": _schema(get_args(kind)[0])}
    if kind is str:
        return {"type": "string"}
    return {"type": "object"}


def _named(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _name(kind: Any) -> str:
    return str(kind.__name__)


def _friendly(schema: dict[str, Any]) -> None:
    for name, said in _FRIENDLY.items():
        schema.setdefault("properties", {})[name] = {
            "description": said,
            "anyOf": [{"type": "number"}, {"type": "string"}],
        }


def _path(path: str) -> str:
    return re.sub(r"\{id_\}", "{id}", path)
