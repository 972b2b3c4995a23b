"""Acts from outside the API: those of somebody at the console, another tool, or AWS itself.

Each verb acts on one instance at the simulated time of the call, or at a planned time through the
world's agenda. None of them is a call of the API: no rule, bucket or lag applies.
"""

import math
from collections.abc import Callable
from typing import Any

from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.instances import StateReason

from aws_simulator.machine import CHECKS, FATES, ScheduledEvent
from aws_simulator.world import OutsideAct, World

WARNING = 120.0
EVENT_LEAD = 14 * 86400.0
EVENT_CODES = (
    "instance-reboot",
    "instance-retirement",
    "instance-stop",
    "system-maintenance",
    "system-reboot",
)
CHECK_WORDS = ("ok", "impaired", "insufficient-data", "initializing")
ATTRIBUTES = ("instance_type", "disable_api_termination", "disable_api_stop")
LOADS = ("cpu", "network_in", "network_out")
NOTICES_KEPT = 10_000
Verb = Callable[[World, Any, dict[str, Any]], None]


def check(verb: str, fields: dict[str, Any]) -> None:
    """Raise ValueError unless a caller may ask for the verb; acts of AWS itself are not allowed."""
    if verb not in VERBS:
        raise ValueError(f"verb: one of {', '.join(sorted(VERBS))}")
    if float(fields.get("after", 0)) < 0:
        raise ValueError("after: seconds from now")


def perform(world: World, deed: OutsideAct) -> None:
    """Do an act now and journal it; a planned one that has become illegal is journaled as such."""
    instance = world.instances[deed.instance_id]
    error = ""
    try:
        {**VERBS, **OWN}[deed.verb](world, instance, deed.fields)
    except (EC2ClientError, ValueError, LookupError) as problem:
        if "at" not in deed.fields:
            raise
        error = f"{type(problem).__name__}: {problem}"
    note(world, deed, error)
    world.disturb()


def note(world: World, deed: OutsideAct, error: str = "") -> None:
    """Write an act into the journal."""
    world.journal.add(
        time=world.clock.now(),
        source="hand" if deed.verb in VERBS else "aws",
        service="ec2",
        action=deed.verb,
        region=world.instances[deed.instance_id].region_name,
        account="",
        token="",
        ids=(deed.instance_id,),
        result=(),
        status=0,
        error=error,
        fault="",
        actor=str(deed.fields.get("actor", "")),
    )


def give_fate(world: World, instance: Any, fate: str, code: str) -> None:
    """Decide how a pending instance will go on; ValueError for an unknown fate."""
    if fate not in FATES:
        raise ValueError(f"fate: one of {', '.join(FATES)}")
    machine = world.machines[instance.id]
    machine.fate = fate
    end = machine.due if machine.state == "pending" else world.clock.now()
    if fate == "stuck":
        machine.due = math.inf
    elif fate == "dies":
        world.plan(end, instance.id, "fail", {"code": code, "at": end})
    elif fate == "start_fails":
        world.plan(end, instance.id, "fall_back", {"code": code, "at": end})
    world.disturb()


def _start(_world: World, instance: Any, _fields: dict[str, Any]) -> None:
    instance.start()


def _stop(world: World, instance: Any, fields: dict[str, Any]) -> None:
    instance.stop()
    machine = world.machines[instance.id]
    if fields.get("force") and machine.state == "stopping":
        machine.due = world.clock.now()


def _terminate(_world: World, instance: Any, _fields: dict[str, Any]) -> None:
    instance.terminate()


def _tag(_world: World, instance: Any, fields: dict[str, Any]) -> None:
    instance.ec2_backend.create_tags([instance.id], dict(fields["tags"]))


def _untag(_world: World, instance: Any, fields: dict[str, Any]) -> None:
    for key in fields["keys"]:
        instance.ec2_backend.tags[instance.id].pop(key, None)


def _modify(_world: World, instance: Any, fields: dict[str, Any]) -> None:
    changes = {key: fields[key] for key in ATTRIBUTES if key in fields}
    if not changes:
        raise ValueError(f"modify: some of {', '.join(ATTRIBUTES)}")
    for key, value in changes.items():
        instance.ec2_backend.modify_instance_attribute(instance.id, key, value)


def _fail(world: World, instance: Any, fields: dict[str, Any]) -> None:
    code = str(fields.get("code") or "Server.InternalError")
    machine = world.machines[instance.id]
    if machine.state == "terminated":
        return
    instance.terminate()
    machine.due = world.clock.now()
    _reason(instance, code, f"{code}: {fields.get('message', 'launch failed')}")


def _fall_back(world: World, instance: Any, fields: dict[str, Any]) -> None:
    machine = world.machines[instance.id]
    if machine.state != "pending":
        return
    machine.fall_back(world.clock.now())
    code = str(fields.get("code") or "Server.InternalError")
    _reason(instance, code, f"{code}: Internal error on launch")


def _impair(world: World, instance: Any, _fields: dict[str, Any]) -> None:
    _checks(world, instance, {"system": "impaired", "instance": "impaired"})


def _recover(world: World, instance: Any, _fields: dict[str, Any]) -> None:
    world.machines[instance.id].checks.clear()


