"""Rules of webhooks: whose they are, an address that may be called, and types that exist.

People may have a few of their own, which tell of their own sessions alone. A secret is a place on
the server, so only those who run it name one: with a secret of somebody else's receiver a person
could have bodies signed that this receiver would take.

The address is checked again at each delivery, after name resolution; checking it here tells
people early of mistakes that are visible early.
"""

from __future__ import annotations

import fnmatch
import re
from urllib.parse import urlsplit

from labfleet.kernel import addresses, errors
from labfleet.kernel.quantity import count
from labfleet.resources.webhook import Webhook
from labfleet.service.core import event_types, intake
from labfleet.service.core.access import Role
from labfleet.service.core.explanation import shown
from labfleet.service.core.kind_table import KindRules
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.kinds import indices
from labfleet.service.kinds.admitted import Admitted, with_spec

_NUMERIC = re.compile(r"(?:^|\.)(?:\d+|0x[0-9a-f]*)\.?$", re.IGNORECASE)
_INSIDE = ("localhost", "local", "internal", "localdomain")
OWNED_MOST = 200
"""Webhooks of people in the whole fleet: each of them reads the log."""
_OWN = frozenset({"url", "types", "enabled", "timeoutSeconds", "owner", "allowPrivate"})


async def create_webhook(services: ServiceContext, caller: Caller, new: Webhook) -> Admitted:
    """Require a URL that may be called, and types that exist; a user's tells of that user alone."""
    who = caller.principal
    if who.role is Role.USER:
        if new.spec.owner not in {"", who.name}:
            raise intake.invalid(("spec.owner", "you can make webhooks for yourself only"))
        new = with_spec(new, owner=who.name)
        _few_enough(services, who.name)
    if not new.spec.owner.isprintable():
        raise intake.invalid(("spec.owner", "must not hold control characters"))
    _judge(caller, new, before=None)
    return Admitted(new)


def _few_enough(services: ServiceContext, owner: str) -> None:
    """Raise QuotaExceeded when an owner, or all owners together, have as many as they may."""
    most = services.settings.now().limits.webhooks
    index = indices.filter_of("Webhook", "owner")
    have = services.cache.count(index, owner)
    if have >= most:
        told = f"{owner} has {count(have, 'webhook')}, as many as one may have (limits.webhooks)"
        raise errors.QuotaExceeded(f"{told}; delete one", reason="TooManyWebhooks")
    owned = sum(bool(each.spec.owner) for each in services.cache.all(Webhook))
    if owned >= OWNED_MOST:
        told = f"there are {owned} webhooks of people, the most that this fleet delivers to"
        raise errors.QuotaExceeded(told, reason="TooManyWebhooks")


async def update_webhook(
    services: ServiceContext, caller: Caller, old: Webhook, new: Webhook
) -> Admitted:
    """Require the same of a changed webhook."""
    del services
    if old.spec != new.spec:
        _judge(caller, new, before=old)
    return Admitted(new)


def _judge(caller: Caller, new: Webhook, *, before: Webhook | None) -> None:
    spec = new.spec
    if caller.principal.role is Role.USER:
        _judge_user(new, before=before)
    was_private = before is not None and before.spec.allow_private
    if spec.allow_private and not was_private and caller.principal.role is not Role.ADMIN:
        told = "only an admin may let a webhook call addresses inside (spec.allowPrivate)"
        raise errors.Denied(told, reason="Forbidden")
    # With another secret than the admin's, its receiver would take events that others made up.
    theirs = None if before is None else _receiver(before)
    changed = theirs != _receiver(new)
    if spec.allow_private and changed and caller.principal.role is not Role.ADMIN:
        told = "only an admin may change URL or secret of a webhook that may call addresses inside"
        raise errors.Denied(told, reason="Forbidden")
    problem = url_problem(spec.url, allow_private=spec.allow_private)
    if problem is not None:
        raise intake.invalid(("spec.url", problem), reason="UnsafeUrl")
    known = [*event_types.types(), *event_types.aliases().values()]
    for pattern in spec.types:
        found = {name for name in known if fnmatch.fnmatchcase(name, pattern)}
        if found and found <= event_types.unlogged():
            what = f"{pattern[:64]!r} comes in /api/events/stream only; a threshold that is passed"
            raise intake.invalid(
                ("spec.types", f"{what} is condition.raised"), reason="UnknownType"
            )
        if not found:
            what = f"no event type matches {pattern[:64]!r}" + intake.hint(pattern[:64], known)
            raise intake.invalid(("spec.types", what), reason="UnknownType")


def _judge_user(new: Webhook, *, before: Webhook | None) -> None:
    """Refuse that a user chooses what is signed with a secret, or for whom."""
    known = (None, None) if before is None else (before.spec.secret, before.spec.previous_secret)
    kept = [each for each in (new.spec.secret, new.spec.previous_secret) if each is not None]
    if any(each not in known for each in kept):
        told = "a secret is a place on the server: ask whoever runs the fleet to set spec.secret"
        raise errors.Denied(told, reason="Forbidden")
    if before is not None and kept and before.spec.url != new.spec.url:
        told = "its secret belongs to the receiver that it has: an operator may change spec.url"
        raise errors.Denied(told, reason="Forbidden")


def _receiver(hook: Webhook) -> tuple[object, ...]:
    return hook.spec.url, hook.spec.secret, hook.spec.previous_secret


def url_problem(url: str, *, allow_private: bool) -> str | None:
    """Return why a webhook's URL is refused, or None (facts/fleet-bugs.md#t45)."""
    if not url.isprintable() or " " in url:
        return "must not hold spaces or control characters"
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".").lower()
        _ = parts.port
    except ValueError:
        return "not a URL"
    if parts.scheme not in {"http", "https"} or not host:
        return "must be http:// or https:// with a host"
    problem = intake.host_problem(host)
    if problem is not None:
        return problem
    if parts.username is not None or parts.password is not None:
        return "must not hold a user or password; sign with spec.secret instead"
    if parts.scheme == "http" and not allow_private:
        return (
            "must be https://: events say who uses what; an admin may set spec.allowPrivate for a "
            "receiver inside without TLS"
        )
    if allow_private:
        return None
    return _private(host)


def _private(host: str) -> str | None:
    told = "not a public address; an admin may set spec.allowPrivate for a receiver inside"
    try:
        public = addresses.is_public(host)
    except ValueError:
        if host.rsplit(".", 1)[-1] in _INSIDE:
            return told
        # Resolvers treat a host that ends in a number as an IPv4 address, in any notation.
        return "write an IPv4 address as four decimal numbers" if _NUMERIC.search(host) else None
    return None if public else told


def _about(hook: Webhook) -> str:
    """Return a sentence on how deliveries go."""
    status = hook.status
    whose = f"of {hook.spec.owner}'s sessions alone: " if hook.spec.owner else ""
    told = f"{whose}{status.delivered} delivered, {status.dropped} dropped"
    if not status.failures:
        return told
    again = "" if status.retry_at is None else f"; next try at {shown(status.retry_at)}"
    return f"{told}; {count(status.failures, 'failure')} in a row: {status.last_error}{again}"


RULES = KindRules(
    name="Webhook",
    create=create_webhook,
    update=update_webhook,
    grants={Role.USER: frozenset({"create", "read", "update", "delete"})},
    fields={Role.USER: {"create": _OWN, "update": _OWN}},
    owned=frozenset({Role.USER}),
    about=_about,
)
