"""Ports of a worker: which are used, which something may still hold, and which are free."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from labfleet.resources.meta import Record

FIRST = 2000
"""The lowest number that is given out: the lower end of what CML's PATty serves."""
LAST = 7999
"""The highest number that is given out."""


class PortRelease(Record, frozen=True, kw_only=True):
    """A person's word that numbers may be given out although a lab names them.

    by: Who said so.
    at: When.
    reason: Why, in that person's words.
    """

    by: str
    at: datetime
    reason: str


class HeldPorts(Record, frozen=True, kw_only=True):
    """Numbers that a lab on the server names although no session of ours was given them there.

    Nobody is given one of them until the lab was seen without it, or gone, or a person released it.
    A release ends with what it is for: named anew, a number is held anew.

    transport: Protocol of the ports.
    first: Lowest of these numbers; those up to `last` follow without a gap.
    last: Highest of these numbers.
    lab: CML's name for the lab; empty where more are named than are listed, and these stand for those
    nearest to each other, with all between them.
    owner: Whose the lab is: the owner of its session, or CML's name for its user; empty when not known.
    since: When they were first seen there.
    released: That they may be given out all the same; null while they may not.
    """

    transport: Literal["tcp", "udp"]
    first: int
    last: int
    lab: str = ""
    owner: str = ""
    since: datetime
    released: PortRelease | None = None


class PortCounts(Record, frozen=True, kw_only=True):
    """How many numbers of one transport are used, held and free.

    used: Given to sessions that are coming up or up.
    held: Not to be given out, because something may still hold them: labs that shall be gone and
    were not seen gone, and labs that are no session's.
    free: What is left.
    """

    used: int = 0
    held: int = 0
    free: int = 0


class PortUse(Record, frozen=True, kw_only=True):
    """How the ports of a worker are used now.

    first: Lowest number that is given out.
    last: Highest number that is given out.
    tcp: How many of TCP.
    udp: How many of UDP.
    """

    first: int = FIRST
    last: int = LAST
    tcp: PortCounts = PortCounts()
    udp: PortCounts = PortCounts()
