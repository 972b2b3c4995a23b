"""Node and image definitions. Uploads take YAML or JSON."""

import math
from typing import Any

import yaml

from cml_simulator.core import definition_store
from cml_simulator.core.errors import CmlError, Problem, invalid, refused
from cml_simulator.core.topology import load_text
from cml_simulator.routes.web import (
    NO_CONTENT,
    Access,
    Call,
    Reply,
    Route,
    decode_json,
    document,
)


def node_definitions(call: Call) -> Any:
    """Return every node definition."""
    return [
        call.server.definition_store.body(name) for name in call.server.definition_store.names()
    ]


def simplified_node_definitions(call: Call) -> Any:
    """Return the short form of every node definition."""
    return [
        call.server.definition_store.simplified(name)
        for name in call.server.definition_store.names()
    ]


def one_node_definition(call: Call) -> Any:
    """Return one node definition: YAML text, or JSON on request."""
    body = call.server.definition_store.body(call.params["definition_id"])
    if call.flag("json"):
        return body
    text = yaml.safe_dump(body, sort_keys=False, allow_unicode=True)
    if call.server.config.profile.wrapped_yaml:
        return text
    return Reply(200, text.encode(), "application/x-yaml")


def _upload(call: Call, *, new: bool) -> Any:
    body = call.request.body
    if len(body) > definition_store.DEFINITION_LIMIT:
        raise CmlError(413, "Node definition is over 100 kB.")
    kind = call.request.headers.get("content-type", "")
    value = decode_json(body) if "json" in kind else load_text(body)
    if isinstance(value, str):  # virl2_client sends the YAML text as a JSON string
        value = load_text(value.encode(errors="replace"))
    if not _plain(value):
        raise invalid([Problem(("body",), "value_error", "Only text, numbers, lists and maps")])
    name = definition_store.put_node_definition(call.server.definition_store, value, new=new)
    call.server.revision += 1
    return name


def _plain(value: Any, left: int = 40_000) -> bool:
    """Whether a document has only JSON values and is small with its YAML aliases expanded."""
    todo, seen = [value], 0
    while todo:
        seen += 1
        if seen > left:
            return False
        item = todo.pop()
        if isinstance(item, dict):
            if not all(isinstance(key, str) for key in item):
                return False
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)
        elif not _scalar(item):
            return False
    return True


def _scalar(item: Any) -> bool:
    if isinstance(item, float):
        return math.isfinite(item)
    if isinstance(item, int) and not isinstance(item, bool):
        return abs(item) < 2**63
    return item is None or isinstance(item, str | bool)


def post_node_definition(call: Call) -> Any:
    """Add a node definition; return its id."""
    return _upload(call, new=True)


def put_node_definition(call: Call) -> Any:
    """Replace a node definition; return its id."""
    return _upload(call, new=False)


def delete_node_definition(call: Call) -> Reply:
    """Remove a node definition that no node uses."""
    name = call.params["definition_id"]
    if any(node.definition == name for node in call.server.nodes.values()):
        raise refused(f"Node definition is in use: {name}")
    definition_store.remove_node_definition(call.server.definition_store, name)
    return NO_CONTENT


def _flag_body(call: Call) -> bool:
    value = decode_json(call.request.body)
    if isinstance(value, dict) and value.keys() == {"read_only"}:
        value = value["read_only"]
    if not isinstance(value, bool):
        raise invalid([Problem(("body",), "bool_type", "Input should be a valid boolean")])
    return value


def lock_node_definition(call: Call) -> Any:
    """Make a node definition read-only, or writable again."""
    name = call.params["definition_id"]
    return definition_store.set_read_only(
        call.server.definition_store, name, value=_flag_body(call)
    )


def images_of_definition(call: Call) -> Any:
    """Return the images of one node definition."""
    name = call.params["definition_id"]
    call.server.definition_store.body(name)
    return call.server.definition_store.images_of(name)


def node_definition_schema(call: Call) -> Any:
    """Return what a node definition must hold, as JSON schema (the simulator's own)."""
    _ = call
    return {
        "type": "object",
        "required": ["id", *definition_store.PARTS],
        "properties": {
            "id": {"type": "string", "minLength": 1, "maxLength": 250},
            **{part: {"type": "object"} for part in definition_store.PARTS},
        },
    }


# ------------------------------------------------------------------ image definitions


