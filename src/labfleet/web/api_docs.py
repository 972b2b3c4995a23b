"""The data of the pages at `/docs`: the OpenAPI document as groups, operations and records. Pure.

It knows what the document says and nothing else of the API, so that the pages cannot say anything
that programs do not read too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

ROOT = "/docs"
DOCUMENT = "labfleet.document"
"""Where the API puts a function that returns its document, into the scope of a page's request."""
METHODS = ("get", "post", "put", "patch", "delete")
Schema = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Piece:
    """A word of a type; a record's name leads to its page."""

    text: str
    href: str = ""


@dataclass(frozen=True, slots=True)
class Field:
    """One parameter of an operation or field of a record. `place` is path, query or header."""

    name: str
    type: tuple[Piece, ...]
    said: str
    required: bool = False
    default: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class Body:
    """A body that is sent or replied: its media types, its type, perhaps an example of it."""

    media: tuple[str, ...]
    type: tuple[Piece, ...]
    example: str = ""
    limit: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply of an operation."""

    status: str
    said: str
    body: Body

    @property
    def refusal(self) -> bool:
        """Tell whether it is a problem document."""
        return self.body.media == ("application/problem+json",)


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation. `roles` is empty for one that needs no token."""

    id: str
    group: str
    method: str
    path: str
    summary: str
    said: str
    roles: tuple[str, ...]
    parameters: tuple[Field, ...]
    body: Body | None
    replies: tuple[Reply, ...]
    refusals: tuple[Reply, ...]

    @property
    def href(self) -> str:
        """Return where the operation stands."""
        return f"{ROOT}/{self.group}#{self.id}"


@dataclass(frozen=True, slots=True)
class Group:
    """The operations of one tag."""

    name: str
    said: str
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class RecordDocs:
    """One record of bodies: its fields, or the words of a list of words."""

    name: str
    said: tuple[str, ...]
    fields: tuple[Field, ...]
    words: tuple[str, ...]
    used: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class ApiDocs:
    """The whole document."""

    title: str
    groups: tuple[Group, ...]
    records: Mapping[str, RecordDocs]

    def group(self, name: str) -> Group | None:
        """Return the group of a name."""
        return next((each for each in self.groups if each.name == name), None)


def read(document: Schema) -> ApiDocs:
    """Return what a document says, groups and records by name, operations by path."""
    operations = tuple(_operations(document))
    groups = tuple(
        Group(
            each["name"],
            each["description"],
            tuple(one for one in operations if one.group == each["name"]),
        )
        for each in document["tags"]
    )
    schemas = document["components"]["schemas"]
    users = {name: tuple(_users(name, operations)) for name in schemas}
    records = {name: _record(name, schemas[name], users[name]) for name in sorted(schemas)}
    return ApiDocs(document["info"]["title"], groups, records)


def curl(operation: Operation, base: str) -> str:
    """Return a command that asks for the operation; what is to be filled in is in capitals."""
    path = re.sub(r"\{(\w+)\}", lambda found: found[1].upper(), operation.path)
    needed = [each for each in operation.parameters if each.required and each.place == "query"]
    query = "&".join(f"{each.name}={each.name.upper()}" for each in needed)
    words = ["curl"]
    if any("text/event-stream" in each.body.media for each in operation.replies):
        words.append("-N")
    if operation.method != "GET":
        words.append(f"-X {operation.method}")
    if operation.roles:
        words.append('-H "Authorization: Bearer $TOKEN"')
    if operation.body is not None:
        words.append(f"-H 'Content-Type: {operation.body.media[0]}'")
        words.append(f"-d {_quoted(operation.body.example or '{}')}")
    where = base + path + (f"?{query}" if query else "")
    return " ".join([*words, _quoted(where) if query else where])


def pretty(example: str) -> str:
    """Return an example with a line for each value."""
    return json.dumps(json.loads(example), indent=2, ensure_ascii=False) if example else ""


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _operations(document: Schema) -> Iterator[Operation]:
    for path, methods in sorted(document["paths"].items()):
        for method in METHODS:
            if method in methods:
                yield _operation(path, method, methods[method])


