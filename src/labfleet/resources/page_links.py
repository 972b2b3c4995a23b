"""Links to an object's page for those who are not signed in yet: the page asks them to."""

from __future__ import annotations

from urllib.parse import quote

from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import DEFAULT_NAMESPACE, Resource


def link(pages_url: str, obj: Resource) -> str:
    """Return the page of an object; without the pages' server (notices.pagesUrl) its path alone."""
    path = f"/{KINDS[obj.kind].plural}/{quote(obj.name, safe='')}"
    asked = f"uid={quote(obj.metadata.uid, safe='')}"
    if obj.namespace != DEFAULT_NAMESPACE:
        asked = f"namespace={quote(obj.namespace, safe='')}&{asked}"
    return f"{pages_url}{path}?{asked}"
