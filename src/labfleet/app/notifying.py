"""The webhooks that the environment asks for (WORKER_NOTIFICATION_WEBHOOKS of upstream 002).

They are made once, at the start, as ordinary Webhook objects, so that people can see, change and
delete them like any other; an existing one is never changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from labfleet.kernel import errors
from labfleet.resources import webhook
from labfleet.resources.meta import DEFAULT_NAMESPACE
from labfleet.service.core.access import Principal, Role
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.verbs import objects

TYPES = ("worker.*",)
WHO = Caller(Principal("environment", Role.ADMIN))


async def ensure(services: ServiceContext, urls: Sequence[str]) -> tuple[str, ...]:
    """Make a Webhook for each address that has none; return what was refused, in sentences.

    The sentences name the object, never the address: that often holds a secret.
    """
    refused = []
    for url in urls:
        name = f"notify-{hashlib.sha256(url.encode()).hexdigest()[:12]}"
        if await services.objects.get(webhook.KIND.type, name, DEFAULT_NAMESPACE) is not None:
            continue
        body = {
            "metadata": {"name": name, "namespace": DEFAULT_NAMESPACE},
            "spec": {"url": url, "types": list(TYPES)},
        }
        try:
            await objects.create(services, WHO, webhook.KIND, body)
        except errors.Conflict:
            continue  # another process was first
        except errors.Invalid as problem:
            refused.append(f"webhook {name}: {problem.message}".replace(url, "its address"))
    return tuple(refused)
