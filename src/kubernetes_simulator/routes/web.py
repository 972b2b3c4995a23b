"""Requests and replies as values, and the JSON of both."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import yaml

from kubernetes_simulator.core.errors import ApiError, bad_request
from kubernetes_simulator.core.inputs import Json
from kubernetes_simulator.routes import protobuf

BODY_LIMIT = 3 * 1024 * 1024
"""Bytes; the limit of a real API server."""
YAML_TYPES = frozenset({"application/yaml", "application/apply-patch+yaml"})
DEPTH = 200


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request as values; header names are lower case."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def flag(self, name: str) -> bool:
        """Return a switch of the query."""
        return self.query.get(name, "").lower() in {"true", "1"}

    def whole(self, name: str, default: int) -> int:
        """Return a number of the query; 400 if it is none."""
        text = self.query.get(name, "")
        if not text:
            return default
        if not text.isascii() or not text.isdigit() or len(text) > 12:
            raise bad_request(f'{name}: Invalid value: "{text}": must be a number')
        return int(text)

    @property
    def content_type(self) -> str:
        """Return the body's media type without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP reply as values."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


def encoded(value: Any) -> bytes:
    """Return a JSON value as bytes."""
    return msgspec.json.encode(value)


def json_reply(value: Any, status: int = 200) -> Reply:
    """Return a JSON reply."""
    return Reply(status, encoded(value))


def text_reply(text: str, status: int = 200, kind: str = "text/plain") -> Reply:
    """Return a reply of text."""
    return Reply(status, text.encode(), f"{kind}; charset=utf-8")


def error_reply(error: ApiError) -> Reply:
    """Return a refusal as a `Status`."""
    more: tuple[tuple[str, str], ...] = ()
    if error.code == 401:
        more = (("www-authenticate", 'Bearer realm="kubernetes"'),)
    if error.retry_after is not None:
        more = (*more, ("retry-after", str(error.retry_after)))
    return Reply(error.code, encoded(error.status_object()), headers=more)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def decoded(request: Request) -> Any:
    """Return the body's JSON or YAML value; 400 if it cannot be read, 415 for other types."""
    if request.content_type in protobuf.TYPES:
        return protobuf.read(request.body)
    if "protobuf" in request.content_type or "cbor" in request.content_type:
        text = "the body of the request was in an unknown format - application/json is accepted"
        raise ApiError(415, "UnsupportedMediaType", text)
    try:
        return json.loads(request.body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        if request.content_type not in YAML_TYPES:
            raise bad_request(f"couldn't decode the body: {error}") from None
    try:
        return yaml.load(request.body, Loader=_Loader)  # noqa: S506 - builds only JSON values
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise bad_request(f"error decoding YAML: {error}") from None


class _Loader(yaml.SafeLoader):
    """YAML without aliases, which grow, and without dates, which JSON has not."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.YAMLError("aliases are not read")
        return super().compose_node(parent, index)


_Loader.yaml_implicit_resolvers = {
    first: [each for each in rows if each[0] != "tag:yaml.org,2002:timestamp"]
    for first, rows in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def part(value: Any, *path: str) -> Json:
    """Return the object at a path of a body, {} if it is absent; 400 if it is something else."""
    for key in ("", *path):
        value = value if not key else value.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise bad_request(f"{'.'.join(path) or 'the body'}: an object is expected")
    return dict(value)


def status_of(message: str = "", details: Json | None = None) -> Json:
    """Return the `Status` of something that went well."""
    found: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if message:
        found["message"] = message
    if details:
        found["details"] = details
    return found