def image_definitions(call: Call) -> Any:
    """Return every image definition."""
    return [
        definition_store.known_image(call.server.definition_store, n)
        for n in call.server.definition_store.image_names()
    ]


def one_image_definition(call: Call) -> Any:
    """Return one image definition."""
    return definition_store.known_image(call.server.definition_store, call.params["image_id"])


def _image(call: Call, *, new: bool) -> Any:
    kind = call.request.headers.get("content-type", "")
    body = call.request.body
    value = load_text(body) if "yaml" in kind else decode_json(body)
    checked = document(value, definition_store.IMAGE_KEYS, ("id", "node_definition_id", "label"))
    checked.done()
    if not _plain(value):
        raise invalid([Problem(("body",), "value_error", "Only text, numbers, lists and maps")])
    name = definition_store.put_image(call.server.definition_store, checked.row, new=new)
    call.server.revision += 1
    return name


def post_image_definition(call: Call) -> Any:
    """Add an image definition; return its id."""
    return _image(call, new=True)


def put_image_definition(call: Call) -> Any:
    """Replace an image definition; return its id."""
    return _image(call, new=False)


def delete_image_definition(call: Call) -> Reply:
    """Remove an image definition that no node uses."""
    name = call.params["image_id"]
    definition_store.known_image(call.server.definition_store, name)
    if any(node.image == name for node in call.server.nodes.values()):
        raise refused(f"Image definition is in use: {name}")
    definition_store.remove_image(call.server.definition_store, name)
    return NO_CONTENT


def lock_image_definition(call: Call) -> Any:
    """Make an image definition read-only, or writable again."""
    name = call.params["image_id"]
    return definition_store.set_image_read_only(
        call.server.definition_store, name, value=_flag_body(call)
    )


def image_definition_schema(call: Call) -> Any:
    """Return what an image definition may hold, as JSON schema (the simulator's own)."""
    _ = call
    keys: dict[str, Any] = {key: {} for key in definition_store.IMAGE_KEYS}
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["id", "node_definition_id", "label"],
        "properties": keys,
    }


def drop_folder(call: Call) -> Any:
    """Return the names of uploaded disk images."""
    return list(call.server.definition_store.dropped)


def upload_image(call: Call) -> Any:
    """Take a disk image: only its name and size are kept."""
    name = call.request.headers.get("x-original-file-name", "")
    if not name or len(name) > 255 or "/" in name:
        raise refused("The header X-Original-File-Name must name a file.")
    if len(call.server.definition_store.dropped) >= definition_store.KEPT:
        raise refused("Too many files.")
    call.server.definition_store.dropped[name] = len(call.request.body)
    return "Success"


def delete_image_file(call: Call) -> Any:
    """Remove an uploaded disk image."""
    name = call.params["file"]
    if call.server.definition_store.dropped.pop(name, None) is None:
        raise CmlError(404, f"File not found: {name}")
    return "Success"


ADMIN = Access.ADMIN
NODES, IMAGES = "/node_definitions", "/image_definitions"
ROUTES = (
    Route("GET", NODES, node_definitions),
    Route("POST", NODES, post_node_definition, ADMIN),
    Route("PUT", NODES, put_node_definition, ADMIN),
    Route("GET", "/simplified_node_definitions", simplified_node_definitions),
    Route("GET", f"{NODES}/{{definition_id}}", one_node_definition),
    Route("DELETE", f"{NODES}/{{definition_id}}", delete_node_definition, ADMIN),
    Route("PUT", f"{NODES}/{{definition_id}}/read_only", lock_node_definition, ADMIN),
    Route("GET", f"{NODES}/{{definition_id}}/image_definitions", images_of_definition),
    Route("GET", "/node_definition_schema", node_definition_schema),
    Route("GET", IMAGES, image_definitions),
    Route("POST", IMAGES, post_image_definition, ADMIN),
    Route("PUT", IMAGES, put_image_definition, ADMIN),
    Route("GET", f"{IMAGES}/{{image_id}}", one_image_definition),
    Route("DELETE", f"{IMAGES}/{{image_id}}", delete_image_definition, ADMIN),
    Route("PUT", f"{IMAGES}/{{image_id}}/read_only", lock_image_definition, ADMIN),
    Route("GET", "/image_definition_schema", image_definition_schema),
    Route("GET", "/list_image_definition_drop_folder", drop_folder),
    Route("POST", "/images/upload", upload_image, ADMIN),
    Route("DELETE", "/images/manage/{file}", delete_image_file, ADMIN),
)
