"""Corrections to moto's instances: slow states, stamps, status checks, illegal verbs, visibility.

Moto keeps its classes per process, so there is one active world per process. `check` fails loudly
when a patch point has gone; the version is pinned for the same reason. Launching is in `launching`.
"""

import copy
import datetime as dt
import functools
import inspect
from typing import Any

from moto.cloudwatch import models as cloudwatch_models
from moto.cloudwatch.responses import CloudWatchResponse
from moto.core import responses as core_responses
from moto.core import utils as core_utils
from moto.ec2 import utils as ec2_utils
from moto.ec2.exceptions import EC2ClientError, InvalidInstanceIdError
from moto.ec2.models import amis, elastic_block_store, instances
from moto.ec2.models import elastic_network_interfaces as interfaces
from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.models.elastic_block_store import EBSBackend
from moto.ec2.models.elastic_network_interfaces import NetworkInterface
from moto.ec2.models.iam_instance_profile import IamInstanceProfileAssociationBackend
from moto.ec2.models.instances import Instance, InstanceBackend, InstanceState, StateReason
from moto.ec2.models.spot_requests import SpotInstanceRequest
from moto.ec2.models.subnets import Subnet
from moto.ec2.models.tags import TagBackend
from moto.ec2.responses import EC2Response
from moto.ec2.responses import instances as responses_instances

from aws_simulator import (
    addresses,
    attachments,
    launching,
    meter,
    metrics,
    outside_acts,
    paging,
    spot,
)
from aws_simulator.active import ORIGINALS, activate, machine_of, world
from aws_simulator.machine import CODES, IllegalStateError
from aws_simulator.seen import shown_tags
from aws_simulator.world import World

POINTS: tuple[tuple[Any, str, tuple[str, ...]], ...] = (
    (Instance, "__init__", ("ec2_backend", "image_id", "user_data", "security_groups")),
    (Instance, "start", ()),
    (Instance, "stop", ()),
    (Instance, "terminate", ()),
    (Instance, "reboot", ()),
    (Instance, "teardown_defaults", ()),
    (Instance, "add_block_device", ("size", "device_path", "delete_on_termination")),
    (InstanceBackend, "run_instances", ("image_id", "count", "user_data")),
    (InstanceBackend, "all_reservations", ("filters",)),
    (InstanceBackend, "start_instances", ("instance_ids",)),
    (InstanceBackend, "stop_instances", ("instance_ids",)),
    (InstanceBackend, "terminate_instances", ("instance_ids",)),
    (InstanceBackend, "get_instance", ("instance_id",)),
    (InstanceBackend, "get_instance_by_id", ("instance_id",)),
    (InstanceBackend, "get_multi_instances_by_id", ("instance_ids", "filters")),
    (InstanceBackend, "modify_instance_attribute", ("instance_id", "key", "value")),
    (IamInstanceProfileAssociationBackend, "associate_iam_instance_profile", ("instance_id",)),
    (responses_instances, "filter_iam_instance_profiles", ("account_id", "partition")),
    (ec2_utils, "passes_filter_dict", ("instance", "filter_dict")),
    (Instance, "__del__", ()),
    (TagBackend, "create_tags", ("resource_ids", "tags")),
    (TagBackend, "delete_tags", ("resource_ids", "tags")),
    (TagBackend, "describe_tags", ("filters",)),
    (CloudWatchResponse, "get_metric_data", ()),
    (CloudWatchResponse, "get_metric_statistics", ()),
    (CloudWatchResponse, "list_metrics", ()),
    (EBSBackend, "detach_volume", ("volume_id", "instance_id", "device_path")),
    (SpotInstanceRequest, "launch_instance", ()),
    (EC2Response, "serialized", ("action_result",)),
    (core_responses, "method_names_from_class", ("clazz",)),
)
NAMES: tuple[tuple[Any, str], ...] = (
    (Instance, "instance_status"),
    (Instance, "system_status"),
    (TaggedEC2Resource, "get_tags"),
    (Instance, "private_ip_address"),
    (Instance, "public_ip_address"),
    (Instance, "get_block_device_mapping"),
    (NetworkInterface, "association"),
    (Subnet, "get_available_subnet_ip"),
    (Subnet, "del_subnet_ip"),
    (ec2_utils, "filter_dict_attribute_mapping"),
    (interfaces, "random_public_ip"),
    (instances, "utcnow"),
    (elastic_block_store, "utcnow"),
    (amis, "utcnow"),
    (cloudwatch_models, "utcnow"),
)
# What is read of a live backend: it has these only when it is made.
HELD = (
    "addresses",
    "amis",
    "enis",
    "groups",
    "iam_instance_profile_associations",
    "key_pairs",
    "reservations",
    "spot_instance_requests",
    "subnets",
    "tags",
    "volumes",
)
EXTRA_FILTERS = {
    "client-token": "client_token",
    "instance-lifecycle": "lifecycle",
    "instance-state-code": "state_code_text",
    "reason": "state_transition_reason",
    "root-device-type": "root_device_type",
}


