"""Verbs on workers and sessions, as routes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Literal

import msgspec
from litestar.params import QueryParameter

from labfleet.api.core.route import Key, Name, Nothing, Reply, Routes, Uid
from labfleet.api.core.warning_headers import warning_headers
from labfleet.resources.meta import Record
from labfleet.resources.session import Session, Slot
from labfleet.resources.worker import Worker
from labfleet.service.core import intake
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.verbs import lifecycle as verbs
from labfleet.service.verbs import retrying

Namespace = Annotated[str, QueryParameter(name="namespace", description="Namespace of the object.")]
Words = Annotated[str, msgspec.Meta(max_length=verbs.TEXT_LIMIT)]
_DRAIN = ("drain", "Worker")


class DrainRequest(Record, frozen=True, kw_only=True):
    """The deadline (an instant or seconds from now), the reason, and whether to end what runs.

    deadline: When the worker shall be empty.
    deadline_seconds: The same in seconds from now.
    reason: Why, for the log and for people.
    force: Whether what still runs at the deadline is ended.
    """

    deadline: datetime | None = None
    deadline_seconds: Annotated[int, msgspec.Meta(ge=1, le=31_536_000)] | None = None
    reason: Words = ""
    force: bool = False


class ChangeDrainRequest(Record, frozen=True, kw_only=True):
    """The new deadline, or the wish to end what runs: now, or at the new deadline.

    deadline: When the worker shall be empty; null leaves the deadline as it is.
    force: Whether what still runs at the deadline is ended; null leaves that as it is.
    """

    deadline: datetime | None = None
    force: bool | None = None


class DesireRequest(Record, frozen=True, kw_only=True):
    """The desired state of a worker.

    desired: State that the worker shall come to.
    """

    desired: Literal["Ready", "Stopped", "Terminated"]


class CancelRequest(Record, frozen=True, kw_only=True):
    """Why a session is ended.

    reason: Why, for the log and for people.
    """

    reason: Words = ""


class ExtendRequest(Record, frozen=True, kw_only=True):
    """The new end, or by how much later; exactly one of the two.

    end: The new end.
    by_seconds: By how many seconds later it ends.
    """

    end: datetime | None = None
    by_seconds: Annotated[int, msgspec.Meta(ge=1, le=31_536_000)] | None = None


class ShortenRequest(Record, frozen=True, kw_only=True):
    """The new end, or by how much earlier; exactly one of the two.

    end: The new end.
    by_seconds: By how many seconds earlier it ends.
    """

    end: datetime | None = None
    by_seconds: Annotated[int, msgspec.Meta(ge=1, le=31_536_000)] | None = None


class MoveRequest(Record, frozen=True, kw_only=True):
    """Where a slot is moved; it stays as long as it is.

    start: The new start.
    """

    start: datetime


class RetryRequest(Record, frozen=True, kw_only=True):
    """Why, and when the new attempt is to run.

    reason: Why it is tried again, for people.
    slot: Slot of the new attempt; null means the old slot, or what is left of it.
    """

    reason: Words = ""
    slot: Slot | None = None


def routes(services: ServiceContext) -> Routes:
    """Return the routes of all verbs."""
    made = Routes()
    _drains(made, services)
    _cordons(made, services)
    _sessions(made, services)
    _times(made, services)
    _moves(made, services)
    _retries(made, services)
    return made


def _drains(made: Routes, services: ServiceContext) -> None:
    @made.post(
        "/api/v1/workers/{name:str}/drain", "Empty a worker by a deadline",
        tag="workers", needs=_DRAIN,
    )  # fmt: skip
    async def drain_worker(
        who: Caller, name: Name, sent: DrainRequest, namespace: Namespace = "default"
    ) -> Worker:
        """Place nothing more on a worker and let its sessions end by the deadline."""
        deadline = sent.deadline
        if sent.deadline_seconds is not None:
            if deadline is not None:
                raise intake.invalid(("deadline", "give an instant or seconds, not both"))
            deadline = services.clock.now() + timedelta(seconds=sent.deadline_seconds)
        return await verbs.drain(
            services,
            who,
            name,
            namespace,
            deadline=deadline,
            reason=sent.reason,
            force=sent.force,
        )

    @made.post(
        "/api/v1/workers/{name:str}/cancel-drain", "Take a drain back",
        tag="workers", needs=_DRAIN,
    )  # fmt: skip
    async def cancel_drain_worker(
        who: Caller, name: Name, sent: Nothing, namespace: Namespace = "default"
    ) -> Worker:
        """Open a worker that is being emptied for sessions again."""
        del sent
        return await verbs.cancel_drain(services, who, name, namespace)

    @made.post(
        "/api/v1/workers/{name:str}/change-drain", "Extend a drain, or end what still runs",
        tag="workers", needs=_DRAIN,
    )  # fmt: skip
    async def change_drain_worker(
        who: Caller,
        name: Name,
        sent: ChangeDrainRequest,
        namespace: Namespace = "default",
    ) -> Worker:
        """Move the deadline of a drain, or say whether what still runs then is ended."""
        return await verbs.change_drain(
            services, who, name, namespace, deadline=sent.deadline, force=sent.force
        )


def _cordons(made: Routes, services: ServiceContext) -> None:
    @made.post(
        "/api/v1/workers/{name:str}/cordon", "Close a worker for new sessions",
        tag="workers", needs=_DRAIN,
    )  # fmt: skip
    async def cordon_worker(
        who: Caller, name: Name, sent: Nothing, namespace: Namespace = "default"
    ) -> Worker:
        """Place nothing more on a worker; what runs goes on."""
        del sent
        return await verbs.cordon(services, who, name, namespace)

    @made.post(
        "/api/v1/workers/{name:str}/uncordon", "Open a worker again",
        tag="workers", needs=_DRAIN,
    )  # fmt: skip
    async def uncordon_worker(
        who: Caller, name: Name, sent: Nothing, namespace: Namespace = "default"
    ) -> Worker:
        """Let sessions be placed on a worker again."""
        del sent
        return await verbs.cordon(services, who, name, namespace, closed=False)

    @made.post(
        "/api/v1/workers/{name:str}/desired", "Say what it shall become",
        tag="workers", needs=_DRAIN,
    )  # fmt: skip
    async def desired_worker(
        who: Caller, name: Name, sent: DesireRequest, namespace: Namespace = "default"
    ) -> Worker:
        """Say whether it shall be Ready, Stopped or Terminated; the last two empty it first."""
        return await verbs.desire(services, who, name, namespace, desired=sent.desired)


def _sessions(made: Routes, services: ServiceContext) -> None:
    @made.post(
        "/api/v1/sessions/{name:str}/cancel", "End a session",
        tag="sessions", needs=("cancel", "Session"),
    )  # fmt: skip
    async def cancel_session(
        who: Caller,
        name: Name,
        sent: CancelRequest,
        namespace: Namespace = "default",
        uid: Uid = None,
    ) -> Session:
        """End a session before its time; its lab is stopped, wiped and deleted."""
        return await verbs.cancel(services, who, name, namespace, reason=sent.reason, uid=uid)

    @made.post(
        "/api/v1/sessions/{name:str}/check-in", "Say that its person has come",
        tag="sessions", needs=("check-in", "Session"),
    )  # fmt: skip
    async def check_in_session(
        who: Caller, name: Name, sent: Nothing, namespace: Namespace = "default", uid: Uid = None
    ) -> Session:
        """Say that a session's person has come, so that it is not released for absence."""
        del sent
        return await verbs.check_in(services, who, name, namespace, uid=uid)

    @made.post(
        "/api/v1/sessions/{name:str}/observe", "Ask for an observation",
        tag="sessions", needs=("observe", "Session"), status=202,
    )  # fmt: skip
    async def observe_session(
        who: Caller, name: Name, sent: Nothing, namespace: Namespace = "default"
    ) -> Session:
        """Ask the lab controller to look at the session's lab; the session shows it later."""
        del sent
        return await verbs.observe(services, who, name, namespace)


