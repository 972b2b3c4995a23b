"""Routes of what was kept of a session's lab: the only way by which its text goes out."""

from __future__ import annotations

from labfleet.api.core.route import Name, Routes, Text, Uid
from labfleet.api.kinds.kind_routes import Namespace
from labfleet.kernel import errors
from labfleet.resources.kept_work import MEDIA_TYPE
from labfleet.resources.session import Session
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.verbs import kept_labs


def routes(services: ServiceContext) -> Routes:
    """Return the routes."""
    made = Routes("sessions")
    path, needs = "/api/v1/sessions/{name:str}/kept-lab", ("download", "Session")

    @made.get(path, "What was kept of a session's lab", needs=needs, reply=str,
              reply_type=MEDIA_TYPE, refuses=(errors.Denied, errors.Gone))  # fmt: skip
    async def get_kept_lab(
        who: Caller, name: Name, namespace: Namespace = "default", uid: Uid = None
    ) -> Text:
        """Return the lab's YAML with what was configured in its nodes; it may hold passwords."""
        return Text(await kept_labs.download(services, who, name, namespace, uid=uid), MEDIA_TYPE)

    @made.delete(path, "Delete what was kept of a session's lab", needs=needs,
                 refuses=(errors.Denied, errors.Gone))  # fmt: skip
    async def delete_kept_lab(
        who: Caller, name: Name, namespace: Namespace = "default", uid: Uid = None
    ) -> Session:
        """Delete it before its time; refused while a session waits to begin with it."""
        return await kept_labs.discard(services, who, name, namespace, uid=uid)

    return made