class PatchPointGoneError(RuntimeError):
    """Moto has changed: a method that must be patched is not where it was."""


def check() -> None:
    """Raise PatchPointGoneError unless every patch point has its name and its parameters."""
    for owner, name, parameters in POINTS:
        found = getattr(owner, name, None)
        if found is None:
            raise PatchPointGoneError(f"{owner.__name__}.{name} is gone")
        taken = inspect.signature(found).parameters
        missing = [parameter for parameter in parameters if parameter not in taken]
        if missing:
            raise PatchPointGoneError(f"{owner.__name__}.{name} lost {', '.join(missing)}")
    for owner, name in NAMES:
        if not hasattr(owner, name):
            raise PatchPointGoneError(f"{owner.__name__}.{name} is gone")


def check_backend(backend: Any) -> None:
    """Raise PatchPointGoneError unless a live EC2 backend holds what is read of it."""
    missing = [name for name in HELD if not hasattr(backend, name)]
    if missing:
        raise PatchPointGoneError(f"EC2Backend lost {', '.join(missing)}")


def install(new: World) -> None:
    """Make a world the active one; the first call patches moto."""
    if not ORIGINALS:
        check()
        _patch()
    activate(new)
    new.settled = settled
    new.sizes = launching.sizes
    new.perform = functools.partial(outside_acts.perform, new)


def settled(instance: Any, step: str, facts: dict[str, Any]) -> None:
    """Do moto's own bookkeeping when a state was reached or a server booted."""
    if step == "boot" and facts.get("address"):
        addresses.booted(instance, facts["address"])
    if step == "stopped":
        addresses.rest(instance)
    if step == "terminated":
        machine = world().machines[instance.id]
        machine.disks = meter.disks(instance, machine.launched, machine.terminated_at)
        addresses.release(instance)


