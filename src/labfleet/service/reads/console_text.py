"""Reading the stored console text of a worker: of a failed boot, or asked for.

Only the stored text: the API has no access to EC2, so the worker's controller reads it when asked.
"""

from __future__ import annotations

from datetime import datetime

from labfleet.resources.meta import Record
from labfleet.resources.worker import Worker
from labfleet.service.core import access, lookup
from labfleet.service.core.service_context import Caller, ServiceContext


class ConsoleText(Record, frozen=True, kw_only=True):
    """The end of an instance's console text, at most 4 KiB; empty with the reason why.

    worker: Name of the worker.
    boot: The instance and when it was launched; null when nothing was kept.
    read_at: When the text was read (UTC).
    text: The end of the console text.
    reason: Why there is none; empty when there is one.
    answered: The newest asking for it (`spec.consoleAsked`) that was answered.
    """

    worker: str
    boot: str | None = None
    read_at: str | None = None
    text: str = ""
    reason: str = ""
    answered: datetime | None = None


UNREADABLE = "(not readable: "
"""How the text of a console begins that the provider does not give."""


async def kept(services: ServiceContext, caller: Caller, name: str, namespace: str) -> ConsoleText:
    """Return the kept text of a worker; Gone when there is no such worker."""
    access.demand(caller.principal, "read", "Worker")
    worker = await lookup.found(services, caller, Worker, name, namespace)
    head, _, text = worker.status.console.partition("\n")
    if not head.startswith("["):
        reason = (
            "none is kept: it is fetched once after a boot that failed, or a failing check, and "
            "when somebody asks (labfleet console)"
        )
        return ConsoleText(worker=worker.name, reason=reason)
    boot, _, read_at = head.strip("[]").partition(" read ")
    why = ""
    if text.startswith(UNREADABLE):
        why, text = text.removeprefix(UNREADABLE).rstrip(")"), ""
    return ConsoleText(
        worker=worker.name, boot=boot, read_at=read_at or None, text=text, reason=why,
        answered=worker.status.console_handled,
    )  # fmt: skip
