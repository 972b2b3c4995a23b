"""Where today's OpenAPI document differs by the bounds that it states of numbers."""

from __future__ import annotations

BOUNDS = {
    f"/components/schemas/{record}/properties/{name}/anyOf/0/exclusiveMaximum": "none is 2**53"
    for record, names in (
        ("CmlDataReport", "uptime_seconds"),
        ("CmlNumbers", "uptime_seconds memory_total memory_used memory_free"),
        ("CmlNumbers", "disk_total disk_used disk_free"),
        ("Ec2Numbers", "network_in_bytes network_out_bytes"),
    )
    for name in names.split()
}
"""Place in the document -> why today's differs there."""
