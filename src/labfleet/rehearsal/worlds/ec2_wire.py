"""EC2, wire fidelity: the world's answers as EC2's XML, for the real adapter in virtual time.

Only the seven actions that the adapter sends. `Wires` is the runner of the adapter's blocking
calls: it decides what befalls the request, lets virtual time pass, and runs the call at the far
side, where `Face.answer` (the SDK's before-send hook) has the effect and writes the reply.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from xml.sax.saxutils import escape

from labfleet.adapters.aws import inline
from labfleet.adapters.aws.clients import Clients, Credentials
from labfleet.adapters.aws.compute import Ec2
from labfleet.adapters.aws.launches import ATTEMPT, OWNER, POOL, PREFIX, WORKER, WORKER_UID
from labfleet.interfaces.compute import Instance, LaunchRequest
from labfleet.kernel import errors
from labfleet.rehearsal.dice import Dice
from labfleet.rehearsal.faults import Luck
from labfleet.rehearsal.loop import Loop
from labfleet.rehearsal.worlds.ec2 import MANNERS, Cloud
from labfleet.rehearsal.worlds.wire import BEFORE, CHANGES
from labfleet.resources.machine import AwsSettings

T = TypeVar("T")
Form = dict[str, str]
CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64,
         "stopped": 80}  # fmt: skip
ROOT = "/dev/sda1"
IMAGE = "ami-1"
SPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"
LOOKS = ("DescribeInstances", "DescribeImages", "GetConsoleOutput")
LISTED = 1000


class Face:
    """What stands between the SDK and the world: forms in, XML out."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.fate: str | None = None
        self.calls = 0
        self._actions: dict[str, Callable[[Form], str]] = {
            "RunInstances": self._run,
            "DescribeInstances": self._describe,
            "DescribeImages": self._images,
            "StartInstances": self._start,
            "StopInstances": self._stop,
            "TerminateInstances": self._terminate,
            "GetConsoleOutput": self._console,
        }

    def answer(self, request: Any) -> inline.Answer:
        """Answer a prepared request, as its fate wants it."""
        self.calls += 1
        form = inline.parameters(request)
        kind, _, sort = (self.fate or "").partition("/")
        if kind == "call_refused":
            raise inline.lost("connect_timeout" if sort == "1" else "no_connection")
        if kind == "call_lost_before":
            raise inline.lost("closed" if sort == "1" else "read_timeout")
        if kind == "call_throttle":
            return refused(503, "RequestLimitExceeded", "Request limit exceeded.")
        if kind == "call_error":
            return refused(500, "InternalError", "An internal error has occurred")
        reply = self._reply(form)
        if kind == "call_lost_after":
            raise inline.lost("closed" if sort == "1" else "read_timeout")
        return reply

    def _reply(self, form: Form) -> inline.Answer:
        action = form["Action"]
        try:
            inner = self._actions[action](form)
        except errors.LabfleetError as problem:
            return refused(*code_of(problem), problem.message)
        text = (
            f'<{action}Response xmlns="{SPACE}"><requestId>r</requestId>{inner}</{action}Response>'
        )
        return inline.Answer(200, text.encode())

    def _run(self, form: Form) -> str:
        request, owner = launch_of(form)
        thing = self.cloud.launch(request, owner)
        shown = Instance(
            id=thing.id,
            state=thing.state,
            instance_type=request.instance_type,
            image_id=request.image_id,
            zone=thing.zone,
            launch_time=self.cloud.launched_at(thing),
            client_token=request.token,
            tags=dict(thing.tags),
        )
        return f"<instancesSet>{instance(shown)}</instancesSet>"

    def _describe(self, form: Form) -> str:
        self.cloud.spend("DescribeInstances")
        shown = [each for each in map(self.cloud.shown, self.cloud.things.values()) if each]
        asked = listed(form, "InstanceId")
        for name in asked:
            if all(each.id != name for each in shown):
                raise errors.Gone(f"The instance ID '{name}' does not exist")
        wanted = filters(form)
        found = [
            each
            for each in shown
            if (not asked or each.id in asked)
            and all(_value(each, name) in values for name, values in wanted.items())
        ]
        first, most = int(form.get("NextToken", 0)), int(form.get("MaxResults", LISTED))
        rows = "".join(
            f"<item><reservationId>r</reservationId><instancesSet>{instance(each)}"
            "</instancesSet></item>"
            for each in found[first : first + most]
        )
        more = f"<nextToken>{first + most}</nextToken>" if len(found) > first + most else ""
        return f"<reservationSet>{rows}</reservationSet>{more}"

    def _images(self, form: Form) -> str:
        self.cloud.spend("DescribeImages")
        name = (listed(form, "ImageId") or [IMAGE])[0]
        return (
            f"<imagesSet><item><imageId>{escape(name)}</imageId><name>cisco-cml2.9</name>"
            f"<rootDeviceName>{ROOT}</rootDeviceName></item></imagesSet>"
        )

    def _start(self, form: Form) -> str:
        self.cloud.start(form["InstanceId.1"])
        return "<instancesSet/>"

    def _stop(self, form: Form) -> str:
        self.cloud.stop(form["InstanceId.1"])
        return "<instancesSet/>"

    def _terminate(self, form: Form) -> str:
        self.cloud.terminate(form["InstanceId.1"])
        return "<instancesSet/>"

    def _console(self, form: Form) -> str:
        self.cloud.spend("GetConsoleOutput")
        return f"<instanceId>{escape(form['InstanceId'])}</instanceId><output/>"


