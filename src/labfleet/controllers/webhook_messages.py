"""What a webhook is sent: one change as a CloudEvent, signed; and who is told by whatever way.

`Sender` is the way: webhooks are one, and a letter would be another, which reads the same messages
(a notice's recipient, sentence and facts are in `change.data`) and answers in the same words.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

import msgspec

from labfleet.controllers.context import Context
from labfleet.decisions.deliveries import DeliveryFailure
from labfleet.interfaces import store as stores
from labfleet.interfaces.outside import Deliveries
from labfleet.kernel import clock, errors
from labfleet.resources import conditions, kinds, page_links
from labfleet.resources.meta import Resource
from labfleet.resources.notice import NoticeType
from labfleet.resources.session import Session
from labfleet.resources.webhook import Webhook, WebhookReason
from labfleet.service.core import access, views
from labfleet.service.core.access import Principal, Role
from labfleet.service.core.kind_table import Change

SOURCE = "/labfleet/"
_BY_NAME = frozenset({NoticeType.OFFERED, NoticeType.GIVEN_AWAY})
"""Notices for somebody who may not see the session, or sees it no more."""
_ABOUT = timedelta(minutes=1)
"""How far the instant of an event is at most from that of what it tells."""


@dataclass(frozen=True, slots=True)
class Message:
    """One change to be told: `identity` is the same whenever, and by whomever, it is told again.

    `type` is the name by which the receiver asked for it.
    """

    identity: str
    event: stores.Event
    change: Change
    type: str


class DeliveryFailed(Exception):
    """One delivery did not work."""

    def __init__(self, failure: DeliveryFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Sender(Protocol):
    """A way to tell somebody of a change."""

    async def send(self, to: Webhook, message: Message) -> int:
        """Return what the receiver answered; DeliveryFailed says why it has to be sent again."""
        ...


class WebhookSender:
    """Posts messages as CloudEvents 1.0 in structured mode, signed as Standard Webhooks are."""

    def __init__(self, context: Context, deliveries: Deliveries) -> None:
        self._context = context
        self._deliveries = deliveries

    async def send(self, to: Webhook, message: Message) -> int:
        """Post one message, as the interface says."""
        body = body_of(self._context, to, message)
        headers = {
            "content-type": "application/cloudevents+json",
            "user-agent": "labfleet-webhooks",
            **self._signature(to, message.identity, body),
        }
        try:
            answer = await self._deliveries.post(
                to.spec.url,
                body,
                headers,
                seconds=float(to.spec.timeout_seconds),
                allow_private=to.spec.allow_private,
            )
        except errors.LabfleetError as problem:
            raise DeliveryFailed(_of_error(problem)) from None
        if 200 <= answer.status < 300:
            return answer.status
        told = f"the receiver answered {answer.status}"
        asked = answer.retry_after
        wait = None if asked is None else asked * self._context.clock.rate
        raise DeliveryFailed(DeliveryFailure(told, answer.status, WebhookReason.REFUSED, wait))

    def _signature(self, to: Webhook, identity: str, body: bytes) -> dict[str, str]:
        """Return the headers of the Standard Webhooks scheme; without a secret no signature.

        With a previous secret there are two signatures, and a receiver takes either.
        """
        at = str(int(self._context.clock.now().timestamp()))
        named = {"webhook-id": identity, "webhook-timestamp": at}
        signed = f"{identity}.{at}.".encode() + body
        made = []
        for ref in (to.spec.secret, to.spec.previous_secret):
            if ref is None:
                continue
            try:
                secret = self._context.secrets.resolve(ref)
            except errors.LabfleetError as problem:
                raise DeliveryFailed(_of_error(problem)) from None
            digest = hmac.new(secret.encode(), signed, hashlib.sha256).digest()
            made.append(f"v1,{base64.b64encode(digest).decode()}")
        return {**named, "webhook-signature": " ".join(made)} if made else named


def reader(hook: Webhook) -> Principal:
    """Return as whom a webhook reads: its owner with a user's rights, else somebody who sees all."""
    if not hook.spec.owner:
        return access.SYSTEM
    return Principal(f"webhook {hook.name}", Role.USER, hook.spec.owner)


def is_persons(kind: str) -> bool:
    """Tell whether objects of a kind are people's own, so that a person's webhook hears of them."""
    return access.only_owner(Principal("", Role.USER, "anybody"), kind) is not None


def hears(hook: Webhook, obj: Resource) -> bool:
    """Tell whether a webhook may hear of an object: a person's hears of that person's own alone."""
    who = reader(hook)
    if who is access.SYSTEM:
        return True
    return access.only_owner(who, obj.kind) is not None and access.sees(who, obj)


def just_handed(obj: Resource, at: datetime) -> bool:
    """Tell whether a session was offered or handed over about now, so that others are told of it."""
    if not isinstance(obj, Session):
        return False
    marks = (obj.status.offer, obj.status.handed_over)
    return any(each is not None and abs(each.at - at) < _ABOUT for each in marks)


def is_for(hook: Webhook, change: Change, *, hears: bool) -> bool:
    """Tell whether a change is for a webhook that hears of its object, or is told of it by name.

    Who had a session before, and to whom it is offered, hear what they are told and nothing else
    of it; what they are told is for nobody but them and those who hear of all sessions.
    """
    if change.type not in _BY_NAME:
        return hears
    recipient = change.data.get("recipient", {}).get("owner")
    return not hook.spec.owner or hook.spec.owner == recipient


def body_of(context: Context, hook: Webhook, message: Message) -> bytes:
    """Return a CloudEvents 1.0 body in structured mode.

    What is worked out of an object when it is read is of the moment of this delivery. A notice may
    be handed on, so it has a link to the object, behind the sign-in, in place of the object.
    """
    event, change = message.event, message.change
    obj = kinds.decode(event.key.kind, event.doc, event.revision)
    shown: dict[str, Any]
    if isinstance(change.type, NoticeType):
        shown = {"link": page_links.link(context.settings.now().notices.pages_url, obj)}
    else:
        shown = {"object": views.of(context, reader(hook), obj)}
    return msgspec.json.encode(
        {
            "specversion": "1.0",
            "id": message.identity,
            "source": SOURCE + context.installation,
            "type": message.type,
            "subject": f"{kinds.KINDS[event.key.kind].plural}/{event.key.label}",
            # A name may be taken again; the uid says which of the objects that had it is meant.
            "objectuid": event.uid,
            "time": clock.format_instant(event.at),
            "datacontenttype": "application/json",
            "data": {
                **change.data,
                "cause": {
                    "actor": event.actor,
                    "reason": event.reason,
                    "requestId": event.request_id,
                },
                **shown,
            },
        }
    )


def _of_error(problem: errors.LabfleetError) -> DeliveryFailure:
    return DeliveryFailure(problem.message, None, conditions.of_error(problem))
