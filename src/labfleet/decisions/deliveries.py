"""What a round of deliveries to a webhook means: what is recorded of it, and when the next one is.

Pure. The cursor is stored when people see something new and at intervals, not for each delivery:
after a restart a few events may be delivered again, with the same id.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from labfleet.kernel import backoff
from labfleet.resources import conditions
from labfleet.resources.webhook import Webhook, WebhookCondition, WebhookReason, WebhookStatus

POLL = 30.0
"""Fleet seconds between reads of the log when no change was announced."""
SAVE_EVERY = timedelta(seconds=60)
SAVE_AFTER = 5000
"""By how many events the stored cursor may lag when nothing was delivered."""
RETRY_BASE, RETRY_LIMIT = 5.0, 3600.0
GONE = 410
"""HTTP status of a receiver that is gone for good: it asks to be left alone (RFC 9110, 15.5.11)."""


class DeliveryFailure(msgspec.Struct, frozen=True):
    """Why a delivery did not work.

    `status` is what the receiver answered, None without answer; `retry_after` how many fleet
    seconds it asks us to wait.
    """

    message: str
    status: int | None
    reason: WebhookReason | conditions.ErrorReason
    retry_after: float | None = None


class DeliveryRound(msgspec.Struct, frozen=True):
    """What one round did, and what is not stored of the rounds before it.

    `cursor` is the place in the log, `ahead` by how many revisions it is ahead of the stored one.
    `status` is the last answer. `missed`: the log no longer held what was due. `more`: more may
    be deliverable at once.
    """

    cursor: str
    ahead: int = 0
    delivered: int = 0
    dropped: int = 0
    status: int | None = None
    failure: DeliveryFailure | None = None
    missed: bool = False
    more: bool = False


class DeliveryStep(msgspec.Struct, frozen=True):
    """The status to record, None when nothing new is worth a write; seconds to the next round.

    `switch_off`: the webhook is to be disabled, and there is no next round.
    """

    status: WebhookStatus | None
    again: float
    switch_off: bool = False


def decide(hook: Webhook, done: DeliveryRound, now: datetime, chance: float) -> DeliveryStep:
    """Return what to record of a round; `chance` in [0, 1) spreads the retries of many webhooks."""
    if done.missed:
        told = "the log no longer holds what was due; it goes on from now"
        facts = _fact(hook, WebhookReason.EVENTS_MISSED, told, now)
        return DeliveryStep(_status(hook, done, conditions=facts), 1.0)
    if done.failure is not None:
        return _failed(hook, done, done.failure, now, chance)
    again = 0.0 if done.more else POLL
    if not _worth_a_write(hook, done, now):
        return DeliveryStep(None, again)
    known = hook.status
    status = _status(
        hook,
        done,
        failures=0,
        retry_at=None,
        last_error="",
        last_status=known.last_status if done.status is None else done.status,
        last_delivered_at=now if done.delivered else known.last_delivered_at,
        conditions=conditions.put(
            known.conditions,
            WebhookCondition.DELIVERING,
            "True",
            WebhookReason.DELIVERING,
            now=now,
        ),
    )
    return DeliveryStep(status, again)


def _worth_a_write(hook: Webhook, done: DeliveryRound, now: datetime) -> bool:
    """Tell whether people see something new, or the stored cursor is too far behind."""
    known = hook.status
    delivering = conditions.is_true(known.conditions, WebhookCondition.DELIVERING)
    recovered = known.failures > 0 or not delivering
    fresh = done.delivered > 0 or done.dropped > 0
    last = known.last_delivered_at
    due = fresh and (last is None or now - last >= SAVE_EVERY)
    asked = hook.metadata.generation > known.observed_generation
    # Old events are kept up to the stored cursor, so it must not stay far behind.
    stale = not known.cursor or done.ahead > SAVE_AFTER
    return asked or due or stale or (recovered and fresh)


def _failed(
    hook: Webhook, done: DeliveryRound, failure: DeliveryFailure, now: datetime, chance: float
) -> DeliveryStep:
    failures = hook.status.failures + 1
    if failure.status == GONE:
        return _gone(hook, done, failures, now)
    wait = backoff.delay(failures, chance, base=RETRY_BASE, limit=RETRY_LIMIT)
    # Never earlier than asked, nor than without being asked: each try costs a write of ours.
    wait = min(max(wait, failure.retry_after or 0.0), RETRY_LIMIT)
    status = _status(
        hook,
        done,
        failures=failures,
        retry_at=now + timedelta(seconds=wait),
        last_error=failure.message[:500],
        last_status=failure.status,
        conditions=_fact(hook, failure.reason, failure.message[:500], now),
    )
    return DeliveryStep(status, wait)


def _gone(hook: Webhook, done: DeliveryRound, failures: int, now: datetime) -> DeliveryStep:
    told = "the receiver answered 410 Gone: switched off; spec.enabled: true takes it up again"
    status = _status(
        hook,
        done,
        failures=failures,
        retry_at=None,
        last_error=told,
        last_status=GONE,
        conditions=_fact(hook, WebhookReason.GONE, told, now),
    )
    return DeliveryStep(status, POLL, switch_off=True)


def _fact(
    hook: Webhook, reason: WebhookReason | conditions.ErrorReason, told: str, now: datetime
) -> tuple[conditions.Condition, ...]:
    """Return the conditions of a webhook whose receiver does not get its events."""
    known = hook.status.conditions
    return conditions.put(known, WebhookCondition.DELIVERING, "False", reason, told, now=now)


def _status(hook: Webhook, done: DeliveryRound, **changes: object) -> WebhookStatus:
    return msgspec.structs.replace(
        hook.status,
        cursor=done.cursor,
        delivered=hook.status.delivered + done.delivered,
        dropped=hook.status.dropped + done.dropped,
        observed_generation=hook.metadata.generation,
        **changes,
    )
