"""Rules of webhooks: an address that may be called, and types that exist.

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
from labfleet.service.kinds.admitted import Admitted

_NUMERIC = re.compile(r"(?:^|\.)(?:\d+|0x[0-9a-f]*)\.?$", re.IGNORECASE)
_INSIDE = ("localhost", "local", "internal", "localdomain")


async def create_webhook(services: ServiceContext, caller: Caller, new: Webhook) -> Admitted:
    """Require a URL that may be called, and types that exist."""
    del services
    _judge(caller, new, before=None)
    return Admitted(new)


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
    was_private = before is not None and before.spec.allow_private
    if spec.allow_private and not was_private and caller.principal.role is not Role.ADMIN:
        told = "only an admin may let a webhook call addresses inside (spec.allowPrivate)"
        raise errors.Denied(told, reason="Forbidden")
    # With another secret than the admin's, its receiver would take events that others made up.
    theirs = None if before is None else (before.spec.url, before.spec.secret)
    changed = theirs != (spec.url, spec.secret)
    if spec.allow_private and changed and caller.principal.role is not Role.ADMIN:
        told = "only an admin may change URL or secret of a webhook that may call addresses inside"
        raise errors.Denied(told, reason="Forbidden")
    problem = url_problem(spec.url, allow_private=spec.allow_private)
    if problem is not None:
        raise intake.invalid(("spec.url", problem), reason="UnsafeUrl")
    known = event_types.types()
    for pattern in spec.types:
        found = {name for name in known if fnmatch.fnmatchcase(name, pattern)}
        if found and found <= event_types.unlogged():
            what = f"{pattern[:64]!r} comes in /api/events/stream only; a threshold that is passed"
            raise intake.invalid(
                ("spec.types", f"{what} is condition.raised"), reason="UnknownType"
            )
        if not found:
            what = f"no event type matches {pattern[:64]!r}" + intake.hint(
                pattern[:64], list(known)
            )
            raise intake.invalid(("spec.types", what), reason="UnknownType")


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
    told = f"{status.delivered} delivered, {status.dropped} dropped"
    if not status.failures:
        return told
    again = "" if status.retry_at is None else f"; next try at {shown(status.retry_at)}"
    return f"{told}; {count(status.failures, 'failure')} in a row: {status.last_error}{again}"


RULES = KindRules(name="Webhook", create=create_webhook, update=update_webhook, about=_about)
