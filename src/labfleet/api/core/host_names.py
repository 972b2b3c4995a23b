"""Which names in a request's Host header are answered: the server's own.

A page of any site can make a browser send requests to this server under the site's own name, by
having that name resolved to the server's address (DNS rebinding), and read the answers: for the
browser both are one site. The address is no name, so a request to it is nobody's trick.
"""

from __future__ import annotations

import functools
import ipaddress
from dataclasses import dataclass

from labfleet.kernel import addresses

LOCAL = "localhost"


@dataclass(frozen=True, slots=True)
class HostNames:
    """Tells whether a Host header names this server.

    names: Names under which it is reached, beside its addresses and `localhost`.
    every: Answer to every name: a server that others reach by names nobody told it.
    """

    names: frozenset[str] = frozenset()
    every: bool = True

    def known(self, header: str | None) -> bool:
        """Tell whether it is one of ours; browsers never leave the header out."""
        if self.every or header is None:
            return True
        name = _name(header)
        if name == LOCAL or name.endswith(f".{LOCAL}") or name in self.names:
            return True
        return _is_address(name)


@functools.lru_cache(maxsize=64)
def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


EVERY_NAME = HostNames()


def of(host: str, names: tuple[str, ...]) -> HostNames:
    """Return the rule for a server that listens on `host`.

    On loopback it is reached from this machine alone, or through a proxy that somebody set up: so
    its names are known. Elsewhere every name counts, unless its own were told.
    """
    given = frozenset(name.lower().rstrip(".") for name in names)
    return HostNames(given, every=not given and not addresses.is_loopback(host))


def _name(header: str) -> str:
    """Return the name or address of a Host header, without the port, in small letters."""
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0].rstrip(".")
