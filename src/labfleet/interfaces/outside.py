"""Small interfaces to the outside: secrets and which are allowed, port probes, deliveries to webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from labfleet.resources.meta import SecretRef


class Secrets(Protocol):
    """Reads the values behind secretRefs, at the moment of use."""

    def resolve(self, ref: SecretRef) -> str:
        """Return the value; Denied names the reference (never a value) when it is missing."""
        ...


class AllowedSecrets(Protocol):
    """Knows which secretRefs may be used at all."""

    def outside(self, ref: SecretRef) -> str | None:
        """Return why the reference is not allowed, with what to do; None when it is.

        Reads no value: what is allowed may still be missing.
        """
        ...


class PortProbe(Protocol):
    """Tries a lab's port from here, as a user would (facts/cml-issues.md#f40)."""

    async def answers(self, address: str, port: int) -> bool:
        """Tell whether a TCP connection is accepted within the probe's own deadline."""
        ...


class Answered(NamedTuple):
    """What a receiver answered: its status, and how many machine seconds it asks us to wait."""

    status: int
    retry_after: float | None = None


class Deliveries(Protocol):
    """Posts to addresses given by users, which it does not trust (facts/fleet-bugs.md#t45)."""

    async def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        seconds: float,
        allow_private: bool,
    ) -> Answered:
        """Return the answer to one POST; `seconds` is machine time for all of it.

        Denied (reason PrivateAddress) when the address that is connected to is not public.
        Unreachable or Temporary when the request was not delivered. Redirects are not followed
        and the reply's body is not read.
        """
        ...

    async def close(self) -> None:
        """Release connections."""
        ...
