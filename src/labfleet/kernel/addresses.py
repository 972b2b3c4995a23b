"""Which addresses lie on the open internet, and which are this machine's own: one rule for each."""

from __future__ import annotations

import ipaddress

_NOT_GLOBAL = (
    ipaddress.ip_network("192.0.0.0/24"),
    ipaddress.ip_network("fec0::/10"),
    ipaddress.ip_network("3fff::/20"),
    ipaddress.ip_network("168.63.129.16/32"),
)
"""Site-local and special ranges that Python 3.11 regards as global, and the address at which each
virtual machine on Azure reaches its host."""
_METADATA = (
    ipaddress.ip_network("fd00:ec2::254/128"),
    ipaddress.ip_network("168.63.129.16/32"),
)
"""Where clouds tell machines about themselves, beside 169.254.169.254, which is link-local."""


def is_public(text: str) -> bool:
    """Tell whether an address is reachable from the whole internet; ValueError when it is none."""
    address = ipaddress.ip_address(text.split("%", 1)[0])
    mapped = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None)
    judged = address if mapped is None else mapped
    if any(judged in each for each in _NOT_GLOBAL if each.version == judged.version):
        return False
    return judged.is_global and not judged.is_multicast and not judged.is_reserved


def is_loopback(host: str) -> bool:
    """Tell whether what listens on this address or name is reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def may_host(text: str) -> bool:
    """Tell whether a server can be at an address: not where clouds tell their metadata, nor many.

    ValueError when it is no address.
    """
    address = ipaddress.ip_address(text.split("%", 1)[0])
    mapped = getattr(address, "ipv4_mapped", None)
    judged = address if mapped is None else mapped
    if any(judged in each for each in _METADATA if each.version == judged.version):
        return False
    return not (judged.is_link_local or judged.is_multicast or judged.is_unspecified)