def _patch() -> None:
    ORIGINALS["__init__"] = Instance.__init__
    for name in ("all_reservations", "run_instances", "modify_instance_attribute"):
        ORIGINALS[name] = getattr(InstanceBackend, name)
    profiles: Any = IamInstanceProfileAssociationBackend
    ORIGINALS["associate_iam_instance_profile"] = profiles.associate_iam_instance_profile
    responses: Any = responses_instances
    ORIGINALS["filter_iam_instance_profiles"] = responses.filter_iam_instance_profiles
    ORIGINALS["passes_filter_dict"] = ec2_utils.passes_filter_dict
    patched: Any = Instance
    patched.__init__ = _init
    patched._state = property(_read_state, _write_state)
    patched.state_code_text = property(lambda self: str(self._state.code))
    patched.start, patched.stop = _start, _stop
    patched.terminate, patched.reboot = _terminate, _reboot
    tagged: Any = TaggedEC2Resource
    tagged.get_tags = _get_tags
    patched.instance_status = property(functools.partial(_status, "instance"))
    patched.system_status = property(functools.partial(_status, "system"))
    patched.public_ip_address = property(functools.partial(_address, "public_ip"))
    patched.private_ip_address = property(functools.partial(_address, "private_ip_address"))
    backend: Any = InstanceBackend
    backend.all_reservations = _all_reservations
    backend.get_instance = _get_instance
    backend.get_instance_by_id = _find_instance
    backend.get_multi_instances_by_id = _get_instances
    backend.run_instances = launching.run_instances
    patched.add_block_device = launching.add_block_device
    profiles.associate_iam_instance_profile = launching.associate_profile
    responses.filter_iam_instance_profiles = launching.find_profile
    backend.start_instances = _locked(_start_instances)
    backend.stop_instances = _locked(_stop_instances)
    backend.terminate_instances = _locked(_terminate_instances)
    backend.modify_instance_attribute = _locked(_modify_attribute)
    _patch_the_rest()
    ec2_utils.filter_dict_attribute_mapping.update(EXTRA_FILTERS)
    ec2_utils.passes_filter_dict = _passes_filters
    for module in (instances, elastic_block_store, amis, cloudwatch_models):
        vars(module)["utcnow"] = _utcnow
    # Moto asks for the names of all methods of a class of hundreds at each call.
    vars(core_responses)["method_names_from_class"] = functools.cache(
        core_utils.method_names_from_class
    )
    ORIGINALS["random_public_ip"] = vars(interfaces)["random_public_ip"]
    vars(interfaces)["random_public_ip"] = _public_ip


def _patch_the_rest() -> None:
    tagging: Any = TagBackend
    for name in ("create_tags", "delete_tags"):
        ORIGINALS[name] = getattr(tagging, name)
        setattr(tagging, name, functools.partialmethod(_locked(_tagging), name))
    ORIGINALS["describe_tags"] = tagging.describe_tags
    tagging.describe_tags = _describe_tags
    watching: Any = CloudWatchResponse
    for name in ("get_metric_data", "get_metric_statistics", "list_metrics"):
        ORIGINALS[name] = getattr(watching, name)
        setattr(watching, name, getattr(metrics, name))
    for owner, name, drop_in in (
        (EBSBackend, "detach_volume", _locked(attachments.detach_volume)),
        (SpotInstanceRequest, "launch_instance", spot.launch_instance),
        (EC2Response, "serialized", paging.serialized),
    ):
        ORIGINALS[name] = getattr(owner, name)
        setattr(owner, name, drop_in)
    dying: Any = Instance
    dying.__del__ = lambda _self: None  # a snapshot that is dropped must not free live addresses


def _public_ip() -> str:
    held = [nic.public_ip for each in world().instances.values() for nic in each.nics.values()]
    return addresses.unused(ORIGINALS["random_public_ip"], set(held))


def _locked(change: Any) -> Any:
    """Let a change be made whole: checked and done before anything else happens."""

    @functools.wraps(change)
    def run(*args: Any, **kwargs: Any) -> Any:
        with world().lock:
            return change(*args, **kwargs)

    return run


def _utcnow() -> dt.datetime:
    return world().clock.utc()


def _init(self: Any, *args: Any, **kwargs: Any) -> None:
    ORIGINALS["__init__"](self, *args, **kwargs)
    world().launched(self)


def _read_state(self: Any) -> InstanceState:
    machine = machine_of(self)
    if machine is None:
        return InstanceState("pending", 0)
    lag = world().config.lags.state if world().reading else 0.0
    name = machine.seen(world().clock.now(), lag)
    return InstanceState(name, CODES[name])


def _write_state(self: Any, _value: Any) -> None:
    """Moto sets a state when it builds an instance; the machine decides instead."""


def _true_state(self: Any) -> InstanceState:
    name = world().machines[self.id].state
    return InstanceState(name, CODES[name])


def _refuse(instance_id: str, state: str) -> EC2ClientError:
    return EC2ClientError(
        "IncorrectInstanceState",
        f"The instance '{instance_id}' is not in a state from which it can do this: {state}",
    )


