"""The tab of a webhook: how its deliveries went, as its status was recorded over time.

Single deliveries are not kept: the status is written when a failure begins or ends, and at
intervals. Where its key is read is told by the YAML; the key itself is nowhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from datetime import datetime

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources import kinds
from labfleet.resources.kinds import KINDS
from labfleet.resources.meta import Resource
from labfleet.resources.webhook import Webhook, WebhookStatus
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.verbs import objects
from labfleet.web import sheet, values
from labfleet.web.sheet import Facts, Head, Part, Sheet
from labfleet.web.values import Cell
from labfleet.web.view import Asked

LOOKED = 300
"""Events of a webhook that are read for its deliveries."""
_HEADS = (
    Head("When"), Head("Result", 3), Head("Arrived", 1), Head("Given up", 1), Head("In a row", 1),
    Head("Answer", 1), Head("Error", 5), Head("Next try"),
)  # fmt: skip


async def deliveries(
    services: ServiceContext, caller: Caller, obj: Resource, _asked: Asked
) -> Sheet:
    """Return how deliveries go, and how they went as far as that is kept."""
    assert isinstance(obj, Webhook)  # noqa: S101 - the table of tabs says so
    now = services.clock.now()
    try:
        past = await objects.events(
            services, caller, KINDS["Webhook"], obj.name, obj.namespace, limit=LOOKED
        )
    except errors.Gone:
        past = ()
    mine = [each for each in past if each.uid == obj.metadata.uid]
    rows = tuple(_row(at, before, after, now) for at, before, after in _writes(mine))
    return Sheet(
        title="Deliveries",
        lead="",
        parts=(
            Part("Now", facts=_facts(obj, now)),
            Part(
                "Deliveries", heads=_HEADS, rows=rows, whole=True,
                caption="How deliveries went, the newest first",
                note="Recorded when a failure begins or ends and at intervals, not for each one.",
                empty="Nothing was delivered yet, and nothing failed.",
            ),
        )
    )  # fmt: skip


def _facts(hook: Webhook, now: datetime) -> Facts:
    status, spec = hook.status, hook.spec
    failing = status.failures > 0
    state = (
        Cell("state", "failing", tone="bad", shape="✕")
        if failing
        else Cell("state", "delivering", tone="good", shape="●")
    )
    if not spec.enabled:
        state = Cell("state", "switched off", tone="calm", shape="■")
    elif not failing and status.last_delivered_at is None:
        state = Cell("state", "nothing sent yet", tone="calm", shape="○")
    return (
        ("State", state),
        ("Arrived", Cell("text", str(status.delivered))),
        ("Given up after a day", Cell("text", str(status.dropped))),
        ("Failures in a row", Cell("text", str(status.failures))),
        ("Last answer", _answer(status.last_status)),
        ("Last arrived", _instant(status.last_delivered_at, now, "never")),
        ("Next try", _instant(status.retry_at, now, "none is due")),
        ("Last error", sheet.text(status.last_error)),
        ("Signed", Cell("text", "no" if spec.secret is None else "yes")),
        ("Answer within", Cell("text", f"{spec.timeout_seconds} s")),
    )  # fmt: skip


def _answer(status: int | None) -> Cell:
    return Cell("absent", "no answer") if status is None else Cell("text", f"HTTP {status}")


def _instant(at: datetime | None, now: datetime, absent: str) -> Cell:
    return Cell("absent", absent) if at is None else values.instant(at, now)


def _writes(
    past: Sequence[stores.Event],
) -> Iterator[tuple[datetime, WebhookStatus, WebhookStatus]]:
    """Yield the instant of each recorded status with the one before it, the newest first."""
    read = [(each.at, status) for each in past if (status := _status(each)) is not None]
    for (at, after), (_, before) in itertools.pairwise(read):
        if _told(after) != _told(before):
            yield at, before, after


def _told(status: WebhookStatus) -> tuple[object, ...]:
    return (
        status.delivered, status.dropped, status.failures, status.last_status, status.last_error,
        status.last_delivered_at,
    )  # fmt: skip


def _status(event: stores.Event) -> WebhookStatus | None:
    """Return the status that an event led to; None for a form that another version has written."""
    try:
        found = kinds.decode("Webhook", event.doc, event.revision)
    except ValueError:
        return None
    status: WebhookStatus = found.status
    return status


def _row(
    at: datetime, before: WebhookStatus, after: WebhookStatus, now: datetime
) -> tuple[Cell, ...]:
    result = Cell("state", "arrived", tone="good", shape="●")
    if after.failures:
        result = Cell("state", "failed", tone="bad", shape="✕")
    elif after.dropped > before.dropped:
        result = Cell("state", "given up", tone="warn", shape="▲")
    elif before.failures:
        result = Cell("state", "arrives again", tone="good", shape="●")
    return (
        values.instant(at, now),
        result,
        Cell("text", f"+{max(0, after.delivered - before.delivered)}"),
        Cell("text", f"+{max(0, after.dropped - before.dropped)}"),
        Cell("text", str(after.failures)),
        _answer(after.last_status),
        sheet.text(after.last_error),
        _instant(after.retry_at, now, "none"),
    )
