"""The mends to moto's instances: slow states, stamps, status checks, illegal verbs, visibility.

Moto keeps its classes per process, so there is one active world per process. `check` fails loudly
when a patch point has gone; the version is pinned for the same reason. Launching is in `launching`.
"""

import copy
import datetime as dt
import functools
import inspect
from typing import Any

from moto.ec2 import utils as ec2_utils
from moto.ec2.exceptions import EC2ClientError, InvalidInstanceIdError
from moto.ec2.models import amis, elastic_block_store, instances
from moto.ec2.models.iam_instance_profile import IamInstanceProfileAssociationBackend
from moto.ec2.models.instances import Instance, InstanceBackend, InstanceState, StateReason
from moto.ec2.responses import instances as responses_instances

from aws_simulator import launching
from aws_simulator.active import ORIGINALS, activate, machine_of, world
from aws_simulator.machine import CODES, IllegalStateError
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
    (InstanceBackend, "get_multi_instances_by_id", ("instance_ids",)),
    (InstanceBackend, "modify_instance_attribute", ("instance_id", "key", "value")),
    (IamInstanceProfileAssociationBackend, "associate_iam_instance_profile", ("instance_id",)),
    (responses_instances, "filter_iam_instance_profiles", ("account_id", "partition")),
    (ec2_utils, "passes_filter_dict", ("instance", "filter_dict")),
)
NAMES: tuple[tuple[Any, str], ...] = (
    (Instance, "instance_status"),
    (Instance, "system_status"),
    (Instance, "get_tags"),
    (Instance, "private_ip_address"),
    (Instance, "public_ip_address"),
    (ec2_utils, "filter_dict_attribute_mapping"),
    (instances, "utcnow"),
    (elastic_block_store, "utcnow"),
    (amis, "utcnow"),
)
EXTRA_FILTERS = {
    "client-token": "client_token",
    "instance-lifecycle": "lifecycle",
    "instance-state-code": "state_code_text",
    "reason": "state_transition_reason",
    "root-device-type": "root_device_type",
}
PASSED = {"Details": [{"Name": "reachability", "Status": "passed"}], "Status": "ok"}


class PatchPointGoneError(RuntimeError):
    """Moto has moved: a place that must be mended is not where it was."""


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


def install(new: World) -> None:
    """Make a world the active one; the first call patches moto."""
    if not ORIGINALS:
        check()
        _patch()
    activate(new)
    new.settled = settled
    new.sizes = launching.sizes


def settled(instance: Any, step: str, facts: dict[str, Any]) -> None:
    """Do moto's own bookkeeping when a state was reached or a server booted."""
    nics = list(instance.nics.values())
    if step == "boot" and facts.get("address"):
        primary = instance.nics[0]
        primary.private_ip_address = facts["address"]
        primary.private_ip_addresses = [{"Primary": True, "PrivateIpAddress": facts["address"]}]
        if primary.public_ip_auto_assign:
            primary.public_ip = facts["address"]
    if step == "stopped":
        for nic in nics:
            nic.stop()
    if step == "terminated":
        for nic in nics:
            nic.stop()
            if nic.delete_on_termination and nic.id in instance.ec2_backend.enis:
                instance.ec2_backend.enis.pop(nic.id)
        instance.teardown_defaults()
        backend = instance.ec2_backend
        association = backend.iam_instance_profile_associations.get(instance.id)
        if association is not None:
            backend.disassociate_iam_instance_profile(association_id=association.association_id)


