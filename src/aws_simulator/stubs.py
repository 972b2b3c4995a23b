"""Calls that moto lacks or answers with a fixed text: quota, nested virtualization, console output.

Each takes a call and returns a whole reply; Refusal for what AWS refuses.
"""

import base64
import json
from typing import Any

from aws_simulator import launching
from aws_simulator.calls import Call, Refusal, Reply
from aws_simulator.clock import naive
from aws_simulator.filters import stamp
from aws_simulator.machine import Machine
from aws_simulator.world import World

QUOTAS = {
    "L-1216C47A": "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
    "L-34B43A08": "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests",
}
NO_LIMIT = 100_000.0
CONSOLE_LIMIT = 64 * 1024


def service_quotas(world: World, call: Call) -> Reply:
    """Answer GetServiceQuota, ListServiceQuotas and their defaults for EC2."""
    if call.form.get("ServiceCode") != "ec2":
        raise Refusal(400, "NoSuchResourceException", "Only the quotas of ec2 are simulated")
    if call.action in ("ListServiceQuotas", "ListAWSDefaultServiceQuotas"):
        return _json({"Quotas": [_quota(world, call, code) for code in QUOTAS]})
    if call.action in ("GetServiceQuota", "GetAWSDefaultServiceQuota"):
        return _json({"Quota": _quota(world, call, call.form.get("QuotaCode", ""))})
    raise Refusal(400, "InvalidAction", f"{call.action} is not simulated")


def _quota(world: World, call: Call, code: str) -> dict[str, Any]:
    if code not in QUOTAS:
        raise Refusal(400, "NoSuchResourceException", f"There is no quota {code}")
    spot = code != "L-1216C47A"
    limit = world.config.spot_limit if spot else world.config.vcpu_limit
    return {
        "ServiceCode": "ec2",
        "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
        "QuotaArn": f"arn:aws:servicequotas:{call.region}:{call.account}:ec2/{code}",
        "QuotaCode": code,
        "QuotaName": QUOTAS[code],
        "Value": NO_LIMIT if limit is None else float(limit),
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }


def _json(data: dict[str, Any]) -> Reply:
    body = json.dumps(data).encode()
    return Reply("200 OK", [("Content-Type", "application/x-amz-json-1.1")], body)


def modify_cpu_options(world: World, call: Call) -> Reply:
    """Switch nested virtualisation of a stopped instance."""
    instance_id = call.form.get("InstanceId", "")
    with world.lock:
        machine = _machine(world, call)
        if machine.state != "stopped":
            raise Refusal(400, "IncorrectInstanceState", f"'{instance_id}' is not stopped")
        wanted = call.form.get("NestedVirtualization", "disabled")
        launching.check_nesting(world.instances[instance_id].instance_type, call.form)
        machine.nested = wanted == "enabled"
    more = f"<nestedVirtualization>{wanted}</nestedVirtualization>"
    return _xml(call, f"<instanceId>{instance_id}</instanceId>{more}")


def console_output(world: World, call: Call) -> Reply:
    """Return what an instance wrote on its console: what was set by hand, else a plain boot."""
    with world.lock:
        machine = _machine(world, call)
        text = machine.console if machine.console is not None else _boot_text(machine)
        at = stamp(naive(machine.since))
    output = base64.b64encode(text.encode()[-CONSOLE_LIMIT:]).decode()
    instance_id = call.form.get("InstanceId", "")
    shown = f"<output>{output}</output>" if output else ""
    return _xml(call, f"<instanceId>{instance_id}</instanceId><timestamp>{at}</timestamp>{shown}")


def _boot_text(machine: Machine) -> str:
    """Return the console of the boots so far; a boot that is under way has not come to a login."""
    boots = len(machine.runs) + (machine.state == "pending")
    return "".join(
        f"[    0.000000] Linux version 6.8.0 (boot {number + 1})\n"
        + ("cml login:\n" if number < len(machine.runs) else "")
        for number in range(boots)
    )


def _machine(world: World, call: Call) -> Machine:
    instance_id = call.form.get("InstanceId", "")
    machine = world.machines.get(instance_id)
    if machine is None or not world.visible(machine, call.action, world.clock.now()):
        text = f"The instance ID '{instance_id}' does not exist"
        raise Refusal(400, "InvalidInstanceID.NotFound", text)
    return machine


def _xml(call: Call, inner: str) -> Reply:
    body = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<{call.action}Response>'
        f"<requestId>simulated</requestId>{inner}</{call.action}Response>"
    )
    return Reply("200 OK", [("Content-Type", "text/xml;charset=UTF-8")], body.encode())
