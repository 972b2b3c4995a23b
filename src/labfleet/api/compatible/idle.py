"""Idle detection under the compatible names: switch, status, recent use, and the internal check.

Bodies are in snake_case; `{id}` is a worker's name or uid.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from litestar.params import PathParameter

from labfleet.api.compatible.compat_routes import SeedRecord
from labfleet.api.core.route import Routes
from labfleet.api.kinds.kind_routes import Namespace
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import idle
from labfleet.service.verbs import idle_checks

Id = Annotated[str, PathParameter(description="Name or uid.")]


class ToggleReply(SeedRecord, frozen=True, kw_only=True):
    """The switch's present value.

    worker_id: Name of the worker.
    is_idle_detection_enabled: Whether the worker may be stopped for idleness.
    """

    worker_id: str
    is_idle_detection_enabled: bool


class IdleReply(SeedRecord, frozen=True, kw_only=True):
    """Upstream 002's idle status of a worker; `kept_by` and `reason` say why it is not stopped.

    worker_id: Name of the worker.
    is_idle: Whether there was no sign of use for the whole timeout.
    verdict: Whether it is in use, unused, or unknown.
    idle_minutes: For how long nothing was used; null when unknown.
    timeout_minutes: How long there must be no sign of use.
    eligible_for_pause: Whether it is idle and nothing forbids a stop.
    in_snooze_period: Whether it is not judged now.
    snoozed_until: Until when it is not judged after a start.
    is_idle_detection_enabled: Whether it may be stopped for idleness.
    last_activity_at: When it was last used.
    last_activity_check_at: When it was last judged.
    next_pause_at: When it would be stopped if nothing changes.
    kept_by: Names of what keeps it from being stopped.
    reason: The verdict in a sentence.
    """

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
    """Recent activity on a worker, at most ten events, and its pauses and resumes.

    worker_id: Name of the worker.
    last_activity_at: When it was last used.
    recent_activity_events: The newest events of use, at most ten.
    auto_pause_count: Stops by the idle rule.
    manual_pause_count: Stops by people.
    auto_resume_count: Starts by the pool because it was needed.
    manual_resume_count: Starts by people.
    last_paused_at: When it was last stopped.
    last_paused_by: Who stopped it last.
    pause_reason: Why it was last stopped.
    last_resumed_at: When it was last started.
    """

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
    """CML's events as they came (null: not fetched), and whether to look at the server at once.

    force_check: Whether the server is looked at at once.
    raw_telemetry_events: CML's events as they came; null means not fetched.
    """

    force_check: bool = False
    raw_telemetry_events: tuple[dict[str, Any], ...] | None = None


class DetectReply(SeedRecord, frozen=True, kw_only=True):
    """What the check found.

    The check itself stops nothing.

    worker_id: Name of the worker.
    checked_at: When it was judged.
    telemetry_fetched: Whether CML's events were known.
    activity_updated: Whether a newer use was found.
    idle_check_performed: Whether it was judged.
    auto_pause_triggered: Whether the idle rule has asked for the stop, after its own last look.
    is_idle: Whether there was no sign of use for the whole timeout.
    idle_minutes: For how long nothing was used; null when unknown.
    eligible_for_pause: Whether it is idle and nothing forbids a stop.
    in_snooze_period: Whether it is not judged now.
    error: Why it could not be judged; null when it was.
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


DETECT_BYTES = 4 * 2**20
"""As many of CML's events as one report may have."""
DETECT_VALUES = 150_000


def routes(services: ServiceContext) -> Routes:
    """Return the routes."""
    made = Routes("seeds")
    _of_workers(made, services)
    _detect(made, services)
    return made


def _of_workers(made: Routes, services: ServiceContext) -> None:
    at = "/api/workers/{id_:str}"

    async def switched(who: Caller, name: str, namespace: str, *, enabled: bool) -> ToggleReply:
        worker = await idle_checks.switch(services, who, name, namespace, enabled=enabled)
        on = worker.spec.idle_detection
        return ToggleReply(worker_id=worker.name, is_idle_detection_enabled=on)

    @made.post(f"{at}/idle-detection/enable", "Switch idle detection on", needs=("drain", "Worker"))
    async def enable_idle_detection(
        who: Caller, id_: Id, namespace: Namespace = "default"
    ) -> ToggleReply:
        """Let the idle rule stop this worker."""
        return await switched(who, id_, namespace, enabled=True)

    @made.post(
        f"{at}/idle-detection/disable", "Switch idle detection off", needs=("drain", "Worker")
    )
    async def disable_idle_detection(
        who: Caller, id_: Id, namespace: Namespace = "default"
    ) -> ToggleReply:
        """Keep the idle rule from stopping this worker."""
        return await switched(who, id_, namespace, enabled=False)

    @made.get(f"{at}/idle-status", "Is the worker idle", needs=("read", "Worker"))
    async def worker_idle_status(
        who: Caller, id_: Id, namespace: Namespace = "default"
    ) -> IdleReply:
        """Return the verdict on the worker's use, with what keeps it from being stopped."""
        return _idle_reply(await idle.read(services, who, id_, namespace))

    @made.get(f"{at}/activity", "What was done lately on it", needs=("read", "Worker"))
    async def worker_activity(
        who: Caller, id_: Id, namespace: Namespace = "default"
    ) -> ActivityReply:
        """Return the newest events of use, and how often the worker was stopped and started."""
        return _activity_reply(await idle.read(services, who, id_, namespace))


def _detect(made: Routes, services: ServiceContext) -> None:
    @made.post(
        "/api/internal/workers/{id_:str}/detect-idle", "Take events of use over and judge",
        needs=("record", "Worker"), limit=DETECT_BYTES, values=DETECT_VALUES,
    )  # fmt: skip
    async def internal_detect_idle(
        who: Caller, id_: Id, sent: DetectBody, namespace: Namespace = "default"
    ) -> DetectReply:
        """Take CML's events of use over and judge the worker by them; the check stops nothing."""
        found = await idle_checks.detect(
            services,
            who,
            id_,
            namespace,
            force=sent.force_check,
            events=sent.raw_telemetry_events,
        )
        seen = found.reading
        return DetectReply(
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
        is_idle_detection_enabled=not any(
            each.name == "worker_switch" and each.verdict != "quiet" for each in seen.signals
        ),
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
