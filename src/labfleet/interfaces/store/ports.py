"""Ports of workers: which (transport, number) is given to whom. Taken and freed by commits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class TakePorts:
    """Give these (transport, number) of a worker (its `Key.path`) to an owner; all or a Conflict.

    A port that the same owner already holds is not a conflict.
    """

    worker: str
    owner: str
    ports: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class FreePorts:
    """Release every port that the owner holds on the worker; no error when none is held."""

    worker: str
    owner: str


@dataclass(frozen=True, slots=True)
class PortRow:
    """One port given out."""

    worker: str
    transport: str
    number: int
    owner: str


class PortStore(Protocol):
    """Reads the ports given out."""

    async def ports(self, worker: str | None = None) -> tuple[PortRow, ...]:
        """Return the ports given out, of one worker (its `Key.path`) or of all."""
        ...
