"""Replies of a `before_send` hook, which answers instead of the network, as the SDK's types.

For a rehearsal, which uses no network and imports no SDK. It decides nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qsl

from botocore import exceptions as sdk
from botocore.awsrequest import HeadersDict

Loss = Literal["no_connection", "connect_timeout", "read_timeout", "closed"]


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP reply with EC2's XML or CloudWatch's JSON."""

    status_code: int
    content: bytes
    headers: HeadersDict = field(default_factory=HeadersDict)


def parameters(request: Any) -> dict[str, str]:
    """Return the form of a prepared request, `Action` included."""
    body = request.body
    text = body.decode() if isinstance(body, bytes) else str(body or "")
    return dict(parse_qsl(text, keep_blank_values=True))


def document(request: Any) -> dict[str, Any] | None:
    """Return the JSON document of a prepared CloudWatch request; None for EC2's forms."""
    if "X-Amz-Target" not in request.headers:
        return None
    found: dict[str, Any] = json.loads(request.body)
    return found


def data(document: dict[str, Any]) -> Answer:
    """Return a reply with a JSON document."""
    headers = HeadersDict({"Content-Type": "application/x-amz-json-1.0"})
    return Answer(200, json.dumps(document).encode(), headers)


def lost(kind: Loss) -> sdk.HTTPClientError:
    """Return what the SDK raises when a request or its reply gets lost."""
    url = "https://ec2.invalid"
    match kind:
        case "no_connection":
            return sdk.EndpointConnectionError(endpoint_url=url, error="connection refused")
        case "connect_timeout":
            return sdk.ConnectTimeoutError(endpoint_url=url, error="no connection in time")
        case "closed":
            return sdk.ConnectionClosedError(endpoint_url=url, error="connection closed")
    return sdk.ReadTimeoutError(endpoint_url=url, error="no reply in time")
