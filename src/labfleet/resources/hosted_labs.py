"""Labs on a worker's server, as the looks at its nodes found them, and what people said of them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from labfleet.resources.meta import Record

LISTED = 100
"""How many labs a worker's record lists; all are counted."""
IGNORED = 50
"""How many labs of a worker people may have ignored at a time."""
TEXT = 128
"""The most characters that are kept of a title or of an owner's name."""


class HostedLab(Record, frozen=True, kw_only=True):
    """A lab on the server that has nodes, whosever it is.

    id: CML's name for the lab.
    title: Its title; empty of a session's lab, whose session tells it, and while it was not asked.
    owner: CML's name for its user; empty as the title.
    state: Its state in CML's words, by the states of its nodes.
    nodes: How many nodes it has.
    running: How many of them run, or wait to be started.
    since: When it was first seen there.
    """

    id: str
    title: str = ""
    owner: str = ""
    state: str
    nodes: int
    running: int
    since: datetime


class IgnoredLab(Record, frozen=True, kw_only=True):
    """A person's word that a lab which is no session's is left alone: it is never removed by us.

    What it holds stays counted, and so do its ports.

    id: CML's name for the lab.
    by: Who said so.
    at: When.
    reason: Why, in that person's words.
    """

    id: Annotated[str, msgspec.Meta(max_length=TEXT)]
    by: str
    at: datetime
    reason: str
