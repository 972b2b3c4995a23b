"""Webhook: a subscription to events of the log, delivered as CloudEvents 1.0."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from labfleet.resources.conditions import ANY_ERROR, Condition, ConditionType, Measured, Reason
from labfleet.resources.declaration import Kind, Loud, columns, filters, runbook
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

    Private addresses are refused unless `allow_private` (facts/fleet-bugs.md#t45), which only an
    admin may set.

    url: Where events are posted.
    types: Globs over event types, for example worker.* or session.failed.
    owner: Whose sessions it tells of, as that person may see them; empty means of everything. A
    user's own name unless an operator says another.
    secret: Where the key is read that signs each body (HMAC-SHA256); null means unsigned.
    previous_secret: Where the key before it is read, which signs too while receivers change theirs.
    enabled: Whether events are sent; a receiver that answers 410 Gone switches it off.
    allow_private: Whether private addresses may be called.
    timeout_seconds: How long an answer may take.
    """

    url: Annotated[str, msgspec.Meta(min_length=8, max_length=2048)]
    types: Annotated[tuple[Pattern, ...], msgspec.Meta(min_length=1, max_length=50)] = ("*",)
    owner: Annotated[str, msgspec.Meta(max_length=256)] = ""
    secret: SecretRef | None = None
    previous_secret: SecretRef | None = None
    enabled: bool = True
    allow_private: bool = False
    timeout_seconds: Annotated[int, msgspec.Meta(ge=1, le=30)] = 10


class WebhookStatus(Record, frozen=True, kw_only=True):
    """How deliveries go. `cursor` is the last event of the log that is done with.

    Written when something changes for people (a failure begins or ends) and at intervals, not for
    each delivery: after a restart a few events may be delivered again, with the same id.

    cursor: The last event of the log that is done with.
    delivered: Events that arrived.
    dropped: Events that were given up because they were a day old.
    failures: Deliveries in a row that failed.
    last_status: The last HTTP status that the receiver answered.
    last_error: Why the last delivery failed; empty when it did not.
    last_delivered_at: When an event last arrived.
    retry_at: When the next try is; null when none is due.
    conditions: Facts about it, each with its reason.
    observed_generation: Generation of the spec that this status is about.
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


def _somebodys(hook: Webhook) -> bool:
    """Tell whether its failing is its owner's matter, not that of whoever runs the fleet."""
    return bool(hook.spec.owner)


KIND = Kind(
    name="Webhook",
    plural="webhooks",
    short=("hook",),
    type=Webhook,
    summary="A subscription to events of the log, delivered as CloudEvents 1.0.",
    columns=columns(
        "ENABLED=spec.enabled",
        "OWNER=spec.owner",
        "TYPES=spec.types",
        "URL=spec.url",
        "DELIVERED=status.delivered",
        "FAILURES=status.failures",
        "LAST=status.lastStatus",
        "ERROR=status.lastError*",
    ),
    conditions=WebhookCondition,
    reasons=WebhookReason,
    filters=filters("owner=spec.owner"),
    frozen=("owner",),
    loud=(Loud(WebhookCondition.DELIVERING, "False", "warning", _failures, unless=_somebodys),),
    runbook=_RUNBOOK,
)
