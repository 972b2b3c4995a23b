"""Reads EC2's request forms and writes its XML for `ec2_wire`. Pure; it decides nothing."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from xml.sax.saxutils import escape

from labfleet.adapters.aws import inline, reading
from labfleet.adapters.aws.launches import ATTEMPT, OWNER, POOL, PREFIX, WORKER, WORKER_UID
from labfleet.interfaces.compute import Checks, Image, Instance, LaunchRequest, Leftover
from labfleet.kernel import errors
from labfleet.resources.providers.aws import AwsSettings

Form = dict[str, str]
WORDS = {ours: word for word, ours in reading.STATES.items()}
CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64,
         "stopped": 80}  # fmt: skip
ROOT = "/dev/sda1"


def refused(status: int, code: str, message: str) -> inline.Answer:
    """Return EC2's error body."""
    text = (
        f"<Response><Errors><Error><Code>{code}</Code><Message>{escape(message)}</Message>"
        "</Error></Errors><RequestID>r</RequestID></Response>"
    )
    return inline.Answer(status, text.encode())


def code_of(problem: errors.LabfleetError) -> tuple[int, str]:
    """Return the HTTP status and EC2's code of a refusal of the world."""
    if isinstance(problem, errors.Throttled):
        return 503, "RequestLimitExceeded"
    if isinstance(problem, errors.OutOfCapacity):
        return 500, problem.reason
    if isinstance(problem, errors.Gone) and problem.reason == "IdempotentInstanceTerminated":
        return 400, problem.reason
    if isinstance(problem, errors.Gone) and not problem.reason.startswith("Invalid"):
        return 400, "InvalidInstanceID.NotFound"
    return 400, problem.reason


def listed(form: Form, prefix: str) -> list[str]:
    """Return the values of `prefix.1`, `prefix.2` and so on."""
    found: list[str] = []
    while (value := form.get(f"{prefix}.{len(found) + 1}")) is not None:
        found.append(value)
    return found


def filters(form: Form) -> dict[str, list[str]]:
    """Return the filters by name."""
    found: dict[str, list[str]] = {}
    while (name := form.get(f"Filter.{len(found) + 1}.Name")) is not None:
        found[name] = listed(form, f"Filter.{len(found) + 1}.Value")
    return found


def tags_of(form: Form, prefix: str) -> dict[str, str]:
    """Return the tags of a form; those to be removed have no value."""
    tags: dict[str, str] = {}
    while (key := form.get(f"{prefix}.{len(tags) + 1}.Key")) is not None:
        tags[key] = form.get(f"{prefix}.{len(tags) + 1}.Value", "")
    return tags


def launch_of(form: Form) -> tuple[LaunchRequest, str]:
    """Return the launch request that a form came from, and its owner."""
    tags = tags_of(form, "TagSpecification.1.Tag")
    disk = "BlockDeviceMapping.1.Ebs"
    own = {key: value for key, value in tags.items() if not key.startswith(PREFIX)}
    own.pop("Name", None)
    settings = AwsSettings(
        tags=own,
        key_name=form.get("KeyName"),
        security_group_ids=tuple(listed(form, "NetworkInterface.1.SecurityGroupId")),
        volume_size_gib=int(form[f"{disk}.VolumeSize"]),
        volume_iops=int(form[f"{disk}.Iops"]),
    )
    choice = {"image": form["ImageId"], "type": form["InstanceType"]}
    if "NetworkInterface.1.SubnetId" in form:
        choice["subnet"] = form["NetworkInterface.1.SubnetId"]
    request = LaunchRequest(
        region="",
        token=form["ClientToken"],
        worker=tags[WORKER].replace(":", "/"),
        worker_uid=tags[WORKER_UID],
        attempt=int(tags[ATTEMPT]),
        choice=choice,
        settings=settings,
        pool=tags.get(POOL),
    )
    return request, tags[OWNER]


def instance(shown: Instance) -> str:
    """Return one instance as EC2 describes it."""
    launched = "" if shown.launch_time is None else _time(shown.launch_time)
    disk = ""
    if shown.root_volume_id is not None:
        disk = _items(
            "blockDeviceMapping",
            [
                f"<deviceName>{ROOT}</deviceName><ebs><volumeId>{shown.root_volume_id}</volumeId></ebs>"
            ],
        )
    reason = shown.state_reason
    return (
        f"<item><instanceId>{shown.id}</instanceId><instanceState><code>{CODES[WORDS[shown.state]]}</code>"
        f"<name>{WORDS[shown.state]}</name></instanceState>"
        + _given("imageId", shown.image_id)
        + _given("instanceType", shown.instance_type)
        + _given("ipAddress", shown.public_ip)
        + _given("launchTime", launched)
        + _given("clientToken", shown.client_token)
        + f"<placement><availabilityZone>{shown.zone}</availabilityZone></placement>"
        + (f"<stateReason><message>{escape(reason)}</message></stateReason>" if reason else "")
        + f"<rootDeviceName>{ROOT}</rootDeviceName>{disk}{_tags(shown.tags)}</item>"
    )


def _given(name: str, value: str | None) -> str:
    return f"<{name}>{escape(value)}</{name}>" if value else ""


def _items(name: str, inner: Iterable[str]) -> str:
    return f"<{name}>" + "".join(f"<item>{each}</item>" for each in inner) + f"</{name}>"


def image(shown: Image) -> str:
    """Return one image as EC2 describes it."""
    made = "" if shown.created is None else _time(shown.created)
    return (
        f"<item><imageId>{escape(shown.id)}</imageId><name>{escape(shown.name)}</name>"
        + _given("creationDate", made)
        + f"<rootDeviceName>{ROOT}</rootDeviceName></item>"
    )


def status(shown: Checks) -> str:
    """Return one machine's checks as EC2 tells them."""
    events = [
        _given("code", event.code)
        + _given("description", event.description)
        + _given("notBefore", "" if event.not_before is None else _time(event.not_before))
        for event in shown.events
    ]
    return (
        f"<item><instanceId>{shown.instance_id}</instanceId>"
        f"<systemStatus>{_given('status', shown.system)}</systemStatus>"
        f"<instanceStatus>{_given('status', shown.instance)}</instanceStatus>"
        + _items("eventsSet", events)
        + "</item>"
    )


def leftover(shown: Leftover) -> str:
    """Return a volume or an address that is attached to nothing."""
    if shown.kind == "address":
        return f"<item><allocationId>{shown.id}</allocationId>{_tags(shown.tags)}</item>"
    made = "" if shown.created is None else _time(shown.created)
    return (
        f"<item><volumeId>{shown.id}</volumeId><status>available</status>"
        + _given("createTime", made)
        + f"<attachmentSet/>{_tags(shown.tags)}</item>"
    )


def matches(shown: Instance, wanted: dict[str, list[str]]) -> bool:
    """Tell whether an instance passes filters."""
    return all(_value(shown, name) in values for name, values in wanted.items())


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S.000Z}"


def _tags(tags: dict[str, str]) -> str:
    return _items(
        "tagSet",
        [f"<key>{escape(key)}</key><value>{escape(value)}</value>" for key, value in tags.items()],
    )


def _value(shown: Instance, name: str) -> str | None:
    if name.startswith("tag:"):
        return shown.tags.get(name.removeprefix("tag:"))
    return {
        "client-token": shown.client_token,
        "image-id": shown.image_id,
        "instance-state-name": WORDS[shown.state],
    }[name]