def _times(made: Routes, services: ServiceContext) -> None:
    @made.post(
        "/api/v1/sessions/{name:str}/extend", "Move the end of a session",
        tag="sessions", needs=("extend", "Session"),
    )  # fmt: skip
    async def extend_session(
        who: Caller,
        name: Name,
        sent: ExtendRequest,
        *,
        namespace: Namespace = "default",
        idempotency_key: Key = None,
        uid: Uid = None,
    ) -> Session:
        """Give a session a later end, if that takes nothing from others; else the longest is named."""
        return await verbs.extend(
            services,
            who,
            name,
            namespace,
            end=sent.end,
            by=None if sent.by_seconds is None else timedelta(seconds=sent.by_seconds),
            key=idempotency_key,
            uid=uid,
        )

    @made.post(
        "/api/v1/sessions/{name:str}/shorten", "End a session earlier",
        tag="sessions", needs=("shorten", "Session"),
    )  # fmt: skip
    async def shorten_session(
        who: Caller,
        name: Name,
        sent: ShortenRequest,
        *,
        namespace: Namespace = "default",
        idempotency_key: Key = None,
        uid: Uid = None,
    ) -> Session:
        """Give a session an earlier end; the time after it is free for others at once."""
        return await verbs.shorten(
            services,
            who,
            name,
            namespace,
            end=sent.end,
            by=None if sent.by_seconds is None else timedelta(seconds=sent.by_seconds),
            key=idempotency_key,
            uid=uid,
        )


def _moves(made: Routes, services: ServiceContext) -> None:
    @made.post(
        "/api/v1/sessions/{name:str}/move", "Move a slot to another start",
        tag="sessions", needs=("move", "Session"),
    )  # fmt: skip
    async def move_session(
        who: Caller,
        name: Name,
        sent: MoveRequest,
        namespace: Namespace = "default",
        uid: Uid = None,
    ) -> Session:
        """Move a slot that has not begun; where the new one does not fit, the old one is kept."""
        return await verbs.move(services, who, name, namespace, start=sent.start, uid=uid)


def _retries(made: Routes, services: ServiceContext) -> None:
    @made.post(
        "/api/v1/sessions/{name:str}/retry", "Try a failed session again",
        tag="sessions", needs=("retry", "Session"), status=201,
    )  # fmt: skip
    async def retry_session(
        who: Caller,
        name: Name,
        sent: RetryRequest,
        *,
        namespace: Namespace = "default",
        idempotency_key: Key = None,
        uid: Uid = None,
    ) -> Reply[Session]:
        """Make a new attempt of a session that failed or expired; each has one next attempt.

        The header Labfleet-Warning says so when it will fail for the same reason.
        """
        new = await retrying.retry(
            services,
            who,
            name,
            namespace,
            slot=sent.slot,
            reason=sent.reason,
            key=idempotency_key,
            uid=uid,
        )
        return Reply(new, headers=warning_headers(services, new))
