"""Two small windows to the outside: secrets and port probes."""

from __future__ import annotations

from typing import Protocol

from labfleet.resources.meta import SecretRef


class Secrets(Protocol):
    """Where the values behind secretRefs are read, at the moment of use."""

    def resolve(self, ref: SecretRef) -> str:
        """Return the value; Denied names the reference (never a value) when it is missing."""
        ...


class PortProbe(Protocol):
    """Tries a lab's port from here, as a user would (F40)."""

    async def answers(self, address: str, port: int) -> bool:
        """Tell whether a TCP connection is accepted within the probe's own deadline."""
        ...