class Plug:
    """The SDK's clients and the face that they talk to now.

    Making them takes a second, so all runs of this thread share them: a call is over before
    another run can begin.
    """

    def __init__(self) -> None:
        self.face: Face | None = None
        self.clients = Clients(
            credentials=Credentials("rehearsal", "rehearsal"),
            before_send=self._answer,
            retries={"read": ("standard", 1), "launch": ("standard", 1), "end": ("standard", 1)},
        )

    def _answer(self, request: Any) -> inline.Answer:
        if self.face is None:
            raise inline.lost("no_connection")
        return self.face.answer(request)


@functools.cache
def plug() -> Plug:
    """Return the one plug."""
    return Plug()


class Wires:
    """Runs the adapter's calls at the far side, each with latency and a fate of its own."""

    def __init__(
        self, loop: Loop, dice: Dice, luck: Luck, face: Face, *, rate: float = 1.0
    ) -> None:
        self._loop = loop
        self._dice = dice
        self._luck = luck
        self._face = face
        self._rate = rate
        self._world = contextvars.Context()
        self._plug = plug()

    def compute(self, owner: str) -> Ec2:
        """Return the real adapter of one process."""
        return Ec2(owner=owner, clients=self._plug.clients, runner=self)

    async def run(self, call: Callable[[], T]) -> T:
        """Run a call at the far side and give back what it returns or raises."""
        dice, luck = self._dice, self._luck
        if luck.holds("ec2_down", None):
            await asyncio.sleep(5.0)
            raise inline.lost("connect_timeout")
        # What kind of call it is shows only in its request: all are struck alike.
        times = CHANGES / 4
        fate = luck.first((*BEFORE, "call_lost_after"), times)
        there = dice.between(MANNERS.low, MANNERS.high) * self._rate
        patience = 0.0
        if luck.strikes("call_slow"):
            there += dice.between(1.0, MANNERS.patience)
        if luck.strikes("call_late", times):
            fate = fate or "call_lost_after"
            there += dice.between(MANNERS.patience, MANNERS.patience * 1.2)
        sort = "" if fate is None else f"{fate}/{dice.below(2)}"
        if sort in {"call_lost_before/0", "call_lost_after/0", "call_refused/1"}:
            patience = MANNERS.patience
        answer: asyncio.Future[T] = self._loop.create_future()
        self._loop.call_later(
            there, self._arrive, call, sort, patience - there, answer, context=self._world
        )
        return await answer

    def close(self) -> None:
        """Nothing to let go of."""

    def _arrive(
        self, call: Callable[[], T], fate: str, wait: float, answer: asyncio.Future[T]
    ) -> None:
        """Have the effect now, whoever waits, and send back what came of it."""
        self._face.fate = fate
        self._plug.face = self._face
        back = self._dice.between(MANNERS.low, MANNERS.high) * self._rate
        deliver: Callable[[], None]
        try:
            result = call()
        except Exception as problem:  # noqa: BLE001 - the SDK's errors belong to the adapter
            error = problem
            deliver = lambda: None if answer.done() else answer.set_exception(error)  # noqa: E731
        else:
            deliver = lambda: None if answer.done() else answer.set_result(result)  # noqa: E731
        finally:
            self._face.fate = None
        self._loop.call_later(max(back, wait), deliver, context=self._world)


