"""Which addresses no server of ours can have, whatever name led there."""

from __future__ import annotations

import ipaddress

from labfleet.adapters.http.transport import NotSent

_EC2_METADATA = ipaddress.ip_address("fd00:ec2::254")


def refuse_metadata(address: object) -> None:
    """Raise NotSent when a name led to a metadata service: none of our servers lives there.

    Source: facts/fleet-bugs.md#t45.

    Admission rules refuse such an address in a spec; here a name was resolved to one.
    """
    try:
        judged = ipaddress.ip_address(str(address).split("%", 1)[0])
    except ValueError:
        return
    judged = getattr(judged, "ipv4_mapped", None) or judged
    if judged.is_link_local or judged == _EC2_METADATA:
        raise NotSent("no_route", "the name leads to a link-local or metadata address")