def _patch() -> None:
    for name in ("__init__", "get_tags"):
        ORIGINALS[name] = getattr(Instance, name)
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
    patched.get_tags = _get_tags
    patched.instance_status = patched.system_status = property(_status)
    patched.public_ip_address = property(functools.partial(_address, "public_ip"))
    patched.private_ip_address = property(functools.partial(_address, "private_ip_address"))
    backend: Any = InstanceBackend
    backend.all_reservations = _all_reservations
    backend.run_instances = launching.run_instances
    patched.add_block_device = launching.add_block_device
    profiles.associate_iam_instance_profile = launching.associate_profile
    responses.filter_iam_instance_profiles = launching.find_profile
    backend.start_instances = _start_instances
    backend.stop_instances = _stop_instances
    backend.terminate_instances = _terminate_instances
    backend.modify_instance_attribute = _modify_attribute
    ec2_utils.filter_dict_attribute_mapping.update(EXTRA_FILTERS)
    ec2_utils.passes_filter_dict = _passes_filters
    for module in (instances, elastic_block_store, amis):
        vars(module)["utcnow"] = _utcnow


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
        for nic in self.nics.values():
            if world().cml is None:
                nic.start()
        self.launch_time = world().clock.utc()
        self._reason, self.state_reason = "", StateReason()
    return before


def _stop(self: Any) -> InstanceState:
    before, machine, now = _true_state(self), world().machines[self.id], world().clock.now()
    force = world().request.form.get("Force") == "true"
    lasts = world().lasts(self, "stopping")
    if _checked(self, lambda: machine.stop(now, lasts, force=force)):
        _user_reason(self, "Client.UserInitiatedShutdown")
    return before


def _terminate(self: Any) -> InstanceState:
    before, machine, now = _true_state(self), world().machines[self.id], world().clock.now()
    if machine.terminate(now, world().lasts(self, "terminating")):
        _user_reason(self, "Client.UserInitiatedShutdown")
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
    machine = machine_of(self)
    if machine and world().reading and world().clock.now() < machine.tags_visible_at:
        return []
    tags: list[dict[str, str]] = ORIGINALS["get_tags"](self)
    return tags


def _status(self: Any) -> dict[str, Any]:
    machine = world().machines[self.id]
    if machine.state != "running" or machine.running_since is None:
        return {"Status": "not-applicable"}
    if machine.impaired:
        return {"Details": [{"Name": "reachability", "Status": "failed"}], "Status": "impaired"}
    up = world().clock.now() - machine.running_since
    if up < world().config.times_for(self.instance_type).status:
        return {
            "Details": [{"Name": "reachability", "Status": "initializing"}],
            "Status": "initializing",
        }
    return PASSED


def _address(which: str, self: Any) -> str | None:
    machine = machine_of(self)
    if machine and world().reading and world().clock.now() < machine.addresses_visible_at:
        return None
    found = getattr(self.nics[0], which) if self.nics else None
    return str(found) if found else None


def _all_reservations(self: Any, filters: Any = None) -> list[Any]:
    now, keep = world().clock.now(), world().config.terminated_visible
    shown = []
    for reservation in list(self.reservations.values()):
        visible = [item for item in reservation.instances if _visible(item, now, keep)]
        if visible:
            clone = copy.copy(reservation)
            clone.instances = visible
            shown.append(clone)
    if filters is not None:
        return list(ec2_utils.filter_reservations(shown, filters))
    return shown


def _visible(instance: Any, now: float, keep: float) -> bool:
    machine = machine_of(instance)
    if machine is None or not world().reading:
        return True
    if machine.terminated_at is not None and now - machine.terminated_at >= keep:
        return False
    return now >= machine.visible_at


def _start_instances(self: Any, instance_ids: list[str]) -> list[Any]:
    found = self.get_multi_instances_by_id(instance_ids)
    _check_all(found, ("stopped", "running", "pending"))
    waking = [item for item in found if world().machines[item.id].state == "stopped"]
    launching.check_quota(self, [item.instance_type for item in waking])
    launching.check_stock_to_start(waking)
    return [(item, item.start()) for item in found]


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
    for item in found:
        if item.disable_api_termination is True:
            raise EC2ClientError("OperationNotPermitted", f"'{item.id}' may not be terminated.")
    return [(item, item.terminate()) for item in found]


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