def _operation(path: str, method: str, raw: Schema) -> Operation:
    sent = raw.get("requestBody")
    replies = [
        Reply(status, each["description"], _body(each["content"]))
        for status, each in sorted(raw["responses"].items())
        if status != "default"
    ]
    return Operation(
        id=raw["operationId"],
        group=raw["tags"][0],
        method=method.upper(),
        path=path,
        summary=raw["summary"],
        said=raw["description"],
        roles=tuple(raw.get("x-roles", ())),
        parameters=tuple(_parameter(each) for each in raw.get("parameters", ())),
        body=None if sent is None else _body(sent["content"], raw.get("x-body-limit", 0)),
        replies=tuple(each for each in replies if not each.refusal),
        refusals=tuple(each for each in replies if each.refusal),
    )


def _parameter(raw: Schema) -> Field:
    schema = raw["schema"]
    return Field(
        name=raw["name"],
        type=tuple(type_of(schema)),
        said=raw.get("description", ""),
        required=raw.get("required", False),
        default=_default(schema),
        place=raw["in"],
    )


def _body(content: Schema, limit: int = 0) -> Body:
    first = next(iter(content.values()))
    example = first.get("example")
    return Body(
        media=tuple(content),
        type=tuple(type_of(first.get("schema", {}))),
        example="" if example is None else json.dumps(example, ensure_ascii=False),
        limit=limit,
    )


def _record(name: str, raw: Schema, used: tuple[Operation, ...]) -> RecordDocs:
    required = set(raw.get("required", ()))
    return RecordDocs(
        name=name,
        said=tuple(each.strip() for each in raw.get("description", "").split("\n\n")),
        fields=tuple(
            Field(
                name=field,
                type=tuple(type_of(schema)),
                said=schema.get("description", ""),
                required=field in required,
                default=_default(schema),
            )
            for field, schema in raw.get("properties", {}).items()
        ),
        words=tuple(str(each) for each in raw.get("enum", ())),
        used=used,
    )


def _users(name: str, operations: Iterable[Operation]) -> Iterator[Operation]:
    """Yield the operations whose body or reply is this record, or a list of it."""
    href = f"{ROOT}/schemas/{name}"
    for each in operations:
        bodies = [each.body, *(reply.body for reply in each.replies)]
        if any(body and any(piece.href == href for piece in body.type) for body in bodies):
            yield each


def _default(schema: Schema) -> str:
    if "default" not in schema or (isinstance(schema["default"], dict) and schema["default"]):
        return ""
    return json.dumps(schema["default"], ensure_ascii=False)


def type_of(schema: Schema) -> Iterator[Piece]:
    """Yield a schema's type in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        yield Piece(name, f"{ROOT}/schemas/{name}")
    elif "anyOf" in schema or "oneOf" in schema:
        for number, each in enumerate(schema.get("anyOf") or schema["oneOf"]):
            if number:
                yield Piece(" or ")
            yield from type_of(each)
    elif "enum" in schema:
        yield Piece(" or ".join(json.dumps(each) for each in schema["enum"]))
    elif schema.get("type") == "array":
        yield Piece("list of ")
        yield from type_of(schema.get("items", {}))
    elif schema.get("type") == "object":
        inner = schema.get("additionalProperties")
        yield Piece("map of " if isinstance(inner, dict) else "object")
        yield from type_of(inner) if isinstance(inner, dict) else ()
    else:
        yield Piece(_plain(schema))


def _plain(schema: Schema) -> str:
    kind: Any = schema.get("type", "anything")
    if isinstance(kind, list):
        return " or ".join(_plain({**schema, "type": each}) for each in kind)
    if schema.get("format") == "date-time":
        return "instant"
    name: str = {"string": "text", "boolean": "true or false"}.get(kind, kind)
    bounds = (
        ("≥", "minimum"), (">", "exclusiveMinimum"), ("≤", "maximum"), ("<", "exclusiveMaximum"),
    )  # fmt: skip
    told = [f"{sign} {schema[key]:g}" for sign, key in bounds if key in schema]
    if "maxLength" in schema:
        told.append(f"of at most {schema['maxLength']} characters")
    return " ".join([name, *told])
