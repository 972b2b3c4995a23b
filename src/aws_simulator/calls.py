"""Reads an AWS call out of a WSGI request, and writes replies and errors in AWS's own shapes."""

import dataclasses
import io
import json
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
BODY_LIMIT = 4 << 20
FIELDS_LIMIT = 5000
NAMING = frozenset(
    {"InstanceId", "ResourceId", "VolumeId", "AllocationId", "NetworkInterfaceId", "SnapshotId"}
)
ACCOUNT = "123456789012"


class Refusal(Exception):
    """An error reply of AWS: HTTP status, code, message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


@dataclasses.dataclass(frozen=True)
class Call:
    """What is asked: service and region from the SigV4 scope, action and fields from the body.

    `key` is the caller's access key and `date` its X-Amz-Date; empty when the call is unsigned.
    """

    service: str
    action: str
    region: str
    account: str
    form: dict[str, str]
    is_json: bool
    key: str = ""
    date: str = ""

    @property
    def token(self) -> str:
        """The client token; empty when there is none."""
        return self.form.get("ClientToken", "")

    @property
    def instance_ids(self) -> tuple[str, ...]:
        """The values of the parameters InstanceId and InstanceId.N."""
        return tuple(
            value
            for key, value in self.form.items()
            if key == "InstanceId" or key.startswith("InstanceId.")
        )

    @property
    def ids(self) -> tuple[str, ...]:
        """The resources that the request names: instances, volumes, addresses and the like."""
        return tuple(value for key, value in self.form.items() if key.split(".")[0] in NAMING)

    @property
    def instances(self) -> int:
        """How many instances the request names or asks for."""
        if self.action == "RunInstances":
            count = self.form.get("MaxCount", "1")
            return int(count) if count.isdecimal() else 1
        return len(self.instance_ids)

    @property
    def dry_run(self) -> bool:
        """Tell whether the call is a dry run (DryRun)."""
        return self.form.get("DryRun", "").lower() == "true"

    @property
    def narrowed(self) -> bool:
        """Tell whether a list call has a filter or a page size."""
        return any(key.startswith(("Filter", "MaxResults", "NextToken")) for key in self.form)

    @property
    def mutating(self) -> bool:
        """Tell whether the call may change something."""
        return not self.action.startswith(("Describe", "Get", "List"))


@dataclasses.dataclass(frozen=True)
class Reply:
    """A whole reply, kept in memory so that a fault can strike after the call had its effect."""

    status: str
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def code(self) -> int:
        """The HTTP status as a number."""
        return int(self.status.split()[0])

    def send(self, start_response: StartResponse) -> Iterable[bytes]:
        """Answer the request with it."""
        kept = [(key, value) for key, value in self.headers if key.lower() != "content-length"]
        start_response(self.status, [*kept, ("Content-Length", str(len(self.body)))])
        return [self.body]


def read_call(environ: Environ) -> Call:
    """Read a call and leave the body readable for moto; ValueError when it is too large."""
    length = int(environ.get("CONTENT_LENGTH") or 0)
    if length > BODY_LIMIT:
        raise ValueError("the request body is too large")
    body = environ["wsgi.input"].read(length) if length else b""
    environ["wsgi.input"] = io.BytesIO(body)
    service, region = _scope(environ)
    target = environ.get("HTTP_X_AMZ_TARGET", "")
    form: dict[str, str] = {}
    if "x-www-form-urlencoded" in environ.get("CONTENT_TYPE", ""):
        form = dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
    elif target:
        form = _flat(body)
    last = environ.get("PATH_INFO", "").rsplit("/", 1)[-1]
    return Call(
        service=service,
        action=form.get("Action") or target.rsplit(".", 1)[-1] or last,
        region=region,
        account=environ.get("HTTP_X_MOTO_ACCOUNT_ID", ACCOUNT),
        form=form,
        is_json=bool(target),
        key=_credential(environ)[0],
        date=environ.get("HTTP_X_AMZ_DATE", ""),
    )


def _flat(body: bytes) -> dict[str, str]:
    """Return a JSON body as the flat fields of the query protocol, so that rules match both."""
    try:
        left: list[tuple[str, Any]] = [("", json.loads(body or b"{}"))]
    except ValueError:
        return {}
    form: dict[str, str] = {}
    while left and len(form) < FIELDS_LIMIT:
        name, value = left.pop()
        if isinstance(value, dict):
            left += [(f"{name}.{key}".lstrip("."), each) for key, each in value.items()]
        elif isinstance(value, list):
            left += [(f"{name}.{number}", each) for number, each in enumerate(value, 1)]
        else:
            form[name] = str(value)
    return form


def _credential(environ: Environ) -> list[str]:
    """Return the parts of the SigV4 credential: key, date, region, service, terminator."""
    _, _, rest = environ.get("HTTP_AUTHORIZATION", "").partition("Credential=")
    return str(rest).split(",", 1)[0].split("/")


def _scope(environ: Environ) -> tuple[str, str]:
    """Return (service, region) of a SigV4 credential scope; ec2 when unsigned."""
    parts = _credential(environ)
    return (parts[3], parts[2]) if len(parts) >= 5 else ("ec2", "us-east-1")


def error_reply(call: Call, status: int, code: str, message: str) -> Reply:
    """Return an error in the shape that boto parses for the call's protocol."""
    line = f"{status} {'Error' if status >= 500 else 'Refused'}"
    if call.is_json:
        text = json.dumps({"__type": code, "message": message})
        return Reply(line, [("Content-Type", "application/x-amz-json-1.1")], text.encode())
    inner = f"<Error><Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error>"
    if call.service == "ec2":
        text = f"<Response><Errors>{inner}</Errors><RequestID>simulated</RequestID></Response>"
    else:
        text = f"<ErrorResponse>{inner}<RequestId>simulated</RequestId></ErrorResponse>"
    text = '<?xml version="1.0" encoding="UTF-8"?>\n' + text
    return Reply(line, [("Content-Type", "text/xml;charset=UTF-8")], text.encode())


def html_reply(status: int) -> Reply:
    """Return the HTML page that a failing proxy sends instead of XML."""
    body = f"<html><body><h1>{status} Bad Gateway</h1></body></html>".encode()
    return Reply(f"{status} Bad Gateway", [("Content-Type", "text/html")], body)


def json_reply(data: Any, status: int = 200) -> Reply:
    """Return JSON, for the control endpoint."""
    line = f"{status} {'OK' if status < 400 else 'Refused'}"
    return Reply(line, [("Content-Type", "application/json")], json.dumps(data).encode())


def run_inner(app: Any, environ: Environ) -> Reply:
    """Run a WSGI application and keep its whole reply."""
    head: list[Any] = []

    def start_response(status: str, headers: list[tuple[str, str]], *_: Any) -> Callable[..., Any]:
        head[:] = [status, headers]
        return lambda _data: None

    chunks = app(environ, start_response)
    try:
        body = b"".join(chunks)
    finally:
        close = getattr(chunks, "close", None)
        if close is not None:
            close()
    return Reply(head[0], list(head[1]), body)