def _start(self: Any) -> InstanceState:
    before, machine, now = _true_state(self), world().machines[self.id], world().clock.now()
    if _checked(self, lambda: machine.start(now, world().lasts(self, "pending"))):
        if world().cml is None:
            addresses.wake(self)
        self.launch_time = world().clock.utc()
        self._reason, self.state_reason = "", StateReason()
        machine.addresses_visible_at = now + world().config.lags.addresses
        world().disturb()
    return before


def _stop(self: Any) -> InstanceState:
    before, machine, now = _true_state(self), world().machines[self.id], world().clock.now()
    force = world().request.form.get("Force") == "true"
    lasts = world().lasts(self, "stopping")
    if _checked(self, lambda: machine.stop(now, lasts, force=force)):
        _user_reason(self, "Client.UserInitiatedShutdown")
    world().disturb()
    return before


def _terminate(self: Any) -> InstanceState:
    before, machine, now = _true_state(self), world().machines[self.id], world().clock.now()
    if machine.terminate(now, world().lasts(self, "terminating")):
        _user_reason(self, "Client.UserInitiatedShutdown")
        world().disturb()
    return before


def _reboot(self: Any) -> None:
    machine = world().machines[self.id]
    if machine.state != "running":
        raise _refuse(self.id, machine.state)


def _checked(self: Any, verb: Any) -> bool:
    try:
        return bool(verb())
    except IllegalStateError as error:
        raise _refuse(self.id, str(error)) from error


def _user_reason(self: Any, code: str) -> None:
    stamp = world().clock.utc().strftime("%Y-%m-%d %H:%M:%S GMT")
    self._reason = f"User initiated ({stamp})"
    self.state_reason = StateReason(f"{code}: User initiated shutdown", code)


def _get_tags(self: Any) -> list[dict[str, str]]:
    """Return a resource's tags by its id: moto looks through those of all resources."""
    true = self.ec2_backend.tags.get(self.id, {})
    machine = world().machines.get(self.id)
    tags = true if machine is None else shown_tags(world(), machine, true, world().clock.now())
    return [
        {"key": key, "value": value, "resource_id": self.id} for key, value in dict(tags).items()
    ]


def _tagging(self: Any, name: str, resource_ids: list[str], tags: dict[str, Any]) -> Any:
    """Change tags; until the lag is over, calls that read see the ones from before."""
    now, lag = world().clock.now(), world().config.lags.tags
    before = {each: dict(self.tags.get(each, {})) for each in resource_ids}
    done = ORIGINALS[name](self, resource_ids, tags)
    for each in resource_ids if lag and world().reading else ():
        machine = world().machines.get(each)
        if machine is not None:
            if now >= machine.tags_visible_at:
                machine.old_tags = before[each]
            machine.tags_visible_at = now + lag
    return done


def _describe_tags(self: Any, filters: Any = None) -> list[dict[str, str]]:
    """List tags; until the lag is over, an instance's new and changed ones are left out."""
    found: list[dict[str, str]] = ORIGINALS["describe_tags"](self, filters)
    here, now = world(), world().clock.now()
    if not here.reading:
        return found
    return [
        tag
        for tag in found
        if (machine := here.machines.get(tag["resource_id"])) is None
        or now >= machine.tags_visible_at
        or machine.old_tags.get(tag["key"]) == tag["value"]
    ]


def _status(which: str, self: Any) -> dict[str, Any]:
    initial = world().config.times_for(self.instance_type).status
    word = world().machines[self.id].check_status(which, world().clock.now(), initial)
    if word == "not-applicable":
        return {"Status": word}
    detail = {"ok": "passed", "impaired": "failed"}.get(word, word)
    return {"Details": [{"Name": "reachability", "Status": detail}], "Status": word}


def _address(which: str, self: Any) -> str | None:
    machine = machine_of(self)
    if machine and world().reading and world().clock.now() < machine.addresses_visible_at:
        return None
    found = getattr(self.nics[0], which) if self.nics else None
    return str(found) if found else None


