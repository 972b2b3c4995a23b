"""PATty's part: how node tags become ports of the server, and which tags are no port at all.

Pure: tags and claim times in, open ports and clashes out. Rules: facts/cml.md#ports.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_PAT = re.compile(r"pat:(?:(tcp|udp):)?(\d{1,5}):(\d{1,5})")
_SERIAL = re.compile(r"serial:(\d{1,5})(?::(\d{1,2}))?")
_VNC = re.compile(r"vnc:(\d{1,5})")


@dataclass(frozen=True, slots=True)
class PortRequest:
    """One outer port that a tag asks for; `inner` is a node port, a serial line, or 0."""

    kind: str
    transport: str
    outer: int
    inner: int
    tag: str

    @property
    def key(self) -> tuple[str, int]:
        return self.transport, self.outer


@dataclass(frozen=True, slots=True)
class Claim:
    """A port request of a running node, and from when PATty knows it."""

    at: float
    node_id: str
    wish: PortRequest
    started_at: float = 0.0


@dataclass(frozen=True, slots=True)
class OpenPort:
    """A port that is open now."""

    transport: str
    outer: int
    kind: str
    inner: int
    node_id: str


@dataclass(frozen=True, slots=True)
class Clash:
    """A port that a later node asked for in vain."""

    at: float
    transport: str
    outer: int
    winner: str
    loser: str


def request_of(tag: str, first: int, last: int) -> PortRequest | None:
    """Return what a tag asks for; None for ordinary, malformed and out-of-range tags."""
    if match := _PAT.fullmatch(tag):
        wish = PortRequest("pat", match[1] or "tcp", int(match[2]), int(match[3]), tag)
        if not 0 < wish.inner < 65536:
            return None
    elif match := _SERIAL.fullmatch(tag):
        wish = PortRequest("serial", "tcp", int(match[1]), int(match[2] or 0), tag)
    elif match := _VNC.fullmatch(tag):
        wish = PortRequest("vnc", "tcp", int(match[1]), 0, tag)
    else:
        return None
    return wish if first <= wish.outer <= last else None


def requests(tags: Iterable[str], first: int, last: int) -> Iterator[PortRequest]:
    """Yield the wishes of a node's tags in their order."""
    for tag in tags:
        wish = request_of(tag, first, last)
        if wish is not None:
            yield wish


def _rank(claim: Claim, ties: str) -> tuple[float, float, str, str]:
    order = {"started": claim.started_at, "last": -claim.started_at}.get(ties, 0.0)
    return claim.at, order, claim.node_id, claim.wish.tag


def resolve(
    claims: Sequence[Claim], now: float, ties: str = "node_id"
) -> tuple[list[OpenPort], list[Clash]]:
    """Give every port to its earliest claim; the rest are clashes. `ties`: one poll saw both."""
    taken: dict[tuple[str, int], Claim] = {}
    clashes: list[Clash] = []
    for claim in sorted(claims, key=lambda c: _rank(c, ties)):
        if claim.at > now:
            continue
        first = taken.setdefault(claim.wish.key, claim)
        if first is not claim:
            clashes.append(Clash(claim.at, *claim.wish.key, first.node_id, claim.node_id))
    open_ports = [
        OpenPort(*key, claim.wish.kind, claim.wish.inner, claim.node_id)
        for key, claim in taken.items()
    ]
    return open_ports, clashes
