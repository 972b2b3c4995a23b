"""EC2 over its wire format ("wire"): answers as XML, for the real adapter in virtual time.

Only the actions that the adapter sends; forms and XML are in `ec2_forms`. `Wires` is the runner of
the adapter's blocking calls: it draws the request's fault, lets virtual time pass, and then runs
the call. In it `XmlEndpoint.answer` (the SDK's before-send hook) makes the effect happen and
writes the reply.
"""

from __future__ import annotations

import asyncio
import base64
import contextvars
import functools
from collections.abc import Callable
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, TypeVar
from xml.sax.saxutils import escape

from labfleet.adapters.aws import inline
from labfleet.adapters.aws.clients import Clients, Credentials
from labfleet.adapters.aws.compute import Ec2
from labfleet.interfaces.compute import Image, Instance, MetricPoint
from labfleet.kernel import errors
from labfleet.rehearsal.faults import FaultInjector
from labfleet.rehearsal.time.loop import Loop
from labfleet.rehearsal.time.virtual_host import SeededRng
from labfleet.rehearsal.worlds.ec2 import CALL_PROFILE, CML_IMAGE, VPC, Cloud
from labfleet.rehearsal.worlds.ec2_forms import (
    Form,
    code_of,
    filters,
    image,
    instance,
    launch_of,
    leftover,
    listed,
    matches,
    refused,
    status,
    tags_of,
)
from labfleet.rehearsal.worlds.wire import BEFORE, CHANGES

T = TypeVar("T")
SPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"
LISTED = 1000
FIELDS = {
    "CPUUtilization": "cpu_percent",
    "NetworkIn": "network_in_bytes",
    "NetworkOut": "network_out_bytes",
}


