"""Deliver the log's events to webhooks: in order, at least once, signed, each wait bounded.

A webhook's cursor is a place in the log; the log keeps events that a cursor has not passed
(within a bound). The cursor moves only after a successful delivery, so a crash repeats events
with the same id and loses none. A receiver that fails for a day loses the oldest event and is
told so. Events about webhooks are not delivered: each delivery would cause another one.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import msgspec

from labfleet.controllers import webhook_messages
from labfleet.controllers.context import Context
from labfleet.controllers.webhook_messages import DeliveryFailed, Message, WebhookSender
from labfleet.decisions import deliveries
from labfleet.decisions.deliveries import DeliveryRound
from labfleet.engine.controller import Again, Done
from labfleet.interfaces import store as stores
from labfleet.interfaces.outside import Deliveries
from labfleet.kernel import errors
from labfleet.kernel.rng import Rng
from labfleet.resources import kinds
from labfleet.resources.meta import Key, Resource
from labfleet.resources.session import Session
from labfleet.resources.webhook import Webhook, WebhookReason, WebhookStatus
from labfleet.service.core import access, event_types
from labfleet.service.core.kind_table import Change
from labfleet.service.kinds import indices

ACTOR = "webhooks"
PAGE, ROUND = 200, 50
"""Events read and deliveries made in one round, so that one webhook never blocks the others."""
ROUND_SECONDS = 15.0
"""No delivery begins in an older round, so that a slow receiver does not block the others."""
TURNS = 8
"""Webhooks whose rounds are made at once."""
PEOPLES_TURNS = TURNS // 2
"""Of these, so many are for webhooks of people, one for each of them: whoever points theirs at
receivers that answer late delays nobody else's for long, and an operator's never."""
TURN_SECONDS = 5.0
"""When a webhook that got no turn asks again."""
GIVE_UP = timedelta(hours=24)


@dataclass(slots=True)
class _Place:
    """A webhook's cursor in this process, ahead of the stored one.

    `read`: the log was read from the stored cursor on. `of` identifies the webhook and the term of
    leadership it is valid for: a new webhook of the same name, and a new term (another process may
    have delivered), begin at the stored cursor.
    """

    cursor: stores.Cursor
    read: bool = False
    of: tuple[str, int | None] = ("", None)
    done: int = 0
    delivered: int = 0
    dropped: int = 0
    status: int | None = None


class WebhookController:
    """Reconciles webhooks: each round delivers a bounded number of events of one of them."""

    def __init__(
        self, context: Context, deliveries: Deliveries, rng: Rng, log: stores.EventLog
    ) -> None:
        self.context = context
        self._log = log
        self._sender = WebhookSender(context, deliveries)
        self._rng = rng.stream("webhooks")
        self._places: dict[Key, _Place] = {}
        self._by_owner = indices.filter_of(Webhook.__name__, "owner")
        self._concerned: set[Key] = set()
        """Webhooks of people whose objects changed since they were last read for."""
        self._turns: set[str] = set()
        """The people of whom a webhook is in its round."""
        for row in kinds.KINDS.values():
            if row.type is not Webhook and webhook_messages.is_persons(row.name):
                context.cache.on_change(row.type, self._changed)

    def woken(self, old: Resource | None, new: Resource | None) -> Iterator[Key]:
        """Yield the webhooks that a change may be for; a person's sleeps through all that is others'."""
        for owner in sorted({"", *_owners(old, new)}):
            for hook in self.context.cache.by(self._by_owner, owner):
                yield hook.key

    def _changed(self, old: Resource | None, new: Resource | None) -> None:
        """Hear from the cache that something of a person changed: before, or now."""
        for owner in _owners(old, new) - {""}:
            for hook in self.context.cache.by(self._by_owner, owner):
                self._concerned.add(hook.key)

    async def reconcile(self, key: Key) -> Done | Again:
        """Deliver the events that the webhook of this key has not received yet."""
        hook = self.context.cache.get(Webhook, key.name, key.namespace)
        if hook is None or hook.deleting:
            self._places.pop(key, None)
            self._concerned.discard(key)
            return Done()
        if not hook.spec.enabled:
            return Done()
        now = self.context.clock.now()
        place = await self._place(hook)
        retry = hook.status.retry_at
        asked = hook.metadata.generation > hook.status.observed_generation
        if retry is not None and retry > now and not asked:
            return Again((retry - now).total_seconds())
        if self._passed_by(hook, place):
            return await self._record(hook, place, DeliveryRound(""))
        owner = hook.spec.owner
        if not owner:
            return await self._round(hook, place)
        if owner in self._turns or len(self._turns) >= PEOPLES_TURNS:
            self._concerned.add(key)
            return Again(TURN_SECONDS)
        self._turns.add(owner)
        try:
            return await self._round(hook, place)
        finally:
            self._turns.discard(owner)

    async def _round(self, hook: Webhook, place: _Place) -> Done | Again:
        """Read what a webhook has not received yet and deliver it, up to a bound."""
        key = hook.key
        try:
            page = await self._log.events(place.cursor, limit=PAGE)
        except errors.TooOld:
            place.cursor, place.done = await self._log.head(), 0
            return await self._record(hook, place, DeliveryRound("", missed=True))
        try:
            more = await self._deliver(hook, place, page)
        except DeliveryFailed as problem:
            place.status = problem.failure.status
            self._concerned.add(key)
            return await self._record(hook, place, DeliveryRound("", failure=problem.failure))
        if more:
            self._concerned.add(key)
        return await self._record(hook, place, DeliveryRound("", more=more))

    def _passed_by(self, hook: Webhook, place: _Place) -> bool:
        """Tell whether nothing of a person's changed since the last look, and move on past it.

        So what others do costs a person's webhook no reading: the cache has told of each change up
        to its own place in the log. What is concerned is read from where the webhook stands.
        """
        seen = self.context.cache.cursor
        if (
            not hook.spec.owner
            or not place.read
            or seen is None
            or seen.epoch != place.cursor.epoch
        ):
            place.read = True
            self._concerned.discard(hook.key)
            return False
        if hook.key in self._concerned:
            self._concerned.discard(hook.key)
            return False
        if seen.revision > place.cursor.revision:
            place.cursor, place.done = seen, 0
        return True

    async def _place(self, hook: Webhook) -> _Place:
        fence = self.context.leadership.fence
        of = (hook.metadata.uid, None if fence is None else fence.token)
        known = self._places.get(hook.key)
        if known is not None and known.of == of:
            return known
        head = await self._log.head()
        try:
            cursor = stores.Cursor.parse(hook.status.cursor)
        except ValueError:
            cursor = head  # a new webhook gets events from now on
        made = _Place(cursor=cursor, of=of)
        self._places[hook.key] = made
        return made

    async def _deliver(self, hook: Webhook, place: _Place, page: stores.EventPage) -> bool:
        """Deliver in order; return whether more may be deliverable at once."""
        made = 0
        until = self.context.clock.monotonic() + ROUND_SECONDS
        for event in page.events:
            for number, change in enumerate(await self._changes(hook, event)):
                name = _wanted(hook, change.type)
                if number < place.done or name is None:
                    continue
                if made >= ROUND or (made and self.context.clock.monotonic() >= until):
                    return True
                message = Message(_identity(place, event, number), event, change, name)
                await self._one(hook, place, message)
                place.done = number + 1
                made += 1
            place.cursor = stores.Cursor(page.cursor.epoch, event.revision)
            place.done = 0
        place.cursor = page.cursor
        return len(page.events) >= PAGE

    async def _changes(self, hook: Webhook, event: stores.Event) -> tuple[Change, ...]:
        """Return the named changes of an event that a webhook may hear of.

        The object is compared with its event before this one.
        """
        if event.key.kind == Webhook.__name__ or event.key.kind not in kinds.KINDS:
            return ()
        try:
            return await self._read(hook, event)
        except ValueError:
            return ()  # another version has written it in a form that this one cannot read

    async def _read(self, hook: Webhook, event: stores.Event) -> tuple[Change, ...]:
        new = kinds.decode(event.key.kind, event.doc, event.revision)
        hears = webhook_messages.hears(hook, new)
        if not hears and not webhook_messages.just_handed(new, event.at):
            return ()
        if event.type == "DELETED":
            return event_types.changes(new, None)
        old: Resource | None = None
        if event.type == "MODIFIED":
            before = await self._log.events_of(event.key, before=event.revision, limit=1)
            same = [each for each in before if each.uid == event.uid]
            if not same:
                return ()  # the earlier state is no longer known, so no change can be named
            old = kinds.decode(event.key.kind, same[0].doc, same[0].revision)
        return tuple(
            each
            for each in event_types.changes(old, new)
            if webhook_messages.is_for(hook, each, hears=hears)
        )

    async def _one(self, hook: Webhook, place: _Place, message: Message) -> None:
        if self.context.clock.now() - message.event.at > GIVE_UP and hook.status.failures:
            place.dropped += 1
            return
        place.status = await self._sender.send(hook, message)
        place.delivered += 1

    async def _record(self, hook: Webhook, place: _Place, done: DeliveryRound) -> Done | Again:
        """Write what the round means, if that is worth a write."""
        done = msgspec.structs.replace(
            done,
            cursor=str(place.cursor),
            ahead=place.cursor.revision - _stored(hook),
            delivered=place.delivered,
            dropped=place.dropped,
            status=place.status,
        )
        chance = 0.0 if done.failure is None else self._rng.random()
        step = deliveries.decide(hook, done, self.context.clock.now(), chance)
        if step.switch_off and step.status is not None:
            await self._switch_off(hook, step.status)
            place.delivered = place.dropped = 0
            return Done()
        if step.status is not None:
            await self.context.record(hook, status=step.status, actor=ACTOR, reason="delivery")
            place.delivered = place.dropped = 0
        return Again(step.again)

    async def _switch_off(self, hook: Webhook, status: WebhookStatus) -> None:
        """Disable a webhook whose receiver is gone; the write fails when somebody changed it."""
        metadata = msgspec.structs.replace(hook.metadata, generation=hook.metadata.generation + 1)
        status = msgspec.structs.replace(status, observed_generation=metadata.generation)
        spec = msgspec.structs.replace(hook.spec, enabled=False)
        new = msgspec.structs.replace(hook, metadata=metadata, spec=spec, status=status)
        await self.context.write(
            new, actor=ACTOR, reason=f"{WebhookReason.GONE}: {status.last_error}"
        )


def _owners(old: Resource | None, new: Resource | None) -> set[str]:
    """Return whose something was before a change or is after it, whoever booked it or is offered it."""
    found = {owner for each in (old, new) if each is not None for owner in access.owners(each)}
    offer = new.status.offer if isinstance(new, Session) else None
    return found if offer is None else found | {offer.to}


def _stored(hook: Webhook) -> int:
    try:
        return stores.Cursor.parse(hook.status.cursor).revision
    except ValueError:
        return 0


def oldest_cursor(hooks: list[Webhook]) -> stores.Cursor | None:
    """Return the least cursor of all enabled webhooks; older events may be dropped."""
    found = []
    for hook in hooks:
        try:
            found.append(stores.Cursor.parse(hook.status.cursor))
        except ValueError:
            continue
    return min(found, key=lambda each: each.revision, default=None)


def _identity(place: _Place, event: stores.Event, number: int) -> str:
    return f"{place.cursor.epoch}.{event.revision}.{number}"


def _wanted(hook: Webhook, name: str) -> str | None:
    """Return by which name a webhook wants an event: ours, or upstream's where only that is asked."""
    if _matches(hook, name):
        return name
    other = event_types.aliases().get(name)
    return other if other is not None and _matches(hook, other) else None


def _matches(hook: Webhook, name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in hook.spec.types)
