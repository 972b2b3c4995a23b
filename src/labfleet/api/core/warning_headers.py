"""The header that tells what was accepted and will not do what it seems to."""

from __future__ import annotations

from urllib.parse import quote

from labfleet.resources.meta import Resource
from labfleet.service.core import warned
from labfleet.service.core.service_context import ServiceContext

WARNING_HEADER = "Labfleet-Warning"


def warning_headers(services: ServiceContext, obj: Resource) -> dict[str, str]:
    """Return the header with a sentence a line, percent-encoded; none when nothing is to be said."""
    found = warned.warnings(services, obj)
    return {WARNING_HEADER: quote("\n".join(found))} if found else {}
