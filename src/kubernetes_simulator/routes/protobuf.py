"""Bodies in Kubernetes' protobuf form, which `kubectl create` sends, read as JSON values.

Only the messages of `messages.TABLE` are read; a field that is not in it is refused, never dropped.
"""

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

from kubernetes_simulator.core.errors import ApiError
from kubernetes_simulator.core.inputs import Json, stamp
from kubernetes_simulator.routes.messages import ENVELOPES, TABLE

MAGIC = b"k8s\x00"
DEPTH = 40
TYPES = frozenset({"application/vnd.kubernetes.protobuf"})


def _refused(text: str) -> ApiError:
    return ApiError(
        415, "UnsupportedMediaType",
        f"this protobuf body is not read ({text}) - application/json is accepted",
    )  # fmt: skip


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    found, shift = 0, 0
    while shift < 70:
        if at >= len(raw):
            raise _refused("it ends too early")
        found |= (raw[at] & 0x7F) << shift
        at += 1
        if raw[at - 1] < 0x80:
            return found, at
        shift += 7
    raise _refused("a number is too long")


def _fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a message."""
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        match tag & 7:
            case 0:
                value, at = _varint(raw, at)
                yield tag >> 3, value
            case 2:
                size, at = _varint(raw, at)
                if at + size > len(raw):
                    raise _refused("it ends too early")
                yield tag >> 3, raw[at : at + size]
                at += size
            case _:
                raise _refused(f"wire type {tag & 7}")


def _text(value: int | bytes) -> str:
    if not isinstance(value, bytes):
        raise _refused("a number where a text belongs")
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise _refused("a text is not UTF-8") from None


def _signed(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise _refused("a text where a number belongs")
    return value - 2**64 if value >= 2**63 else value


def _entry(value: int | bytes) -> tuple[str, bytes]:
    key, held = "", b""
    for number, part in _fields(value if isinstance(value, bytes) else b""):
        if number == 1:
            key = _text(part)
        elif isinstance(part, bytes):
            held = part
    return key, held


def _time(value: bytes) -> str | None:
    seconds = next((_signed(part) for number, part in _fields(value) if number == 1), 0)
    return stamp(seconds) if seconds > 0 else None


def _int_or_text(value: bytes) -> int | str:
    parts = dict(_fields(value))
    return _text(parts.get(3, b"")) if parts.get(1, 0) == 1 else _signed(parts.get(2, 0))


def _quantity(value: bytes) -> str:
    return next((_text(part) for number, part in _fields(value) if number == 1), "0")


def _one(kind: str, value: int | bytes, depth: int) -> Any:
    """Return a field's JSON value; None when it says nothing."""
    match kind:
        case "text":
            return _text(value) or None
        case "number":
            return _signed(value) or None
        case "number?":
            return _signed(value)
        case "flag":
            return bool(_signed(value)) or None
        case "flag?":
            return bool(_signed(value))
    if not isinstance(value, bytes):
        raise _refused("a number where a message belongs")
    match kind:
        case "time":
            return _time(value)
        case "int-or-text":
            return _int_or_text(value)
        case "text?":
            return _text(value)
        case _:
            return _message(kind.removesuffix("?"), value, depth + 1) or (
                {} if kind.endswith("?") else None
            )


def _message(name: str, raw: bytes, depth: int = 0) -> Json:
    if depth > DEPTH:
        raise _refused("it is too deep")
    rows = TABLE[name]
    found: Json = {}
    for number, value in _fields(raw):
        row = rows.get(number)
        if row is None:
            raise _refused(f"field {number} of {name}")
        key, kind = row
        if kind.startswith("map "):
            entry, held = _entry(value)
            inner: Any = {
                "text": _text, "bytes": lambda part: b64encode(part).decode(),
                "quantity": _quantity,
            }[kind.removeprefix("map ")](held)  # fmt: skip
            found.setdefault(key, {})[entry] = inner
        elif kind.startswith("list "):
            inner = kind.removeprefix("list ")
            one = _text(value) if inner == "text" else _one(inner, value, depth)
            found.setdefault(key, []).append({} if one is None else one)
        else:
            one = _one(kind, value, depth)
            if one is not None:
                found[key] = one
    return found


def read(body: bytes) -> Json:
    """Return a body as the JSON object that it stands for; 415 if it is not one of the table."""
    if not body.startswith(MAGIC):
        raise _refused("it does not begin as one")
    api_version, kind, raw = "", "", b""
    for number, value in _fields(body[len(MAGIC) :]):
        if number == 1 and isinstance(value, bytes):
            said = dict(_fields(value))
            api_version, kind = _text(said.get(1, b"")), _text(said.get(2, b""))
        elif number == 2 and isinstance(value, bytes):
            raw = value
    name = ENVELOPES.get((api_version, kind))
    if name is None:
        raise _refused(f"{api_version} {kind}")
    return {"apiVersion": api_version, "kind": kind, **_message(name, raw)}
