"""The OpenAPI 3.1 document: Litestar's paths and parameters, our bodies and replies.

Bodies are decoded by the product, not by Litestar. So their schemas are made here, from the
msgspec types that decode them.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from litestar import Litestar
from litestar.handlers import HTTPRouteHandler

from labfleet.api.core.endpoints import RouteDoc
from labfleet.api.core.problems import MEDIA_TYPE, Problem

PREFIX = "#/components/schemas/"
_FRIENDLY = {
    "cpu": 'CPUs: 2, 0.5 or "250m"; instead of cpuMilli.',
    "memory": 'For example "4Gi"; instead of memoryMib.',
    "storage": 'For example "20Gi"; instead of storageMib.',
    "network": "Mbit/s; instead of networkKbps.",
}


def document(app: Litestar) -> dict[str, Any]:
    """Return the whole document as plain values."""
    paths: dict[str, Any] = app.openapi_schema.to_schema()
    shapes = _shapes(app)
    types = {t for s in shapes.values() for t in (s.body, s.reply) if _named(t)}
    ordered = sorted(types, key=_name)
    _, components = msgspec.json.schema_components(
        [*ordered, Problem], ref_template=PREFIX + "{name}"
    )
    _friendly(components.get("Amounts", {}))
    for operations in paths["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                parameter["name"] = parameter["name"].removesuffix("_")
            shape = shapes.get(operation.get("operationId", ""))
            if shape is not None:
                _describe(operation, shape)
    paths["components"] = {
        "schemas": components,
        "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        "responses": {
            "Problem": {
                "description": "What went wrong (RFC 9457)",
                "content": {MEDIA_TYPE: {"schema": {"$ref": PREFIX + "Problem"}}},
            }
        },
    }
    paths["security"] = [{"bearer": []}]
    paths["paths"] = {_path(path): value for path, value in paths["paths"].items()}
    return paths


def _shapes(app: Litestar) -> dict[str, RouteDoc]:
    found: dict[str, RouteDoc] = {}
    for route in app.routes:
        for handler in getattr(route, "route_handlers", ()):
            shape = handler.opt.get("shape")
            if isinstance(handler, HTTPRouteHandler) and isinstance(shape, RouteDoc):
                found[str(handler.operation_id)] = shape
    return found


def _describe(operation: dict[str, Any], shape: RouteDoc) -> None:
    if shape.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {shape.body_type: {"schema": _schema(shape.body)}},
        }
    replies = operation["responses"]
    for status in [each for each in replies if each.startswith(("4", "5"))]:
        del replies[status]
    for answer in replies.values():
        answer["content"] = {shape.reply_type: {"schema": _schema(shape.reply)}}
    replies["default"] = {"$ref": "#/components/responses/Problem"}
    if shape.public:
        operation["security"] = []


def _schema(kind: Any) -> dict[str, Any]:
    if _named(kind):
        return {"$ref": PREFIX + _name(kind)}
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
