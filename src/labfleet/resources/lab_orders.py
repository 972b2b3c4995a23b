"""What people order of a lab or of one of its nodes: start, stop, restart, wipe."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from labfleet.resources.meta import Record

LabVerb = Literal["start", "stop", "restart", "wipe"]
LabControl = Literal["none", "power", "wipe"]
NODES = 64
"""How many nodes of a lab are told one by one; of a larger one their number is."""
LABEL = 128
Label = Annotated[str, msgspec.Meta(max_length=LABEL)]


class LabOrder(Record, frozen=True, kw_only=True):
    """What somebody ordered last of a lab; set by its verbs, and carried out by its controller.

    id: Operation id by which the progress tells how it went.
    verb: What was ordered.
    lab: CML's name for the lab; empty of a session's, which has one.
    node: Label or CML's name of the one node that is meant; empty means all of the lab.
    at: When it was ordered.
    until: When it is given up if it is not done by then.
    by: Who ordered it.
    number: Which order of its session's lab it is, from 1.
    """

    id: str
    verb: LabVerb
    lab: str = ""
    node: str = ""
    at: datetime
    until: datetime
    by: str = ""
    number: int = 1


class LabOrderProgress(Record, frozen=True, kw_only=True):
    """How far the last order of a lab is.

    id: Operation id of the order.
    state: Waiting for the server, stopping, wiping or starting; done; or refused.
    at: Since when it is so.
    node_id: CML's name for the node that is meant; empty when all of the lab is, or before it was found.
    asked: When CML was last asked for what the state says.
    message: Why it was refused, or what holds it up.
    """

    id: str
    state: Literal["waiting", "stopping", "wiping", "starting", "done", "refused"] = "waiting"
    at: datetime
    node_id: str = ""
    asked: datetime | None = None
    message: str = ""


class LabOff(Record, frozen=True, kw_only=True):
    """What of a lab is off because somebody ordered that here, so that nobody takes it for a fault.

    whole: Whether all of the lab is.
    nodes: Labels of the nodes that are, of a lab that is up.
    by: Who ordered it last.
    at: When it was off.
    """

    whole: bool = False
    nodes: tuple[str, ...] = ()
    by: str = ""
    at: datetime


class LabMember(Record, frozen=True, kw_only=True, gc=False):
    """One node of a lab, as it was when the lab was ready.

    id: CML's name for the node.
    label: Label of the node.
    """

    id: str
    label: str
