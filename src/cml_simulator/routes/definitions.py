"""Node and image definitions, and resource pools (none exist by default): section 2.7."""

from typing import Any

import yaml

from cml_simulator.core import catalogue
from cml_simulator.core.definitions import DEFINITIONS, IMAGES
from cml_simulator.core.errors import not_found
from cml_simulator.routes.web import Call, Reply, Route


def node_definitions(call: Call) -> Any:
    """Return every node definition."""
    _ = call
    return [catalogue.node_definition(name) for name in DEFINITIONS]


def simplified_node_definitions(call: Call) -> Any:
    """Return the short form of every node definition."""
    _ = call
    return [catalogue.simplified(name) for name in DEFINITIONS]


def _known(call: Call) -> str:
    name = call.params["definition_id"]
    if name not in DEFINITIONS:
        raise not_found("Node definition", name)
    return name


def one_node_definition(call: Call) -> Any:
    """Return one node definition: YAML text, or JSON on request."""
    body = catalogue.node_definition(_known(call))
    if call.flag("json"):
        return body
    return Reply(200, yaml.safe_dump(body, sort_keys=False).encode(), "application/x-yaml")


def images_of_definition(call: Call) -> Any:
    """Return the images of one node definition."""
    name = _known(call)
    return [catalogue.image_definition(image) for image, kind in IMAGES.items() if kind == name]


def image_definitions(call: Call) -> Any:
    """Return every image definition."""
    _ = call
    return [catalogue.image_definition(name) for name in IMAGES]


def one_image_definition(call: Call) -> Any:
    """Return one image definition."""
    name = call.params["image_id"]
    if name not in IMAGES:
        raise not_found("Image definition", name)
    return catalogue.image_definition(name)


def no_pools(call: Call) -> Any:
    """Return no pools."""
    _ = call
    return []


def no_pool(call: Call) -> Any:
    """Refuse: there is no pool."""
    raise not_found("Resource pool", call.params["pool_id"])


ROUTES = (
    Route("GET", "/node_definitions", node_definitions),
    Route("GET", "/simplified_node_definitions", simplified_node_definitions),
    Route("GET", "/node_definitions/{definition_id}", one_node_definition),
    Route("GET", "/node_definitions/{definition_id}/image_definitions", images_of_definition),
    Route("GET", "/image_definitions", image_definitions),
    Route("GET", "/image_definitions/{image_id}", one_image_definition),
    Route("GET", "/resource_pools", no_pools),
    Route("GET", "/resource_pools/{pool_id}", no_pool),
    Route("GET", "/resource_pool_usage", no_pools),
    Route("GET", "/resource_pool_usage/{pool_id}", no_pool),
)
