"""What a round of deliveries to a webhook means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from labfleet.decisions import deliveries
from labfleet.decisions.deliveries import DeliveryFailure, DeliveryRound
from labfleet.resources import conditions
from labfleet.resources.meta import Metadata
from labfleet.resources.webhook import (
    Webhook,
    WebhookCondition,
    WebhookReason,
    WebhookSpec,
    WebhookStatus,
)

NOW = datetime(2026, 11, 27, 9, 0, tzinfo=UTC)
FACTS = st.sampled_from(["True", "False", None]).map(
    lambda told: (
        ()
        if told is None
        else conditions.put(
            (), WebhookCondition.DELIVERING, told, WebhookReason.DELIVERING, now=NOW
        )
    )
)
STATUSES = st.builds(
    WebhookStatus,
    cursor=st.sampled_from(["", "e.4"]),
    delivered=st.integers(0, 9),
    dropped=st.integers(0, 9),
    failures=st.integers(0, 40),
    last_delivered_at=st.sampled_from([None, NOW - timedelta(seconds=5), NOW - timedelta(hours=1)]),
    retry_at=st.sampled_from([None, NOW]),
    conditions=FACTS,
    observed_generation=st.integers(0, 1),
)
FAILURES = st.builds(
    DeliveryFailure,
    message=st.sampled_from(["the receiver answered 500", "x" * 9000]),
    status=st.sampled_from([None, 429, 500]),
    reason=st.just(WebhookReason.REFUSED),
    retry_after=st.none() | st.floats(0, 1e12),
)
ROUNDS = st.builds(
    DeliveryRound,
    cursor=st.just("e.9"),
    ahead=st.sampled_from([0, 5, deliveries.SAVE_AFTER + 1]),
    delivered=st.integers(0, 50),
    dropped=st.integers(0, 3),
    status=st.sampled_from([None, 200, 204]),
    failure=st.none() | FAILURES,
    missed=st.booleans(),
    more=st.booleans(),
)


def hook(status: WebhookStatus) -> Webhook:
    """Return a webhook of this status."""
    metadata = Metadata(name="h", uid="u", generation=1)
    return Webhook(metadata=metadata, spec=WebhookSpec(url="https://x.example"), status=status)


@given(STATUSES, ROUNDS, st.floats(0, 1, exclude_max=True))
def test_what_is_recorded_counts_each_delivery_once(
    status: WebhookStatus, done: DeliveryRound, chance: float
) -> None:
    """A record has the round's cursor and adds its numbers; without a record nothing is counted."""
    step = deliveries.decide(hook(status), done, NOW, chance)
    assert 0 <= step.again <= deliveries.RETRY_LIMIT
    if step.status is None:
        assert done.failure is None
        assert not done.missed
        return
    assert step.status.cursor == done.cursor
    assert step.status.delivered == status.delivered + done.delivered
    assert step.status.dropped == status.dropped + done.dropped
    assert step.status.observed_generation == 1


@given(STATUSES, ROUNDS, st.floats(0, 1, exclude_max=True))
def test_the_condition_says_what_the_receiver_got(
    status: WebhookStatus, done: DeliveryRound, chance: float
) -> None:
    """A failure and a gap in the log are told with their reason; a round that worked ends them."""
    step = deliveries.decide(hook(status), done, NOW, chance)
    if step.status is None:
        return
    told = conditions.find(step.status.conditions, WebhookCondition.DELIVERING)
    assert told is not None
    if done.missed:
        assert (told.status, told.reason) == ("False", WebhookReason.EVENTS_MISSED)
    elif done.failure is not None:
        assert (told.status, told.reason) == ("False", WebhookReason.REFUSED)
        assert step.status.failures == status.failures + 1
        assert step.status.retry_at == NOW + timedelta(seconds=step.again)
        assert len(step.status.last_error) <= 500
    else:
        assert (told.status, step.status.failures, step.status.retry_at) == ("True", 0, None)


def test_steady_deliveries_are_written_once_a_minute() -> None:
    """Between two writes a healthy webhook costs no event of its own."""
    facts = conditions.put(
        (), WebhookCondition.DELIVERING, "True", WebhookReason.DELIVERING, now=NOW
    )
    known = WebhookStatus(
        cursor="e.4", conditions=facts, observed_generation=1, last_delivered_at=NOW
    )
    done = DeliveryRound("e.9", ahead=5, delivered=3)
    soon, later = NOW + timedelta(seconds=59), NOW + timedelta(seconds=60)
    assert deliveries.decide(hook(known), done, soon, 0.0).status is None
    assert deliveries.decide(hook(known), done, later, 0.0).status is not None
