"""Change settings by name, pause or resume automatic actions, confirm a host's clock.

Each is one commit with an event that says who, what and why; repeating it changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from labfleet.kernel import errors
from labfleet.kernel.clock import format_instant, utc_text
from labfleet.resources import fleet_settings
from labfleet.resources.fleet_settings import NAME, REF, Settings, SettingsSpec
from labfleet.resources.meta import Metadata
from labfleet.resources.pool import PAUSED_MARK, Pool
from labfleet.service.core import access, intake, lookup
from labfleet.service.core.fleet_settings import CONFIRMED_MARK
from labfleet.service.core.service_context import Caller, Refused, ServiceContext, retried
from labfleet.service.kinds import settings_rules
from labfleet.service.kinds.admitted import with_spec
from labfleet.service.verbs import objects
from labfleet.service.verbs.lifecycle import TEXT_LIMIT

CHANGED = "Changed"
Edit = Callable[[SettingsSpec], SettingsSpec]


async def change(
    services: ServiceContext,
    caller: Caller,
    values: Mapping[str, Any],
    unset: Sequence[str] = (),
    *,
    reason: str = "",
) -> Settings:
    """Set and unset settings by name (`idle.timeoutMinutes`); Invalid names what is wrong."""
    access.demand(caller.principal, "update", "Settings")
    _short(reason)
    wanted: dict[str, dict[str, Any]] = {}
    for path, value in [*values.items(), *((each, None) for each in unset)]:
        section = _section(path)
        wanted.setdefault(section, {})[path.partition(".")[2]] = value

    def edit(spec: SettingsSpec) -> SettingsSpec:
        merged = {
            name: intake.merged(getattr(spec, name), fields) for name, fields in wanted.items()
        }
        return _spec(spec, merged)

    return await _written(services, caller, edit, what=CHANGED, why=reason)


async def replace_sections(
    services: ServiceContext, caller: Caller, sections: Mapping[str, Mapping[str, Any]]
) -> Settings:
    """Replace the named sections. A value that is in effect anyway is not stored.

    So sending back a body that was read with effective values does not fix those values.
    """
    access.demand(caller.principal, "update", "Settings")

    def edit(spec: SettingsSpec) -> SettingsSpec:
        floor = fleet_settings.effective(None, services.environment)
        kept: dict[str, dict[str, Any]] = {}
        for name, fields in sections.items():
            holds = msgspec.to_builtins(getattr(floor, name))
            stored = getattr(spec, name)
            kept[name] = {
                key: value
                for key, value in fields.items()
                if value is not None
                and (key in stored or key not in holds or value != _listed(holds[key]))
            }
        return _spec(spec, kept)

    return await _written(services, caller, edit, what=CHANGED)


async def pause(services: ServiceContext, caller: Caller, *, reason: str = "") -> Settings:
    """Stop every automatic action until `resume`; a second pause only changes the reason."""
    access.demand(caller.principal, "pause", "Settings")
    _short(reason)

    def edit(spec: SettingsSpec) -> SettingsSpec:
        said = reason or spec.automation.get("reason", "")
        return msgspec.structs.replace(
            spec, automation={**spec.automation, "paused": True, "reason": said}
        )

    return await _written(services, caller, edit, what="AutomationPaused", why=reason)


async def resume(services: ServiceContext, caller: Caller, *, reason: str = "") -> Settings:
    """Let automatic actions go on; pools with a pause of their own stay paused."""
    access.demand(caller.principal, "pause", "Settings")
    _short(reason)

    def edit(spec: SettingsSpec) -> SettingsSpec:
        return msgspec.structs.replace(spec, automation={})

    return await _written(services, caller, edit, what="AutomationResumed", why=reason)


async def confirm_clock(services: ServiceContext, caller: Caller, *, reason: str = "") -> Settings:
    """Say that the wall clock of this server's host is right.

    Each server whose wall clock shows the same, within five minutes, follows it again.
    """
    access.demand(caller.principal, "pause", "Settings")
    _short(reason)

    async def attempt() -> Settings:
        check = services.clock_check
        at = services.clock.now() if check is None else check.host_now()
        old = await services.objects.find(REF)
        base = old or Settings(metadata=Metadata(name=NAME))
        marks = {**base.metadata.annotations, CONFIRMED_MARK: format_instant(at)}
        metadata = msgspec.structs.replace(base.metadata, annotations=marks)
        new = msgspec.structs.replace(base, metadata=metadata)
        if old is None:
            return await _first(services, caller, new, "ClockConfirmed", reason)
        cause = services.cause(caller, settings_rules.worded("ClockConfirmed", (), reason))
        _, stored = await services.objects.save(new, cause=cause)
        return stored[0]  # type: ignore[return-value]  # save returns what it was given

    made = await retried(attempt)
    if services.clock_check is not None:
        await services.reached(made.revision)
        await services.clock_check.look()
    return made


async def pause_pool(
    services: ServiceContext,
    caller: Caller,
    name: str,
    namespace: str,
    *,
    paused: bool = True,
    reason: str = "",
) -> Pool:
    """Stop every automatic action on one pool and its workers, or let them go on."""
    access.demand(caller.principal, "pause", "Pool")
    _short(reason)

    async def attempt() -> Pool:
        old = await lookup.found(services, caller, Pool, name, namespace)
        marks = dict(old.metadata.annotations)
        marks.pop(PAUSED_MARK, None)
        if paused:
            said = f" by {caller.principal.name}" + (f": {reason}" if reason else "")
            marks[PAUSED_MARK] = f" since {utc_text(services.clock.now())}{said}"
        if old.spec.paused == paused and (not paused or not reason):
            return old
        metadata = msgspec.structs.replace(
            old.metadata,
            annotations=marks,
            generation=old.metadata.generation + (old.spec.paused != paused),
        )
        new = msgspec.structs.replace(with_spec(old, paused=paused), metadata=metadata)
        what = "PoolPaused" if paused else "PoolResumed"
        cause = services.cause(caller, settings_rules.worded(what, (), reason))
        _, stored = await services.objects.save(new, cause=cause)
        return stored[0]  # type: ignore[return-value]  # save returns what it was given

    return await retried(attempt)


async def _written(
    services: ServiceContext, caller: Caller, edit: Edit, *, what: str, why: str = ""
) -> Settings:
    async def attempt() -> Settings:
        old = await services.objects.find(REF)
        wanted = edit(SettingsSpec() if old is None else old.spec)
        base = old or Settings(metadata=Metadata(name=NAME))
        new = msgspec.structs.replace(base, spec=wanted)
        if old is None:
            if wanted == SettingsSpec():
                return base
            return await _first(services, caller, new, what, why)
        admitted = await settings_rules.update_settings(services, caller, old, new)
        if admitted.obj.spec == old.spec:
            return old
        metadata = msgspec.structs.replace(old.metadata, generation=old.metadata.generation + 1)
        changed = msgspec.structs.replace(admitted.obj, metadata=metadata)
        said = settings_rules.changes(services, old, new) if what == CHANGED else ()
        cause = services.cause(caller, settings_rules.worded(what, said, why))
        _, stored = await services.objects.save(changed, cause=cause)
        return stored[0]  # type: ignore[return-value]  # save returns what it was given

    return await retried(attempt)


async def _first(
    services: ServiceContext, caller: Caller, new: Settings, what: str, why: str
) -> Settings:
    """Create the settings object with the first value that is set."""
    said = settings_rules.changes(services, None, new) if what == CHANGED else ()
    reason = settings_rules.worded(what, said, why)
    try:
        return await objects.add(services, caller, new, reason=reason)
    except Refused:
        # Another writer was first: decide again on the newest version.
        raise errors.Conflict("somebody else made the settings meanwhile") from None


def _section(path: str) -> str:
    try:
        section, _ = fleet_settings.field_at(path)
    except ValueError as problem:
        raise intake.invalid((path[:80], str(problem)), reason="UnknownField") from None
    if section == "automation":
        what = "is changed by pause and resume"
        raise intake.invalid((path, what), reason="UsePause")
    return section


def _spec(spec: SettingsSpec, sections: Mapping[str, Mapping[str, Any]]) -> SettingsSpec:
    for name, fields in sections.items():
        problem = fleet_settings.section_problem(name, fields)
        if problem is not None:
            where, _, said = problem.partition(": ")
            raise intake.invalid((where, said))
    return msgspec.structs.replace(spec, **{name: dict(each) for name, each in sections.items()})


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _short(reason: str) -> None:
    if len(reason) > TEXT_LIMIT:
        raise intake.invalid(("reason", f"at most {TEXT_LIMIT} characters"))
