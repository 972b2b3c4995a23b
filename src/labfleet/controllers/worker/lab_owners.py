"""Whose the labs are, in CML's word, that name ports on a server which no session of ours was given.

Each such lab is asked once, a few in one look; what the worker's record has is not asked again.
"""

from __future__ import annotations

from collections.abc import Sequence

from labfleet.decisions.port_holders import SeenPort
from labfleet.interfaces.lab_host import LabHost
from labfleet.kernel import errors
from labfleet.resources.meta import Key
from labfleet.resources.session import Session
from labfleet.resources.worker import Worker

ASKED = 3
"""The most labs that one look asks for their owner."""


class LabOwners:
    """Asks for the owners of labs; what it remembers of a server is of the labs seen there last."""

    def __init__(self) -> None:
        self._known: dict[Key, dict[str, str]] = {}

    def forget(self, key: Key) -> None:
        """Forget a worker that is gone."""
        self._known.pop(key, None)

    async def named(
        self, worker: Worker, host: LabHost, seen: Sequence[SeenPort], here: Sequence[Session]
    ) -> tuple[SeenPort, ...]:
        """Return the ports with the owners of their labs; a lab of a session here has that one's.

        A lab that cannot be asked has none yet; an error of the server is no error of the look.
        """
        labs = dict.fromkeys(each.lab for each in seen)
        if not labs:
            self._known.pop(worker.key, None)
            return tuple(seen)
        before = self._known.get(worker.key, {})
        recorded = {each.lab: each.owner for each in worker.status.held_ports if each.owner}
        known = {each: before[each] for each in labs if each in before}
        known |= {each: recorded[each] for each in labs if each in recorded and each not in known}
        ours = {each.status.lab.id: each.spec.owner for each in here if each.status.lab is not None}
        known |= {each: ours[each] for each in labs if each in ours}
        for lab in [each for each in labs if each not in known][:ASKED]:
            try:
                known[lab] = (await host.lab(lab)).owner[:128]
            except errors.Gone:
                continue
            except errors.LabfleetError:
                break
        self._known[worker.key] = known
        return tuple(each._replace(owner=known.get(each.lab, "")) for each in seen)