class XmlEndpoint:
    """What stands between the SDK and the world: forms in, XML out."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.fate: str | None = None
        self.calls = 0
        self._actions: dict[str, Callable[[Form], str]] = {
            "RunInstances": self._run,
            "DescribeInstances": self._describe,
            "DescribeImages": self._images,
            "DescribeSubnets": lambda form: self._placed(form, "subnet-id", "subnet"),
            "DescribeSecurityGroups": lambda form: self._placed(form, "group-id", "securityGroup"),
            "StartInstances": self._start,
            "StopInstances": self._stop,
            "TerminateInstances": self._terminate,
            "GetConsoleOutput": self._console,
            "DescribeInstanceStatus": self._checks,
            "CreateTags": self._tag,
            "DeleteTags": self._untag,
            "DescribeVolumes": lambda form: self._waste(form, "volume"),
            "DescribeAddresses": lambda form: self._waste(form, "address"),
            "DeleteVolume": lambda form: self._discard("volume", form["VolumeId"]),
            "ReleaseAddress": lambda form: self._discard("address", form["AllocationId"]),
        }

    def answer(self, request: Any) -> inline.Answer:
        """Answer a prepared request, with the fault that was drawn for it."""
        self.calls += 1
        kind, _, sort = (self.fate or "").partition("/")
        if kind == "call_refused":
            raise inline.lost("connect_timeout" if sort == "1" else "no_connection")
        if kind == "call_lost_before":
            raise inline.lost("closed" if sort == "1" else "read_timeout")
        if kind == "call_throttle":
            return refused(503, "RequestLimitExceeded", "Request limit exceeded.")
        if kind == "call_error":
            return refused(500, "InternalError", "An internal error has occurred")
        told = inline.document(request)
        if told is not None:
            return inline.data(self._metrics(told))
        reply = self._reply(inline.parameters(request))
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
        vm = self.cloud.launch(request, owner)
        shown = Instance(
            id=vm.id,
            state=vm.state,
            instance_type=request.choice["type"],
            image_id=request.choice["image"],
            zone=vm.zone,
            launch_time=self.cloud.launched_at(vm),
            client_token=request.token,
            tags=dict(vm.tags),
        )
        return f"<instancesSet>{instance(shown)}</instancesSet>"

    def _describe(self, form: Form) -> str:
        self.cloud.spend("DescribeInstances")
        shown = [each for each in map(self.cloud.shown, self.cloud.vms.values()) if each]
        asked = listed(form, "InstanceId")
        for name in asked:
            if all(each.id != name for each in shown):
                raise errors.Gone(f"The instance ID '{name}' does not exist")
        wanted = filters(form)
        found = [
            each for each in shown if (not asked or each.id in asked) and matches(each, wanted)
        ]
        if found and "NextToken" not in form and self.cloud.injector.strikes("page_partial"):
            # A page may be empty and yet have a next one (facts/aws.md#call-limits).
            return "<reservationSet/><nextToken>0</nextToken>"
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
        asked = listed(form, "ImageId")
        patterns = filters(form).get("name", [])
        found = [Image(name, CML_IMAGE.name, None) for name in asked] or [
            each
            for each in self.cloud.images
            if any(fnmatchcase(each.name, pattern) for pattern in patterns)
        ]
        return f"<imagesSet>{''.join(map(image, found))}</imagesSet>"

    def _placed(self, form: Form, wanted: str, what: str) -> str:
        """Say in which VPC subnets or groups lie; what nobody placed lies in the default one."""
        self.cloud.spend(form["Action"])
        places = self.cloud.places
        name, listed_as = ("groupId", "Info") if wanted == "group-id" else ("subnetId", "Set")
        rows = "".join(
            f"<item><{name}>{each}</{name}><vpcId>{places.get(each, VPC)}</vpcId></item>"
            for each in filters(form).get(wanted, [])
        )
        return f"<{what}{listed_as}>{rows}</{what}{listed_as}>"

    def _checks(self, form: Form) -> str:
        self.cloud.spend("DescribeInstanceStatus")
        ((name, values),) = filters(form).items()
        rows = []
        for each in filter(None, map(self.cloud.checked, self.cloud.vms.values())):
            told: dict[str, set[str | None]] = {
                "instance-status.status": {each.instance},
                "system-status.status": {each.system},
                "event.code": {event.code for event in each.events},
            }
            if told[name] & set(values):
                rows.append(status(each))
        return f"<instanceStatusSet>{''.join(rows)}</instanceStatusSet>"

    def _tag(self, form: Form) -> str:
        self.cloud.tag(form["ResourceId.1"], tags_of(form, "Tag"))
        return "<return>true</return>"

    def _untag(self, form: Form) -> str:
        self.cloud.untag(form["ResourceId.1"], tuple(tags_of(form, "Tag")))
        return "<return>true</return>"

    def _waste(self, form: Form, kind: str) -> str:
        self.cloud.spend("DescribeVolumes" if kind == "volume" else "DescribeAddresses")
        asked = listed(form, "VolumeId" if kind == "volume" else "AllocationId")
        wanted = {
            name.removeprefix("tag:"): values
            for name, values in filters(form).items()
            if name.startswith("tag:")
        }
        found = [
            each
            for each in self.cloud.waste
            if each.kind == kind
            and (not asked or each.id in asked)
            and all(each.tags.get(name) in values for name, values in wanted.items())
        ]
        if asked and not found:
            code = "InvalidVolume.NotFound" if kind == "volume" else "InvalidAllocationID.NotFound"
            raise errors.Gone(f"EC2 knows no {kind} {asked[0]}", reason=code)
        name = "volumeSet" if kind == "volume" else "addressesSet"
        return f"<{name}>{''.join(map(leftover, found))}</{name}>"

    def _discard(self, kind: str, name: str) -> str:
        self.cloud.discard(kind, name)
        return "<return>true</return>"

    def _metrics(self, told: dict[str, Any]) -> dict[str, Any]:
        """Answer GetMetricData, which is JSON: points of the span, or an empty list."""
        self.cloud.spend("GetMetricData")
        start, end = (datetime.fromtimestamp(told[name], UTC) for name in ("StartTime", "EndTime"))
        results = []
        for query in told["MetricDataQueries"]:
            metric = query["MetricStat"]["Metric"]
            field = FIELDS[metric["MetricName"]]
            rows: list[tuple[MetricPoint, float]] = [
                (point, value)
                for point in self.cloud.points.get(metric["Dimensions"][0]["Value"], ())
                if start <= point.at < end and (value := getattr(point, field)) is not None
            ]
            results.append(
                {
                    "Id": query["Id"],
                    "StatusCode": "Complete",
                    "Timestamps": [point.at.timestamp() for point, _ in rows],
                    "Values": [value for _, value in rows],
                }
            )
        return {"MetricDataResults": results}

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
        vm = self.cloud.vms.get(form["InstanceId"])
        if vm is None:
            raise errors.Gone(f"EC2 knows no instance {form['InstanceId']}")
        text = base64.b64encode(vm.console.encode()).decode()
        return f"<instanceId>{escape(vm.id)}</instanceId><output>{text}</output>"


class SdkClients:
    """The SDK's clients and the endpoint that they talk to now.

    Making them takes a second, so all runs of this thread share them: a call is over before
    another run can begin.
    """

    def __init__(self) -> None:
        self.face: XmlEndpoint | None = None
        self.clients = Clients(
            credentials=Credentials("rehearsal", "rehearsal"),
            before_send=self._answer,
            retries={"read": ("standard", 1), "change": ("standard", 1)},
        )

    def _answer(self, request: Any) -> inline.Answer:
        if self.face is None:
            raise inline.lost("no_connection")
        return self.face.answer(request)


@functools.cache
def sdk_clients() -> SdkClients:
    """Return the one plug."""
    return SdkClients()


class Wires:
    """Runs the adapter's calls at the far side, each with latency and a fate of its own."""

    def __init__(
        self,
        loop: Loop,
        rng: SeededRng,
        injector: FaultInjector,
        face: XmlEndpoint,
        *,
        rate: float = 1.0,
    ) -> None:
        self._loop = loop
        self._rng = rng
        self._injector = injector
        self._face = face
        self._rate = rate
        self._world = contextvars.Context()
        self._plug = sdk_clients()

    def compute(self, owner: str) -> Ec2:
        """Return the real adapter of one process."""
        return Ec2(owner=owner, clients=self._plug.clients, runner=self)

    async def run(self, call: Callable[[], T], *, change: bool = False) -> T:
        """Run a call at the far side and give back what it returns or raises."""
        del change
        rng, injector = self._rng, self._injector
        if injector.holds("ec2_down", None):
            await asyncio.sleep(5.0)
            raise inline.lost("connect_timeout")
        # The kind of call is known only from its request, so all have the same risk.
        times = CHANGES / 4
        fate = injector.first((*BEFORE, "call_lost_after"), times)
        there = rng.between(CALL_PROFILE.low, CALL_PROFILE.high) * self._rate
        patience = 0.0
        if injector.strikes("call_slow"):
            there += rng.between(1.0, CALL_PROFILE.patience)
        if injector.strikes("call_late", times):
            fate = fate or "call_lost_after"
            there += rng.between(CALL_PROFILE.patience, CALL_PROFILE.patience * 1.2)
        sort = "" if fate is None else f"{fate}/{rng.below(2)}"
        if sort in {"call_lost_before/0", "call_lost_after/0", "call_refused/1"}:
            patience = CALL_PROFILE.patience
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
        """Make the effect happen now, even if the caller is gone, and send back the result."""
        self._face.fate = fate
        self._plug.face = self._face
        back = self._rng.between(CALL_PROFILE.low, CALL_PROFILE.high) * self._rate
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