def _checks(world: World, instance: Any, fields: dict[str, Any]) -> None:
    words = {which: fields[which] for which in CHECKS if which in fields}
    if not words or not set(words.values()) <= set(CHECK_WORDS):
        raise ValueError(f"checks: {', '.join(CHECKS)} = one of {', '.join(CHECK_WORDS)}")
    for which, word in words.items():
        world.machines[instance.id].checks[which] = (word, world.clock.now())


def _stick(world: World, instance: Any, _fields: dict[str, Any]) -> None:
    world.machines[instance.id].due = math.inf


def _unstick(world: World, instance: Any, _fields: dict[str, Any]) -> None:
    machine = world.machines[instance.id]
    if machine.due == math.inf:
        machine.due = world.clock.now()


def _fate(world: World, instance: Any, fields: dict[str, Any]) -> None:
    give_fate(world, instance, fields["fate"], str(fields.get("code", "")))


def _load(world: World, instance: Any, fields: dict[str, Any]) -> None:
    values = {key: float(fields[key]) for key in LOADS if key in fields}
    world.machines[instance.id].loads.append((world.clock.now(), values))


def _hide(world: World, instance: Any, fields: dict[str, Any]) -> None:
    until = world.clock.now() + float(fields["seconds"])
    world.machines[instance.id].visible_at = until


def _console(world: World, instance: Any, fields: dict[str, Any]) -> None:
    world.machines[instance.id].console = str(fields["text"])


def _schedule(world: World, instance: Any, fields: dict[str, Any]) -> None:
    """Announce a maintenance `lead` seconds ahead; what it says is done when its time comes."""
    code = fields["code"]
    if code not in EVENT_CODES:
        raise ValueError(f"code: one of {', '.join(EVENT_CODES)}")
    at = world.clock.now() + float(fields.get("lead", EVENT_LEAD))
    number = world.next_number()
    event = ScheduledEvent(
        id=f"instance-event-{number:017x}",
        code=code,
        description=fields.get("description", f"The instance is scheduled for {code}"),
        not_before=at,
        not_after=at + 2 * 3600,
    )
    world.machines[instance.id].events.append(event)
    _notice(world, instance, "AWS Health Event", {"eventTypeCode": code, "startTime": at})
    world.plan(at, instance.id, "maintain", {"event": event.id, "at": at})


def _unschedule(world: World, instance: Any, _fields: dict[str, Any]) -> None:
    world.machines[instance.id].events.clear()


def _maintain(world: World, instance: Any, fields: dict[str, Any]) -> None:
    machine = world.machines[instance.id]
    event = next((each for each in machine.events if each.id == fields["event"]), None)
    if event is None:
        return
    event.done = True
    if machine.state == "running":
        if event.code in ("instance-retirement", "instance-stop"):
            instance.stop()
            _reason(instance, "Server.ScheduledStop", "Server.ScheduledStop: Stopped by AWS")
        elif event.code.endswith("reboot"):
            machine.running_since = world.clock.now()


def _interrupt(world: World, instance: Any, fields: dict[str, Any]) -> None:
    """Warn of a spot interruption; the instance goes `warning` seconds later."""
    action = fields.get("action", "terminate")
    if action not in ("stop", "terminate"):
        raise ValueError("action: stop or terminate")
    at = world.clock.now() + float(fields.get("warning", WARNING))
    detail = {"instance-action": action, "at": at}
    _notice(world, instance, "EC2 Spot Instance Interruption Warning", detail)
    world.plan(at, instance.id, "reclaim", {"action": action, "at": at})


def _reclaim(world: World, instance: Any, fields: dict[str, Any]) -> None:
    state = world.machines[instance.id].state
    if fields["action"] == "stop" and state == "running":
        instance.stop()
        _reason(instance, "Server.SpotInstanceShutdown", "Spot instance shutdown")
    elif fields["action"] == "terminate" and state not in ("shutting-down", "terminated"):
        instance.terminate()
        _reason(instance, "Server.SpotInstanceTermination", "Spot instance termination")


def _reason(instance: Any, code: str, message: str) -> None:
    instance.state_reason = StateReason(message, code)
    instance._reason = message


def _notice(world: World, instance: Any, kind: str, detail: dict[str, Any]) -> None:
    """Keep what EventBridge would carry; readers ask `/_control/notices`."""
    notice = {"time": world.clock.now(), "detail-type": kind, "region": instance.region_name}
    world.notices.append({**notice, "detail": {"instance-id": instance.id, **detail}})
    del world.notices[:-NOTICES_KEPT]


VERBS: dict[str, Verb] = {
    "start": _start,
    "stop": _stop,
    "terminate": _terminate,
    "tag": _tag,
    "untag": _untag,
    "modify": _modify,
    "fail": _fail,
    "impair": _impair,
    "recover": _recover,
    "checks": _checks,
    "stick": _stick,
    "unstick": _unstick,
    "fate": _fate,
    "load": _load,
    "hide": _hide,
    "console": _console,
    "schedule": _schedule,
    "unschedule": _unschedule,
    "interrupt": _interrupt,
}
OWN: dict[str, Verb] = {"fall_back": _fall_back, "maintain": _maintain, "reclaim": _reclaim}
