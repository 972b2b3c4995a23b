"""EC2 as one account sees it: zones, stock, quota, slow metal, tokens, eventual consistency.

Rules: facts/aws.md#client-token, #fault-kinds, #request-buckets. `Cloud` holds the state; one
process of the product talks to it through `ec2_client`. Each instance runs one CML server of
`cml`, which boots, stops and ends with it.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from cml_simulator.core import fleet as servers
from cml_simulator.core.profile import Machine as Hardware
from labfleet.adapters.aws import launches
from labfleet.interfaces.compute import (
    Checks,
    Image,
    Instance,
    LaunchRequest,
    Leftover,
    MetricPoint,
)
from labfleet.kernel import errors
from labfleet.rehearsal.faults import FaultInjector
from labfleet.rehearsal.time.loop import Loop
from labfleet.rehearsal.time.virtual_host import EPOCH, SeededRng
from labfleet.rehearsal.worlds.cml import CmlServers
from labfleet.rehearsal.worlds.wire import CallProfile
from labfleet.resources.machine import MachineState, ScheduledEvent
from labfleet.resources.providers.aws import AwsSettings

ZONES = ("a", "b", "c")
SHOWN_SECONDS = 3600.0
VPC = "vpc-1"
VCPUS = {"m5zn.metal": 48}
INITIALIZING_SECONDS = 60.0
CML_IMAGE = Image("ami-1", "cisco-cml2.9", None)
CALL_PROFILE = CallProfile("EC2", low=0.05, high=0.4, patience=12.0, trouble="ambiguous")
# facts/aws.md#request-buckets: action -> (most tokens, refill a second).
BUCKETS = {
    "DescribeInstances": (100.0, 20.0),
    "DescribeImages": (100.0, 20.0),
    "DescribeSubnets": (100.0, 20.0),
    "DescribeSecurityGroups": (100.0, 20.0),
    "RunInstances": (5.0, 2.0),
    "StartInstances": (5.0, 2.0),
    "StopInstances": (50.0, 5.0),
    "TerminateInstances": (100.0, 5.0),
    "GetConsoleOutput": (100.0, 20.0),
    "DescribeInstanceStatus": (100.0, 20.0),
    "DescribeVolumes": (100.0, 20.0),
    "DescribeAddresses": (100.0, 20.0),
    "CreateTags": (100.0, 10.0),
    "DeleteTags": (100.0, 10.0),
    "DeleteVolume": (100.0, 5.0),
    "ReleaseAddress": (50.0, 5.0),
    "GetMetricData": (50.0, 50.0),
}
_GONE = {"volume": "InvalidVolume.NotFound", "address": "InvalidAllocationID.NotFound"}
Listener = Callable[[str, "FakeInstance", str], None]


@dataclass(slots=True)
class FakeInstance:
    """One instance: its real state, and what readers see of it while EC2 is not consistent yet."""

    id: str
    request: LaunchRequest
    zone: str
    tags: dict[str, str]
    server_id: str
    launched: float
    visible: float
    state: MachineState = "booting"
    since: float = 0.0
    before: MachineState = "booting"
    public_ip: str | None = None
    reason: str | None = None
    stopped_at: float | None = None
    hangs: bool = False
    turn: int = 0
    system_check: str = "ok"
    instance_check: str = "ok"
    events: tuple[ScheduledEvent, ...] = ()
    console: str = ""
    told: tuple[tuple[object, ...], Instance] | None = None

    @property
    def live(self) -> bool:
        """Tell whether it costs money and can have labs."""
        return self.state not in {"ending", "gone"}


@dataclass(slots=True)
class _TokenBucket:
    most: float
    refill: float
    level: float
    at: float = 0.0


@dataclass(slots=True)
class Cloud:
    """The account: every instance ever launched, tokens, stock, quota, request buckets.

    A new instance shows after `shown_after` seconds; None draws it. A run or a test fills
    `images`, `waste` (volumes and addresses attached to nothing) and `points` (CloudWatch).
    A test may also script what EC2 refuses: `refusals` are by action ("any" for all of them),
    `stock` is how many machines of a type are left in a subnet (without an entry: enough), and
    `places` in which VPC a subnet or security group lies (without an entry: `VPC`).
    """

    loop: Loop
    rng: SeededRng
    injector: FaultInjector
    cml_servers: CmlServers
    quota: int = 100_000
    built: Callable[[LaunchRequest], Hardware] = field(default=lambda _: Hardware())
    launch_range: tuple[float, float] = (10.0, 90.0)
    start_range: tuple[float, float] = (10.0, 120.0)
    stop_range: tuple[float, float] = (20.0, 180.0)
    shown_after: float | None = None
    vms: dict[str, FakeInstance] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    bound: dict[str, LaunchRequest] = field(default_factory=dict)
    buckets: dict[str, _TokenBucket] = field(default_factory=dict)
    overdrawn: dict[str, int] = field(default_factory=dict)
    listeners: list[Listener] = field(default_factory=list)
    calls: dict[str, int] = field(default_factory=dict)
    images: list[Image] = field(default_factory=lambda: [CML_IMAGE])
    waste: list[Leftover] = field(default_factory=list)
    points: dict[str, tuple[MetricPoint, ...]] = field(default_factory=dict)
    refusals: dict[str, errors.LabfleetError] = field(default_factory=dict)
    stock: dict[tuple[str, str], int] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    _world: contextvars.Context = field(default_factory=contextvars.Context)

    # --- requests ----------------------------------------------------------------------

    def spend(self, action: str) -> None:
        """Take one request token; Throttled (and noted) when there is none left.

        Credentials that have expired are refused before anything is counted.
        """
        if self.injector.holds("credentials_expired", None):
            raise errors.Denied(f"{action}: the credentials expired", reason="ExpiredToken")
        now = self.loop.time()
        self.calls[action] = self.calls.get(action, 0) + 1
        bucket = self.buckets.get(action)
        if bucket is None:
            most, refill = BUCKETS[action]
            bucket = self.buckets[action] = _TokenBucket(most, refill, most, now)
        bucket.level = min(bucket.most, bucket.level + (now - bucket.at) * bucket.refill)
        bucket.at = now
        if bucket.level < 1:
            self.overdrawn[action] = self.overdrawn.get(action, 0) + 1
            raise errors.Throttled(f"{action}: RequestLimitExceeded")
        bucket.level -= 1
        refusal = self.refusals.get(action) or self.refusals.get("any")
        if refusal is not None:
            raise refusal

    def launch(self, request: LaunchRequest, owner: str) -> FakeInstance:
        """Start one instance, or return the one that the client token already started."""
        self.spend("RunInstances")
        zone = request.choice.get("subnet") or "any"
        key = f"{request.token}@{zone}"
        # Bound by a request that was refused, too (facts/aws-bugs.md#case-4).
        if self.bound.setdefault(key, request) != request:
            raise errors.Conflict("same token", reason="IdempotentParameterMismatch")
        known = self.tokens.get(key)
        if known is not None:
            vm = self.vms[known]
            if not vm.live:
                raise errors.Gone("token of the dead", reason="IdempotentInstanceTerminated")
            return vm
        place = (request.choice["type"], zone)
        if self.injector.holds("no_stock", zone) or self.stock.get(place, 1) <= 0:
            raise errors.OutOfCapacity(f"no {request.choice['type']} in {zone}",
                                       reason="InsufficientInstanceCapacity")  # fmt: skip
        self._within_quota(request.choice["type"])
        vm = self._made(request, zone, owner)
        if place in self.stock:
            self.stock[place] -= 1
        self.tokens[key] = vm.id
        self._tell("launched", vm, "us")
        return vm

    def start(self, instance_id: str) -> None:
        """Start a stopped instance; nothing when it starts or runs."""
        self.spend("StartInstances")
        vm = self._thing(instance_id)
        if vm.state in {"booting", "running"}:
            return
        if vm.state != "stopped":
            raise errors.Temporary("IncorrectInstanceState", reason="IncorrectInstanceState")
        if self.injector.holds("no_stock", vm.zone):
            raise errors.OutOfCapacity("no stock", reason="InsufficientInstanceCapacity")
        self.begin_start(vm)

    def stop(self, instance_id: str) -> None:
        """Stop a running instance; nothing when it stops or is stopped."""
        self.spend("StopInstances")
        vm = self._thing(instance_id)
        if vm.state in {"stopping", "stopped"}:
            return
        if vm.state != "running":
            raise errors.Temporary("IncorrectInstanceState", reason="IncorrectInstanceState")
        self.begin_stop(vm, "us")

    def terminate(self, instance_id: str) -> None:
        """End an instance; nothing when it has ended."""
        self.spend("TerminateInstances")
        vm = self._thing(instance_id)
        if vm.live:
            self.begin_end(vm, "us")

    def tag(self, instance_id: str, tags: Mapping[str, str]) -> None:
        """Set tags on an instance."""
        self.spend("CreateTags")
        vm = self._thing(instance_id)
        vm.tags |= tags
        if launches.OWNER in tags:
            self._tell("claimed", vm, "us")

    def untag(self, instance_id: str, keys: tuple[str, ...]) -> None:
        """Remove tags from an instance; those that are not there are no error."""
        self.spend("DeleteTags")
        vm = self._thing(instance_id)
        for key in keys:
            vm.tags.pop(key, None)

    def discard(self, kind: str, name: str) -> None:
        """Delete a volume or release an address."""
        self.spend("DeleteVolume" if kind == "volume" else "ReleaseAddress")
        kept = [each for each in self.waste if (each.kind, each.id) != (kind, name)]
        if len(kept) == len(self.waste):
            raise errors.Gone(f"EC2 knows no {kind} {name}", reason=_GONE[kind])
        self.waste = kept

    def foreign(
        self, image_id: str = "ami-1", tags: Mapping[str, str] | None = None
    ) -> FakeInstance:
        """Return a machine that somebody launched from the console: no tag of ours."""
        request = LaunchRequest(
            region="", token=f"console-{self.rng.getrandbits(32):08x}", worker="", worker_uid="",
            attempt=0, choice={"image": image_id, "type": "m5zn.metal"},
            settings=AwsSettings(),
        )  # fmt: skip
        vm = self._made(request, "any", "")
        vm.tags = {"Name": "by hand", **(tags or {})}
        return vm

    def _thing(self, instance_id: str) -> FakeInstance:
        vm = self.vms.get(instance_id)
        if vm is None:
            raise errors.Gone(f"EC2 knows no instance {instance_id}")
        return vm

    def _within_quota(self, kind: str) -> None:
        used = sum(
            VCPUS.get(each.request.choice["type"], 48)
            for each in self.vms.values()
            if each.state in {"booting", "running"}
        )
        if self.injector.holds("quota_full", None) or used + VCPUS.get(kind, 48) > self.quota:
            raise errors.QuotaExceeded("VcpuLimitExceeded", reason="VcpuLimitExceeded")

    def _made(self, request: LaunchRequest, zone: str, owner: str) -> FakeInstance:
        now, rng = self.loop.time(), self.rng
        late = self.injector.strikes("visible_late")
        built = self.built(request)
        server = servers.create(
            self.cml_servers.fleet,
            machine=replace(built, boot_seconds=self.cml_servers.boot_seconds()),
        )
        vm = FakeInstance(
            id=f"i-{rng.getrandbits(64):017x}",
            request=request,
            zone=zone,
            tags=launches.tags_of(request, owner),
            server_id=server.id,
            launched=now,
            visible=now + (rng.between(2.0, 45.0) if late else rng.between(0.0, 2.0)),
            since=now,
        )
        if self.shown_after is not None:
            vm.visible = now + self.shown_after
        self.vms[vm.id] = vm
        self._later(self._slow(*self.launch_range), vm, self._runs)
        return vm

    def _slow(self, low: float, high: float) -> float:
        factor = 8.0 if self.injector.holds("slow_metal", None) else 1.0
        return self.rng.between(low, high) * factor

    # --- lives -------------------------------------------------------------------------

    def put_back(self, vm: FakeInstance, seconds: float) -> None:
        """Restore a machine in a former state; a transition under way ends in `seconds`."""
        self.vms[vm.id] = vm
        if vm.state == "booting":
            self._later(seconds, vm, self._runs)
        elif vm.state == "stopping":
            self._later(seconds, vm, lambda each: self._set(each, "stopped"))
        elif vm.state == "ending":
            self._later(seconds, vm, lambda each: self._set(each, "gone"))

    def _later(self, delay: float, vm: FakeInstance, then: Callable[[FakeInstance], None]) -> None:
        vm.turn += 1
        turn = vm.turn

        def due() -> None:
            if vm.turn == turn:
                then(vm)

        self.loop.call_later(delay, due, context=self._world)

    def _set(self, vm: FakeInstance, state: MachineState) -> None:
        vm.before, vm.state, vm.since = vm.state, state, self.loop.time()

    def _runs(self, vm: FakeInstance) -> None:
        self._set(vm, "running")
        vm.public_ip = self.cml_servers.boot(vm.server_id, hangs=vm.hangs)
        vm.hangs = False

    def begin_start(self, vm: FakeInstance) -> None:
        """Begin to start a stopped instance."""
        self._within_quota(vm.request.choice["type"])
        self._set(vm, "booting")
        vm.launched, vm.stopped_at = self.loop.time(), None
        self._later(self._slow(*self.start_range), vm, self._runs)

    def begin_stop(self, vm: FakeInstance, who: str) -> None:
        """Begin to stop an instance; its server is off at once."""
        self._tell("stopping", vm, who)
        self._set(vm, "stopping")
        vm.stopped_at = self.loop.time()
        vm.public_ip = None
        self.cml_servers.stop(vm.server_id)
        self._later(self._slow(*self.stop_range), vm, lambda each: self._set(each, "stopped"))

    def begin_end(self, vm: FakeInstance, who: str, reason: str | None = None) -> None:
        """Begin the end of an instance; its server and disk are gone at once."""
        self._tell("ending", vm, who)
        self._set(vm, "ending")
        vm.stopped_at = self.loop.time()
        vm.reason = reason
        vm.public_ip = None
        self.cml_servers.destroy(vm.server_id)
        self._later(self._slow(*self.stop_range), vm, lambda each: self._set(each, "gone"))

    def _tell(self, what: str, vm: FakeInstance, who: str) -> None:
        for listener in self.listeners:
            listener(what, vm, who)

    def launched_at(self, vm: FakeInstance) -> datetime:
        """Return when an instance was last started."""
        return EPOCH + timedelta(seconds=vm.launched)

    def _when(self, at: float | None) -> datetime | None:
        return None if at is None else EPOCH + timedelta(seconds=at)

    # --- what shows --------------------------------------------------------------------

    def shown(self, vm: FakeInstance) -> Instance | None:
        """Return the instance as a reader sees it now; None when it does not show."""
        now = self.loop.time()
        if now < vm.visible:
            return None
        if vm.state == "gone" and now - vm.since > SHOWN_SECONDS:
            return None
        state = vm.state
        fresh = now - vm.since < 8.0 and vm.before != state
        if fresh and self.injector.strikes("state_stale"):
            state = vm.before
        up = state == "running"
        told = (state, vm.public_ip, vm.launched, vm.reason, vm.stopped_at)
        kept = vm.told
        if kept is not None and kept[0] == told and kept[1].tags == vm.tags:
            return kept[1]
        found = Instance(
            id=vm.id,
            state=state,
            instance_type=vm.request.choice["type"],
            image_id=vm.request.choice["image"],
            zone=vm.zone,
            public_ip=vm.public_ip if up else None,
            private_ip=None,
            launch_time=self.launched_at(vm),
            root_volume_id=f"vol-{vm.id[2:]}",
            client_token=vm.request.token,
            state_reason=vm.reason,
            tags=dict(vm.tags),
            stopped_at=self._when(vm.stopped_at) if not up else None,
        )
        vm.told = (told, found)
        return found

    def checked(self, vm: FakeInstance) -> Checks | None:
        """Return a running instance's checks as they show; None when it does not run."""
        now = self.loop.time()
        if vm.state != "running" or now < vm.visible:
            return None
        if now - vm.since < INITIALIZING_SECONDS and vm.instance_check == "ok":
            return Checks(vm.id, "initializing", "initializing", vm.events)
        return Checks(vm.id, vm.system_check, vm.instance_check, vm.events)

    def of_worker(self, uid: str) -> list[FakeInstance]:
        """Return the live instances that carry a worker's uid, oldest first."""
        return [
            each
            for each in self.vms.values()
            if each.live and each.tags.get(launches.WORKER_UID) == uid
        ]