# --- forms and XML -----------------------------------------------------------------------------


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
    if isinstance(problem, errors.Gone):
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


def launch_of(form: Form) -> tuple[LaunchRequest, str]:
    """Return the launch request that a form came from, and its owner."""
    tags: dict[str, str] = {}
    while (key := form.get(f"TagSpecification.1.Tag.{len(tags) + 1}.Key")) is not None:
        tags[key] = form[f"TagSpecification.1.Tag.{len(tags) + 1}.Value"]
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
    request = LaunchRequest(
        region="",
        token=form["ClientToken"],
        worker=tags[WORKER],
        worker_uid=tags[WORKER_UID],
        attempt=int(tags[ATTEMPT]),
        image_id=form["ImageId"],
        instance_type=form["InstanceType"],
        subnet_id=form.get("NetworkInterface.1.SubnetId"),
        aws=settings,
        pool=tags.get(POOL),
    )
    return request, tags[OWNER]


def instance(shown: Instance) -> str:
    """Return one instance as EC2 describes it."""
    launched = "" if shown.launch_time is None else f"{shown.launch_time:%Y-%m-%dT%H:%M:%S.000Z}"
    disk = ""
    if shown.root_volume_id is not None:
        disk = _items(
            "blockDeviceMapping",
            [
                f"<deviceName>{ROOT}</deviceName><ebs><volumeId>{shown.root_volume_id}</volumeId></ebs>"
            ],
        )
    reason = shown.state_reason
    tags = [
        f"<key>{escape(key)}</key><value>{escape(value)}</value>"
        for key, value in shown.tags.items()
    ]
    return (
        f"<item><instanceId>{shown.id}</instanceId><instanceState><code>{CODES[shown.state]}</code>"
        f"<name>{shown.state}</name></instanceState>"
        + _given("imageId", shown.image_id)
        + _given("instanceType", shown.instance_type)
        + _given("ipAddress", shown.public_ip)
        + _given("launchTime", launched)
        + _given("clientToken", shown.client_token)
        + f"<placement><availabilityZone>{shown.zone}</availabilityZone></placement>"
        + (f"<stateReason><message>{escape(reason)}</message></stateReason>" if reason else "")
        + f"<rootDeviceName>{ROOT}</rootDeviceName>{disk}{_items('tagSet', tags)}</item>"
    )


def _given(name: str, value: str | None) -> str:
    return f"<{name}>{escape(value)}</{name}>" if value else ""


def _items(name: str, inner: Iterable[str]) -> str:
    return f"<{name}>" + "".join(f"<item>{each}</item>" for each in inner) + f"</{name}>"


def _value(shown: Instance, name: str) -> str | None:
    if name.startswith("tag:"):
        return shown.tags.get(name.removeprefix("tag:"))
    return {"client-token": shown.client_token, "instance-state-name": shown.state}[name]
