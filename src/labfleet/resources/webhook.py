"""Webhook: a subscription to events of the log, delivered as CloudEvents 1.0."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from labfleet.resources.conditions import ANY_ERROR, Condition, ConditionType, Measured, Reason
from labfleet.resources.declaration import Kind, Loud, columns, runbook
from labfleet.resources.meta import Record, Resource, SecretRef

Pattern = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class WebhookReason(Reason):
    """Why a condition of a webhook is as it is."""

    DELIVERING = "Delivering", "The receiver takes what it is sent."
    EVENTS_MISSED = (
        "EventsMissed",
        "The log no longer holds events that were due; it goes on from now.",
    )
    REFUSED = "Refused", "The receiver answered with an error; the message has its status."
    GONE = "Gone", "The receiver answered 410 Gone, so the webhook was switched off."


class WebhookCondition(ConditionType):
    """The facts that are recorded of a webhook."""

    DELIVERING = (
        "Delivering",
        "Events reach the receiver; False says why not, and when it is tried again.",
        WebhookReason.DELIVERING,
        WebhookReason.EVENTS_MISSED,
        WebhookReason.REFUSED,
        WebhookReason.GONE,
        ANY_ERROR,
    )


class WebhookSpec(Record, frozen=True, kw_only=True):
    """Where to, what, and how it is signed.

    `types` are globs over event types (`worker.*`, `session.failed`); `secret` signs each
    body with HMAC-SHA256. Private addresses are refused unless `allow_private`
    (facts/fleet-bugs.md#t45), which only an admin may set.
    """

    url: Annotated[str, msgspec.Meta(min_length=8, max_length=2048)]
    types: Annotated[tuple[Pattern, ...], msgspec.Meta(min_length=1, max_length=50)] = ("*",)
    secret: SecretRef | None = None
    enabled: bool = True
    allow_private: bool = False
    timeout_seconds: Annotated[int, msgspec.Meta(ge=1, le=30)] = 10


class WebhookStatus(Record, frozen=True, kw_only=True):
    """How deliveries go. `cursor` is the last event of the log that is done with.

    Written when something changes for people (a failure begins or ends) and at intervals, not
    for each delivery: after a restart a few events may be delivered again, with the same id.
    """

    cursor: str = ""
    delivered: int = 0
    dropped: int = 0
    failures: int = 0
    last_status: int | None = None
    last_error: str = ""
    last_delivered_at: datetime | None = None
    retry_at: datetime | None = None
    conditions: tuple[Condition, ...] = ()
    observed_generation: int = 0


class Webhook(Resource, frozen=True, kw_only=True):
    """A subscription to events of the log."""

    spec: WebhookSpec
    status: WebhookStatus = WebhookStatus()
    kind: str = "Webhook"


_RUNBOOK = runbook(
    "Webhook",
    (
        "Delivering",
        "",
        "False: the receiver does not take events.",
        "labfleet explain webhook/NAME",
        "Mend the receiver or its URL; events wait for a day. After Gone set spec.enabled to true.",
    ),
)


def _failures(hook: Webhook) -> Measured | None:
    """Return how often delivery failed in a row."""
    count = hook.status.failures
    return Measured(value=count, unit="failed deliveries") if count else None


KIND = Kind(
    name="Webhook",
    plural="webhooks",
    short=("hook",),
    type=Webhook,
    summary="A subscription to events of the log, delivered as CloudEvents 1.0.",
    columns=columns(
        "ENABLED=spec.enabled",
        "TYPES=spec.types",
        "URL=spec.url",
        "DELIVERED=status.delivered",
        "FAILURES=status.failures",
        "LAST=status.lastStatus",
        "ERROR=status.lastError*",
    ),
    conditions=WebhookCondition,
    reasons=WebhookReason,
    loud=(Loud(WebhookCondition.DELIVERING, "False", "warning", _failures),),
    runbook=_RUNBOOK,
)
