"""The OpenAPI 3.1 document: Litestar's paths and parameters, and what each route states.

Bodies are decoded by the product, not by Litestar. So their schemas are made here, from the
msgspec types that decode them; so are the errors that a client may meet, from the statement.
What things mean stands in the docstrings: of a handler, of a record and its fields, of a kind.
Examples are requests and answers of the tests (`examples.json`, by tests/api/example_story.py).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec
from litestar import Litestar

from labfleet.api.core import reply_words
from labfleet.api.core.problems import MEDIA_TYPE, Problem
from labfleet.api.core.refusals import statuses
from labfleet.api.core.route import Nothing, Route
from labfleet.resources import descriptions
from labfleet.resources.kinds import KINDS

PREFIX = "#/components/schemas/"
EXAMPLES = Path(__file__).parent / "examples.json"
TAGS = {
    "calendar": "Sessions as calendar files, and an address from which a program reads one's own.",
    "costs": "What the fleet costs, by whom and for what; the bill of a month; prices.",
    "history": "Past runs: what was asked, given and really used, kept longer than the objects.",
    "seeds": "Routes under the names of earlier systems, for clients that were written for those.",
    "system": "The server itself: this document, health, metrics, the event stream.",
    "tokens": "Who may use the API.",
}
"""What a group of operations is about that is no kind's."""
_FRIENDLY = {
    "cpu": 'CPUs: 2, 0.5 or "250m"; instead of cpuMilli.',
    "memory": 'For example "4Gi"; instead of memoryMib.',
    "storage": 'For example "20Gi"; instead of storageMib.',
    "network": "Mbit/s; instead of networkKbps.",
}


def document(app: Litestar, routes: Mapping[str, Route]) -> dict[str, Any]:
    """Return the whole document as plain values; `routes` by their names."""
    paths: dict[str, Any] = app.openapi_schema.to_schema()
    types = {t for r in routes.values() for t in (_body(r), _one(r.reply)) if _named(t)}
    ordered = sorted(types, key=_name)
    _, components = msgspec.json.schema_components(
        [*ordered, Problem], ref_template=PREFIX + "{name}"
    )
    _friendly(components.get("Amounts", {}))
    for record in _records([*ordered, Problem]):
        _tell(components[_name(record)], record)
    examples = msgspec.json.decode(EXAMPLES.read_bytes())
    for operations in paths["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                parameter["name"] = parameter["name"].removesuffix("_")
            name = operation["operationId"]
            _describe(operation, routes[name])
            _show(operation, examples.get(name, {}))
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
    paths["tags"] = _tags(routes.values())
    paths["security"] = [{"bearer": []}, {"apiKey": []}]
    paths["paths"] = {_path(path): value for path, value in paths["paths"].items()}
    return paths


def _records(kinds: Sequence[Any]) -> list[type]:
    """Return every record that these types are made of."""
    found: dict[type, None] = {}
    waiting: list[Any] = [*msgspec.inspect.multi_type_info(kinds)]
    while waiting:
        each = waiting.pop()
        if isinstance(each, tuple):
            waiting += each
        elif isinstance(each, msgspec.inspect.StructType) and each.cls in found:
            continue
        elif isinstance(each, msgspec.inspect.Type | msgspec.inspect.Field):
            if isinstance(each, msgspec.inspect.StructType):
                found[each.cls] = None
            waiting += [getattr(each, name) for name in each.__struct_fields__]
    return list(found)


def _tell(schema: dict[str, Any], record: type) -> None:
    """Put the words of a record into its schema."""
    schema["description"] = descriptions.about(record)
    for name, text in descriptions.fields(record).items():
        if name in schema.get("properties", {}):
            schema["properties"][name]["description"] = text
    shape = msgspec.inspect.type_info(record)
    for field in shape.fields if isinstance(shape, msgspec.inspect.StructType) else ():
        if _instant(field.type):
            told = schema["properties"][field.encode_name]
            for each in (told, *told.get("anyOf", ())):
                if each.get("type") == "string":
                    each["format"] = "date-time"


def _instant(kind: msgspec.inspect.Type) -> bool:
    """Tell whether a field holds an instant, of which msgspec's schema says only that it is text."""
    among = kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)
    return any(isinstance(each, msgspec.inspect.DateTimeType) for each in among)


def _tags(routes: Iterable[Route]) -> list[dict[str, str]]:
    """Return the groups of operations, each with what it is about."""
    told = {**TAGS, **{row.plural: row.summary for row in KINDS.values()}}
    return [{"name": name, "description": told[name]} for name in sorted({r.tag for r in routes})]


def _describe(operation: dict[str, Any], route: Route) -> None:
    operation["description"] = inspect.cleandoc(route.run.__doc__ or "")
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
        replies[str(other)] = {"headers": {}}
    for status, answer in replies.items():
        answer["description"] = reply_words.said(route, int(status))
        answer["content"] = {route.reply_type: {"schema": _schema(route.reply)}}
    for refused in sorted(statuses(route)):
        replies[str(refused)] = {
            "description": HTTPStatus(refused).phrase,
            "content": {MEDIA_TYPE: {"schema": {"$ref": PREFIX + "Problem"}}},
        }
    replies["default"] = {"$ref": "#/components/responses/Problem"}
    if route.public:
        operation["security"] = []
    else:
        operation["x-roles"] = [str(role) for role in route.roles]


def _show(operation: dict[str, Any], example: Mapping[str, Any]) -> None:
    """Put an operation's example into it: what was sent, and what was replied."""
    if "request" in example and "requestBody" in operation:
        for each in operation["requestBody"]["content"].values():
            each["example"] = example["request"]
    if "reply" in example:
        for each in operation["responses"][str(example["status"])]["content"].values():
            each["example"] = example["reply"]


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


def _one(reply: Any) -> Any:
    """Return what a reply is, or what each of it is when it is a list."""
    return get_args(reply)[0] if get_origin(reply) is list else reply


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
