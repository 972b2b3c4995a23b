"""Idle detection under the compatible names: switch, status, recent use, and the internal check.

Bodies are in snake_case; `{id}` is a worker's name or uid.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from litestar import Response
from litestar.handlers import HTTPRouteHandler
from litestar.params import PathParameter

from labfleet.api.compatible.compat_routes import SeedRecord
from labfleet.api.core.endpoints import Ask, RouteDoc, caller, endpoint, record, reply
from labfleet.api.kinds.kind_routes import Namespace
from labfleet.resources.worker import Worker
from labfleet.service.core.service_context import ServiceContext
from labfleet.service.reads import idle
from labfleet.service.verbs import idle_checks

Id = Annotated[str, PathParameter(description="Name or uid.")]


class ToggleReply(SeedRecord, frozen=True, kw_only=True):
    """The switch's present value."""

    worker_id: str
    is_idle_detection_enabled: bool


class IdleReply(SeedRecord, frozen=True, kw_only=True):
    """Upstream 002's idle status of a worker; `kept_by` and `reason` say why it is not stopped."""

    worker_id: str
    is_idle: bool
    verdict: str
    idle_minutes: float | None
    timeout_minutes: int
    eligible_for_pause: bool
    in_snooze_period: bool
    snoozed_until: datetime | None
    is_idle_detection_enabled: bool
    last_activity_at: datetime | None
    last_activity_check_at: datetime | None
    next_pause_at: datetime | None
    kept_by: tuple[str, ...]
    reason: str


class ActivityReply(SeedRecord, frozen=True, kw_only=True):
    """Recent activity on a worker, at most ten events, and its pauses and resumes."""

    worker_id: str
    last_activity_at: datetime | None
    recent_activity_events: list[dict[str, Any]]
    auto_pause_count: int
    manual_pause_count: int
    auto_resume_count: int
    manual_resume_count: int
    last_paused_at: datetime | None
    last_paused_by: str
    pause_reason: str
    last_resumed_at: datetime | None


class DetectBody(SeedRecord, frozen=True, kw_only=True):
    """CML's events as they came (null: not fetched), and whether to look at the server at once."""

    force_check: bool = False
    raw_telemetry_events: tuple[dict[str, Any], ...] | None = None


class DetectReply(SeedRecord, frozen=True, kw_only=True):
    """What the check found.

    `auto_pause_triggered` is true once the idle controller has asked for the stop, after its
    own last look at the server; the check itself stops nothing.
    """

    worker_id: str
    checked_at: datetime
    telemetry_fetched: bool
    activity_updated: bool
    idle_check_performed: bool
    auto_pause_triggered: bool
    is_idle: bool
    idle_minutes: float | None
    eligible_for_pause: bool
    in_snooze_period: bool
    error: str | None


def routes(services: ServiceContext) -> list[HTTPRouteHandler]:
    """Return the routes."""
    return [*_of_workers(services), _detect(services)]


def _of_workers(services: ServiceContext) -> list[HTTPRouteHandler]:
    async def enable(request: Ask, id_: Id, namespace: Namespace = "default") -> Response[bytes]:
        who = caller(request)
        return _toggled(await idle_checks.switch(services, who, id_, namespace, enabled=True))

    async def disable(request: Ask, id_: Id, namespace: Namespace = "default") -> Response[bytes]:
        who = caller(request)
        return _toggled(await idle_checks.switch(services, who, id_, namespace, enabled=False))

    async def status(request: Ask, id_: Id, namespace: Namespace = "default") -> Response[bytes]:
        return reply(_idle_reply(await idle.read(services, caller(request), id_, namespace)))

    async def activity(request: Ask, id_: Id, namespace: Namespace = "default") -> Response[bytes]:
        return reply(_activity_reply(await idle.read(services, caller(request), id_, namespace)))

    at = "/api/workers/{id_:str}"
    return [
        endpoint("POST", f"{at}/idle-detection/enable", enable, name="enableIdleDetection",
                 tag="seeds", summary="Switch idle detection on", shape=RouteDoc(reply=ToggleReply)),
        endpoint("POST", f"{at}/idle-detection/disable", disable, name="disableIdleDetection",
                 tag="seeds", summary="Switch idle detection off", shape=RouteDoc(reply=ToggleReply)),
        endpoint("GET", f"{at}/idle-status", status, name="workerIdleStatus", tag="seeds",
                 summary="Is the worker idle", shape=RouteDoc(reply=IdleReply)),
        endpoint("GET", f"{at}/activity", activity, name="workerActivity", tag="seeds",
                 summary="What was done lately on it", shape=RouteDoc(reply=ActivityReply)),
    ]  # fmt: skip


def _detect(services: ServiceContext) -> HTTPRouteHandler:
    async def detect(request: Ask, id_: Id, namespace: Namespace = "default") -> Response[bytes]:
        sent = await record(request, DetectBody)
        found = await idle_checks.detect(
            services,
            caller(request),
            id_,
            namespace,
            force=sent.force_check,
            events=sent.raw_telemetry_events,
        )
        seen = found.reading
        return reply(
            DetectReply(
                worker_id=found.worker,
                checked_at=found.checked_at,
                telemetry_fetched=found.telemetry_fetched,
                activity_updated=found.activity_updated,
                idle_check_performed=True,
                auto_pause_triggered=seen.auto_stopped,
                is_idle=seen.idle,
                idle_minutes=seen.idle_minutes,
                eligible_for_pause=seen.eligible,
                in_snooze_period=seen.in_snooze,
                error=None if seen.verdict != "unknown" else seen.told,
            )
        )

    return endpoint(
        "POST",
        "/api/internal/workers/{id_:str}/detect-idle",
        detect,
        name="internalDetectIdle",
        tag="seeds",
        summary="Take events of use over and judge",
        shape=RouteDoc(body=DetectBody, reply=DetectReply),
    )


def _toggled(worker: Worker) -> Response[bytes]:
    on = worker.spec.idle_detection
    return reply(ToggleReply(worker_id=worker.name, is_idle_detection_enabled=on))


def _idle_reply(seen: idle.IdleReading) -> IdleReply:
    return IdleReply(
        worker_id=seen.worker,
        is_idle=seen.idle,
        verdict=seen.verdict,
        idle_minutes=seen.idle_minutes,
        timeout_minutes=seen.timeout_minutes,
        eligible_for_pause=seen.eligible,
        in_snooze_period=seen.in_snooze,
        snoozed_until=seen.snoozed_until,
        is_idle_detection_enabled="worker_switch" not in seen.kept_by,
        last_activity_at=seen.last_activity_at,
        last_activity_check_at=seen.checked_at,
        next_pause_at=seen.stop_at,
        kept_by=seen.kept_by,
        reason=seen.told,
    )


def _activity_reply(seen: idle.IdleReading) -> ActivityReply:
    status = seen.status
    return ActivityReply(
        worker_id=seen.worker,
        last_activity_at=seen.last_activity_at,
        recent_activity_events=[
            {"category": each.category, "timestamp": each.at, "user_id": each.user}
            for each in seen.recent
        ],
        auto_pause_count=status.auto_pauses,
        manual_pause_count=status.manual_pauses,
        auto_resume_count=status.auto_resumes,
        manual_resume_count=status.manual_resumes,
        last_paused_at=status.last_paused_at,
        last_paused_by=status.last_paused_by,
        pause_reason=status.last_paused_reason,
        last_resumed_at=status.last_resumed_at,
    )
