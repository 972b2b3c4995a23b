"""The node tags that CML's PATty turns into ports (facts/cml.md#ports).

`serial:<outer>[:<line>]`, `vnc:<outer>`, `pat:[tcp|udp:]<outer>:<inner>`. Reads and writes
one tag; which numbers are given to whom is `decisions.port_numbers`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

Kind = Literal["serial", "vnc", "pat"]
Transport = Literal["tcp", "udp"]

TAG_LIMIT = 64
_SHAPE = re.compile(r"\s*(serial|vnc|pat)\s*:", re.IGNORECASE)
_SERIAL = re.compile(r"serial:([0-9]*)(?::([0-9]{1,2}))?")
_VNC = re.compile(r"vnc:([0-9]*)")
_PAT = re.compile(r"pat:(?:(tcp|udp):)?([0-9]*):([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class PortTag:
    """What one tag asks for; `outer` None means that it gives no usable number.

    `inner` is the port inside the node for `pat`, the line for `serial`, 0 for `vnc`.
    """

    kind: Kind
    transport: Transport
    inner: int
    outer: int | None


def is_port_tag(tag: str) -> bool:
    """Tell whether a tag is PATty's, even when it is malformed."""
    return _SHAPE.match(tag) is not None


@lru_cache(maxsize=4096)
def parse(tag: str) -> PortTag | None:
    """Return what the tag asks for, None when it is an ordinary label or malformed.

    Case and blanks are ignored: PATty's own reading is not published, and a port that is
    taken although we thought it malformed would clash. Numbers outside 1-65535 are no number.
    """
    text = "".join(tag.split()).lower()
    if len(tag) > TAG_LIMIT:
        return None
    if found := _SERIAL.fullmatch(text):
        return PortTag("serial", "tcp", int(found[2] or 0), _number(found[1]))
    if found := _VNC.fullmatch(text):
        return PortTag("vnc", "tcp", 0, _number(found[1]))
    if found := _PAT.fullmatch(text):
        inner = _number(found[3])
        if inner is None:
            return None
        return PortTag("pat", "udp" if found[1] == "udp" else "tcp", inner, _number(found[2]))
    return None


def write(kind: Kind, transport: Transport, number: int, inner: int) -> str:
    """Return the tag in the form that PATty's documentation shows."""
    if kind == "serial":
        return f"serial:{number}:{inner}" if inner else f"serial:{number}"
    return f"vnc:{number}" if kind == "vnc" else f"pat:{transport}:{number}:{inner}"


def _number(digits: str) -> int | None:
    if not digits or len(digits) > 10:
        return None
    value = int(digits)
    return value if 1 <= value <= 65535 else None
