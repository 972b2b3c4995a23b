"""Annotations and smart annotations of a lab, one by one."""

from typing import Any

from cml_simulator.core import annotations, lifecycle
from cml_simulator.core.errors import not_found, refused
from cml_simulator.core.model import Lab
from cml_simulator.routes.labs import lab_of
from cml_simulator.routes.web import NO_CONTENT, Call, Document, Reply, Route, decode_json, document

Row = dict[str, Any]


def _changed(call: Call, lab: Lab, row: Row, event: str) -> None:
    lifecycle.changed(call.server, lab, ("ANNOTATION", str(row["id"])), event, call.now)


def list_annotations(call: Call) -> Any:
    """Return the annotations of a lab."""
    return lab_of(call).annotations


def create_annotation(call: Call) -> Any:
    """Add an annotation; what is not given takes its default."""
    lab = lab_of(call)
    value = decode_json(call.request.body)
    kind = value.get("type") if isinstance(value, dict) else None
    body = _document(value, kind)
    values = annotations.values(body.row, str(kind), body.read)
    body.done()
    if len(lab.annotations) >= annotations.KEPT:
        raise refused("Too many annotations.")
    row = {"id": call.server.new_id(), **annotations.defaults(str(kind)), **values}
    lab.annotations.append(row)
    _changed(call, lab, row, "ADD")
    return row


def _document(value: Any, kind: Any) -> Document:
    if kind not in annotations.TYPES:
        body = document(value, annotations.keys("line"))
        body.read.fail("type", "enum", f"Input should be one of {', '.join(annotations.TYPES)}")
        body.done()
    return document(value, annotations.keys(kind))


def _find(call: Call, rows: list[Row], what: str) -> Row:
    key = call.params["annotation_id"]
    row = next((row for row in rows if row["id"] == key), None)
    if row is None:
        raise not_found(what, key)
    return row


def get_annotation(call: Call) -> Any:
    """Return one annotation."""
    return _find(call, lab_of(call).annotations, "Annotation")


def patch_annotation(call: Call) -> Any:
    """Change an annotation; its type stays."""
    lab = lab_of(call)
    row = _find(call, lab.annotations, "Annotation")
    kind = str(row["type"]) if row.get("type") in annotations.TYPES else "line"
    value = decode_json(call.request.body)
    body = document(value, annotations.keys(kind))
    if "type" in body and body.row["type"] != row.get("type"):
        body.read.fail("type", "value_error", "The type of an annotation cannot change")
    values = annotations.values(body.row, kind, body.read)
    body.done()
    row.update(values)
    _changed(call, lab, row, "CHANGE")
    return row


def delete_annotation(call: Call) -> Reply:
    """Remove an annotation."""
    lab = lab_of(call)
    row = _find(call, lab.annotations, "Annotation")
    lab.annotations.remove(row)
    _changed(call, lab, row, "REMOVE")
    return NO_CONTENT


def list_smart(call: Call) -> Any:
    """Return the smart annotations: one for each tag, made by the server."""
    return lab_of(call).smart_annotations


def get_smart(call: Call) -> Any:
    """Return one smart annotation."""
    return _find(call, lab_of(call).smart_annotations, "Smart annotation")


def patch_smart(call: Call) -> Any:
    """Change how a smart annotation looks."""
    lab = lab_of(call)
    row = _find(call, lab.smart_annotations, "Smart annotation")
    body = call.document(annotations.SMART_KEYS)
    values = annotations.smart_values(body.row, body.read)
    body.done()
    row.update(values)
    key = str(row["id"])
    lifecycle.changed(call.server, lab, ("SMART_ANNOTATION", key), "CHANGE", call.now)
    return row


ROUTES = (
    *(
        Route(method, f"/labs/{{lab_id}}/annotations{path}", handler)
        for method, path, handler in (
            ("GET", "", list_annotations),
            ("POST", "", create_annotation),
            ("GET", "/{annotation_id}", get_annotation),
            ("PATCH", "/{annotation_id}", patch_annotation),
            ("DELETE", "/{annotation_id}", delete_annotation),
        )
    ),
    *(
        Route(method, f"/labs/{{lab_id}}/smart_annotations{path}", handler, first=8)
        for method, path, handler in (
            ("GET", "", list_smart),
            ("GET", "/{annotation_id}", get_smart),
            ("PATCH", "/{annotation_id}", patch_smart),
        )
    ),
)
