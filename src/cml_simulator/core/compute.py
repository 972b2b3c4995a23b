"""The compute host's admission states, and the notices to users.

UNREGISTERED <-> REGISTERED <-> ONLINE <-> READY, one step at a time; anything else is a 409.
"""

from cml_simulator.core.errors import CmlError, not_found
from cml_simulator.core.server import Admission, Server
from cml_simulator.core.world import admit

STEPS = list(Admission)


def check(server: Server, key: str) -> None:
    """Raise 404 if there is no such compute host."""
    if key != server.compute_id or not server.compute_known:
        raise not_found("Compute host", key)


def move(server: Server, wanted: Admission, now: float) -> None:
    """Change the admission state; leaving the cluster needs a host without running nodes."""
    step = STEPS.index(wanted) - STEPS.index(server.admission)
    if abs(step) > 1:
        raise CmlError(
            409, f"Unsupported admission state transition: {server.admission} to {wanted}."
        )
    if wanted in {Admission.REGISTERED, Admission.UNREGISTERED} and server.active:
        raise CmlError(409, "The compute host has running nodes.")
    server.admission = wanted
    server.revision += 1
    admit(server, now)


def remove(server: Server) -> None:
    """Forget an unregistered compute host; it comes back with the next boot."""
    if server.admission is not Admission.UNREGISTERED:
        raise CmlError(409, f"Compute host is not unregistered: {server.compute_id}")
    server.compute_known = False
    server.revision += 1
