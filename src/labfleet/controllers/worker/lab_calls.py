"""Make the call that an operator's order about a lab of no session needs next."""

from __future__ import annotations

from labfleet.interfaces.lab_host import LabHost, NodeVerb
from labfleet.kernel import errors
from labfleet.resources.meta import Effect

_VERBS: dict[str, NodeVerb] = {"start": "start", "stop": "stop", "wipe": "wipe"}


async def operate(host: LabHost, effect: Effect | None) -> None:
    """Start, stop or wipe the lab or the node that the open effect names; safe to repeat."""
    if effect is None:
        raise AssertionError("a lab is operated without an open effect")
    named = effect.parameters
    lab, node, verb = named["lab"], named["node"], _VERBS.get(named["call"])
    if verb is None:
        raise errors.Invalid(f"{named['call']!r} is no order of a lab")
    if node:
        await host.operate_node(lab, node, verb)
    elif verb == "start":
        await host.start(lab)
    elif verb == "stop":
        await host.stop(lab)
    else:
        await host.wipe(lab)
