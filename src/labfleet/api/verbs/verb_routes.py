"""Verbs on workers and sessions, as routes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec
from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, QueryParameter

from labfleet.api.core.endpoints import Ask, Key, RouteDoc, caller, endpoint, record, reply
from labfleet.resources.meta import Record
from labfleet.resources.session import Session
from labfleet.resources.worker import Worker
from labfleet.service.core import intake
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.verbs import lifecycle as verbs

Namespace = Annotated[str, QueryParameter(name="namespace")]
Words = Annotated[str, msgspec.Meta(max_length=verbs.TEXT_LIMIT)]


class DrainRequest(Record, frozen=True, kw_only=True):
    """The deadline (an instant or seconds from now), the reason, and whether to end what runs."""

    deadline: datetime | None = None
    deadline_seconds: Annotated[int, msgspec.Meta(ge=1, le=31_536_000)] | None = None
    reason: Words = ""
    force: bool = False


class ChangeDrainRequest(Record, frozen=True, kw_only=True):
    """The new deadline, or the wish to end what runs: now, or at the new deadline."""

    deadline: datetime | None = None
    force: bool | None = None


class DesireRequest(Record, frozen=True, kw_only=True):
    """The desired state of a worker."""

    desired: Literal["Ready", "Stopped", "Terminated"]


class CancelRequest(Record, frozen=True, kw_only=True):
    """Why a session is ended."""

    reason: Words = ""


class ExtendRequest(Record, frozen=True, kw_only=True):
    """The new end, or by how much later; exactly one of the two."""

    end: datetime | None = None
    by_seconds: Annotated[int, msgspec.Meta(ge=1, le=31_536_000)] | None = None


class Nothing(Record, frozen=True, kw_only=True):
    """A verb without parameters."""


def routes(services: ServiceContext) -> list[HTTPRouteHandler]:
    """Return the routes of all verbs."""
    return [*_drains(services), *_cordons(services), *_sessions(services)]


def _drains(services: ServiceContext) -> list[HTTPRouteHandler]:
    async def drain(
        request: Ask, name: FromPath[str], namespace: Namespace = "default"
    ) -> Response[bytes]:
        asked = await record(request, DrainRequest)
        deadline = asked.deadline
        if asked.deadline_seconds is not None:
            if deadline is not None:
                raise intake.invalid(("deadline", "give an instant or seconds, not both"))
            deadline = services.clock.now() + timedelta(seconds=asked.deadline_seconds)
        worker = await verbs.drain(
            services,
            caller(request),
            name,
            namespace,
            deadline=deadline,
            reason=asked.reason,
            force=asked.force,
        )
        return reply(worker)

    async def change_drain(
        request: Ask, name: FromPath[str], namespace: Namespace = "default"
    ) -> Response[bytes]:
        asked = await record(request, ChangeDrainRequest)
        who, at = caller(request), asked.deadline
        return reply(
            await verbs.change_drain(services, who, name, namespace, deadline=at, force=asked.force)
        )

    async def cancel_drain(
        request: Ask, name: FromPath[str], namespace: Namespace = "default"
    ) -> Response[bytes]:
        await record(request, Nothing)
        return reply(await verbs.cancel_drain(services, caller(request), name, namespace))

    return [
        _verb("workers", "drain", drain, "Empty a worker by a deadline",
              body=DrainRequest, reply_type=Worker),
        _verb("workers", "cancel-drain", cancel_drain, "Take a drain back",
              body=None, reply_type=Worker),
        _verb("workers", "change-drain", change_drain, "Extend a drain, or end what still runs",
              body=ChangeDrainRequest, reply_type=Worker),
    ]  # fmt: skip


def _cordons(services: ServiceContext) -> list[HTTPRouteHandler]:
    async def cordon(
        request: Ask, name: FromPath[str], namespace: Namespace = "default"
    ) -> Response[bytes]:
        await record(request, Nothing)
        return reply(await verbs.cordon(services, caller(request), name, namespace))

    async def uncordon(
        request: Ask, name: FromPath[str], namespace: Namespace = "default"
    ) -> Response[bytes]:
        await record(request, Nothing)
        who = caller(request)
        return reply(await verbs.cordon(services, who, name, namespace, closed=False))

    async def desire(
        request: Ask, name: FromPath[str], namespace: Namespace = "default"
    ) -> Response[bytes]:
        asked = await record(request, DesireRequest)
        who = caller(request)
        return reply(await verbs.desire(services, who, name, namespace, desired=asked.desired))

    return [
        _verb(
            "workers",
            "cordon",
            cordon,
            "Close a worker for new sessions",
            body=None,
            reply_type=Worker,
        ),
        _verb("workers", "uncordon", uncordon, "Open a worker again", body=None, reply_type=Worker),
        _verb(
            "workers",
            "desired",
            desire,
            "Say what it shall become",
            body=DesireRequest,
            reply_type=Worker,
        ),
    ]


def _sessions(services: ServiceContext) -> list[HTTPRouteHandler]:
    async def cancel(
        request: Ask, name: FromPath[str], namespace: Namespace = "default"
    ) -> Response[bytes]:
        asked = await record(request, CancelRequest)
        who = caller(request)
        return reply(await verbs.cancel(services, who, name, namespace, reason=asked.reason))

    async def extend(
        request: Ask,
        name: FromPath[str],
        namespace: Namespace = "default",
        idempotency_key: Key = None,
    ) -> Response[bytes]:
        asked = await record(request, ExtendRequest)
        session = await verbs.extend(
            services,
            caller(request),
            name,
            namespace,
            end=asked.end,
            by=None if asked.by_seconds is None else timedelta(seconds=asked.by_seconds),
            key=idempotency_key,
        )
        return reply(session)

    async def observe(
        request: Ask, name: FromPath[str], namespace: Namespace = "default"
    ) -> Response[bytes]:
        await record(request, Nothing)
        who = caller(request)
        return reply(await verbs.observe(services, who, name, namespace), status=202)

    return [
        _verb(
            "sessions", "cancel", cancel, "End a session", body=CancelRequest, reply_type=Session
        ),
        _verb(
            "sessions",
            "extend",
            extend,
            "Move the end of a session",
            body=ExtendRequest,
            reply_type=Session,
        ),
        _verb(
            "sessions",
            "observe",
            observe,
            "Ask for an observation",
            body=None,
            reply_type=Session,
            status=202,
        ),
    ]


def _verb(
    plural: str,
    verb: str,
    run: Any,
    summary: str,
    *,
    body: Any,
    reply_type: Any,
    status: int = 200,
) -> HTTPRouteHandler:
    word = "".join(part.title() for part in verb.split("-"))
    return endpoint(
        "POST",
        f"/api/v1/{plural}/{{name:str}}/{verb}",
        run,
        name=f"{word[0].lower()}{word[1:]}{plural[:-1].title()}",
        tag=plural,
        summary=summary,
        shape=RouteDoc(body=body, reply=reply_type),
        status=status,
    )