def _all_reservations(self: Any, filters: Any = None) -> list[Any]:
    now, shown = world().clock.now(), []
    for reservation in list(self.reservations.values()):
        visible = [item for item in reservation.instances if _visible(item, now)]
        if visible:
            clone = copy.copy(reservation)
            clone.instances = visible
            shown.append(clone)
    if filters is not None:
        return list(ec2_utils.filter_reservations(shown, filters))
    return shown


def _visible(instance: Any, now: float) -> bool:
    machine = machine_of(instance)
    if machine is None or not world().reading:
        return True
    return world().visible(machine, world().request.action, now)


def _find_instance(self: Any, instance_id: str) -> Any:
    """Return an instance by its id, or None; moto looks through all reservations."""
    found = world().instances.get(instance_id)
    if found is None or found.ec2_backend is not self:
        return None
    return found if _visible(found, world().clock.now()) else None


def _get_instance(self: Any, instance_id: str) -> Any:
    found = _find_instance(self, instance_id)
    if found is None:
        raise InvalidInstanceIdError(instance_id)
    return found


def _get_instances(self: Any, instance_ids: list[str], filters: Any = None) -> list[Any]:
    found = {each: _find_instance(self, each) for each in instance_ids}
    lost = [each for each, instance in found.items() if instance is None]
    if lost:
        raise InvalidInstanceIdError(lost)
    return [instance for instance in found.values() if instance.applies(filters)]


def _start_instances(self: Any, instance_ids: list[str]) -> list[Any]:
    found = self.get_multi_instances_by_id(instance_ids)
    _check_all(found, ("stopped", "running", "pending"))
    waking = [item for item in found if world().machines[item.id].state == "stopped"]
    launching.check_quota(self, [item.instance_type for item in waking])
    launching.check_stock_to_start(waking)
    done = [(item, item.start()) for item in found]
    launching.fated(waking)
    return done


def _stop_instances(self: Any, instance_ids: list[str]) -> list[Any]:
    found = self.get_multi_instances_by_id(instance_ids)
    _check_all(found, ("running", "stopping", "stopped"))
    for item in found:
        if item.disable_api_stop is True:
            raise EC2ClientError("OperationNotPermitted", f"'{item.id}' may not be stopped.")
    return [(item, item.stop()) for item in found]


def _terminate_instances(self: Any, instance_ids: list[str]) -> list[Any]:
    if not instance_ids:
        raise EC2ClientError("InvalidParameterCombination", "No instances specified")
    found = self.get_multi_instances_by_id(instance_ids)
    kept = [item for item in found if str(item.disable_api_termination).lower() == "true"]
    # All of a zone with a protected one is refused; what lies in other zones goes
    # (facts/aws.md#call-limits).
    zones = {item.availability_zone for item in kept}
    done = [(item, item.terminate()) for item in found if item.availability_zone not in zones]
    if kept:
        raise EC2ClientError("OperationNotPermitted", f"'{kept[0].id}' may not be terminated.")
    return done


def _check_all(found: list[Any], allowed: tuple[str, ...]) -> None:
    for item in found:
        state = world().machines[item.id].state
        if state not in allowed:
            raise _refuse(item.id, state)


def _modify_attribute(self: Any, instance_id: str, key: str, value: Any) -> Any:
    instance = self.get_instance(instance_id)
    machine = machine_of(instance)
    if machine is None:
        raise InvalidInstanceIdError(instance_id)
    if key in ("instance_type", "user_data", "kernel") and machine.state != "stopped":
        raise _refuse(instance_id, machine.state)
    return ORIGINALS["modify_instance_attribute"](self, instance_id, key, value)


def _passes_filters(instance: Any, filter_dict: dict[str, Any]) -> bool:
    try:
        return bool(ORIGINALS["passes_filter_dict"](instance, filter_dict))
    except NotImplementedError as error:
        names = ", ".join(f"'{name}'" for name in filter_dict)
        raise EC2ClientError(
            "InvalidParameterValue",
            f"One of the filters {names} is invalid or not simulated",
        ) from error
