"""EC2 as one account sees it: zones, stock, quota, slow metal, tokens, eventual consistency.

Rules: facts/aws.md#client-token, #fault-kinds, #request-buckets. `Cloud` is the truth; what one
process of the product talks to is `ec2_client`. An instance is a CML server of the CML world: it
boots, stops and ends with it.
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
    InstanceState,
    LaunchRequest,
    Leftover,
    MetricPoint,
)
from labfleet.kernel import errors
from labfleet.rehearsal.faults import Luck
from labfleet.rehearsal.time.dice import EPOCH, Dice
from labfleet.rehearsal.time.loop import Loop
from labfleet.rehearsal.worlds.cml import Racks
from labfleet.rehearsal.worlds.wire import Manners
from labfleet.resources.machine import AwsSettings
from labfleet.resources.worker import ScheduledEvent

ZONES = ("a", "b", "c")
SHOWN_SECONDS = 3600.0
VCPUS = {"m5zn.metal": 48}
INITIALIZING_SECONDS = 60.0
CML_IMAGE = Image("ami-1", "cisco-cml2.9", None)
MANNERS = Manners("EC2", low=0.05, high=0.4, patience=12.0, trouble="ambiguous")
# facts/aws.md#request-buckets: action -> (most tokens, refill a second).
BUCKETS = {
    "DescribeInstances": (100.0, 20.0),
    "DescribeImages": (100.0, 20.0),
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
Listener = Callable[[str, "Thing", str], None]


@dataclass(slots=True)
class Thing:
    """One instance: its truth, and what of it shows to whom."""

    id: str
    request: LaunchRequest
    zone: str
    tags: dict[str, str]
    server_id: str
    launched: float
    visible: float
    state: InstanceState = "pending"
    since: float = 0.0
    before: InstanceState = "pending"
    public_ip: str | None = None
    reason: str | None = None
    hangs: bool = False
    turn: int = 0
    system_check: str = "ok"
    instance_check: str = "ok"
    events: tuple[ScheduledEvent, ...] = ()
    console: str = ""
    told: tuple[tuple[object, ...], Instance] | None = None

    @property
    def live(self) -> bool:
        """Tell whether it costs money and holds labs."""
        return self.state not in {"shutting-down", "terminated"}


@dataclass(slots=True)
class _Bucket:
    most: float
    refill: float
    level: float
    at: float = 0.0


@dataclass(slots=True)
class Cloud:
    """The account: every instance ever launched, tokens, stock, quota, request buckets.

    A new instance shows after `shown_after` seconds; None draws it. `images`, `waste` (volumes
    and addresses attached to nothing) and `points` (CloudWatch) are what a story puts there.
    A test may also script what EC2 refuses: `refusals` are by action ("any" for all of them),
    `stock` is how many machines of a type are left in a subnet (without an entry: enough).
    """

    loop: Loop
    dice: Dice
    luck: Luck
    racks: Racks
    quota: int = 100_000
    built: Callable[[LaunchRequest], Hardware] = field(default=lambda _: Hardware())
    launch_range: tuple[float, float] = (10.0, 90.0)
    start_range: tuple[float, float] = (10.0, 120.0)
    stop_range: tuple[float, float] = (20.0, 180.0)
    shown_after: float | None = None
    things: dict[str, Thing] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    bound: dict[str, LaunchRequest] = field(default_factory=dict)
    buckets: dict[str, _Bucket] = field(default_factory=dict)
    overdrawn: dict[str, int] = field(default_factory=dict)
    listeners: list[Listener] = field(default_factory=list)
    calls: dict[str, int] = field(default_factory=dict)
    images: list[Image] = field(default_factory=lambda: [CML_IMAGE])
    waste: list[Leftover] = field(default_factory=list)
    points: dict[str, tuple[MetricPoint, ...]] = field(default_factory=dict)
    refusals: dict[str, errors.LabfleetError] = field(default_factory=dict)
    stock: dict[tuple[str, str], int] = field(default_factory=dict)
    _world: contextvars.Context = field(default_factory=contextvars.Context)

    # --- requests ----------------------------------------------------------------------

    def spend(self, action: str) -> None:
        """Take one request token; Throttled (and noted) when there is none left.

        Credentials that have expired are refused before anything is counted.
        """
        if self.luck.holds("credentials_expired", None):
            raise errors.Denied(f"{action}: the credentials expired", reason="ExpiredToken")
        now = self.loop.time()
        self.calls[action] = self.calls.get(action, 0) + 1
        bucket = self.buckets.get(action)
        if bucket is None:
            most, refill = BUCKETS[action]
            bucket = self.buckets[action] = _Bucket(most, refill, most, now)
        bucket.level = min(bucket.most, bucket.level + (now - bucket.at) * bucket.refill)
        bucket.at = now
        if bucket.level < 1:
            self.overdrawn[action] = self.overdrawn.get(action, 0) + 1
            raise errors.Throttled(f"{action}: RequestLimitExceeded")
        bucket.level -= 1
        refusal = self.refusals.get(action) or self.refusals.get("any")
        if refusal is not None:
            raise refusal

    def launch(self, request: LaunchRequest, owner: str) -> Thing:
        """Start one instance, or give the token's one again."""
        self.spend("RunInstances")
        zone = request.subnet_id or "any"
        key = f"{request.token}@{zone}"
        # Bound by a request that was refused, too (facts/aws-bugs.md#case-4).
        if self.bound.setdefault(key, request) != request:
            raise errors.Conflict("same token", reason="IdempotentParameterMismatch")
        known = self.tokens.get(key)
        if known is not None:
            thing = self.things[known]
            if not thing.live:
                raise errors.Gone("token of the dead", reason="IdempotentInstanceTerminated")
            return thing
        place = (request.instance_type, zone)
        if self.luck.holds("no_stock", zone) or self.stock.get(place, 1) <= 0:
            raise errors.OutOfCapacity(f"no {request.instance_type} in {zone}",
                                       reason="InsufficientInstanceCapacity")  # fmt: skip
        self._within_quota(request.instance_type)
        thing = self._made(request, zone, owner)
        if place in self.stock:
            self.stock[place] -= 1
        self.tokens[key] = thing.id
        self._tell("launched", thing, "us")
        return thing

    def start(self, instance_id: str) -> None:
        """Start a stopped instance; nothing when it starts or runs."""
        self.spend("StartInstances")
        thing = self._thing(instance_id)
        if thing.state in {"pending", "running"}:
            return
        if thing.state != "stopped":
            raise errors.Temporary("IncorrectInstanceState", reason="IncorrectInstanceState")
        if self.luck.holds("no_stock", thing.zone):
            raise errors.OutOfCapacity("no stock", reason="InsufficientInstanceCapacity")
        self.begin_start(thing)

    def stop(self, instance_id: str) -> None:
        """Stop a running instance; nothing when it stops or is stopped."""
        self.spend("StopInstances")
        thing = self._thing(instance_id)
        if thing.state in {"stopping", "stopped"}:
            return
        if thing.state != "running":
            raise errors.Temporary("IncorrectInstanceState", reason="IncorrectInstanceState")
        self.begin_stop(thing, "us")

    def terminate(self, instance_id: str) -> None:
        """End an instance; nothing when it has ended."""
        self.spend("TerminateInstances")
        thing = self._thing(instance_id)
        if thing.live:
            self.begin_end(thing, "us")

    def tag(self, instance_id: str, tags: Mapping[str, str]) -> None:
        """Set tags on an instance."""
        self.spend("CreateTags")
        thing = self._thing(instance_id)
        thing.tags |= tags
        if launches.OWNER in tags:
            self._tell("claimed", thing, "us")

    def untag(self, instance_id: str, keys: tuple[str, ...]) -> None:
        """Remove tags from an instance; those that are not there are no error."""
        self.spend("DeleteTags")
        thing = self._thing(instance_id)
        for key in keys:
            thing.tags.pop(key, None)

    def discard(self, kind: str, name: str) -> None:
        """Delete a volume or release an address."""
        self.spend("DeleteVolume" if kind == "volume" else "ReleaseAddress")
        kept = [each for each in self.waste if (each.kind, each.id) != (kind, name)]
        if len(kept) == len(self.waste):
            raise errors.Gone(f"EC2 knows no {kind} {name}", reason=_GONE[kind])
        self.waste = kept

    def foreign(self, image_id: str = "ami-1", tags: Mapping[str, str] | None = None) -> Thing:
        """Return a machine that somebody launched from the console: no tag of ours."""
        request = LaunchRequest(
            region="", token=f"console-{self.dice.getrandbits(32):08x}", worker="", worker_uid="",
            attempt=0, image_id=image_id, instance_type="m5zn.metal", subnet_id=None,
            aws=AwsSettings(),
        )  # fmt: skip
        thing = self._made(request, "any", "")
        thing.tags = {"Name": "by hand", **(tags or {})}
        return thing

    def _thing(self, instance_id: str) -> Thing:
        thing = self.things.get(instance_id)
        if thing is None:
            raise errors.Gone(f"EC2 knows no instance {instance_id}")
        return thing

    def _within_quota(self, kind: str) -> None:
        used = sum(
            VCPUS.get(each.request.instance_type, 48)
            for each in self.things.values()
            if each.state in {"pending", "running"}
        )
        if self.luck.holds("quota_full", None) or used + VCPUS.get(kind, 48) > self.quota:
            raise errors.QuotaExceeded("VcpuLimitExceeded", reason="VcpuLimitExceeded")

    def _made(self, request: LaunchRequest, zone: str, owner: str) -> Thing:
        now, dice = self.loop.time(), self.dice
        late = self.luck.strikes("visible_late")
        built = self.built(request)
        server = servers.create(
            self.racks.fleet, machine=replace(built, boot_seconds=self.racks.boot_seconds())
        )
        thing = Thing(
            id=f"i-{dice.getrandbits(64):017x}",
            request=request,
            zone=zone,
            tags=launches.tags_of(request, owner),
            server_id=server.id,
            launched=now,
            visible=now + (dice.between(2.0, 45.0) if late else dice.between(0.0, 2.0)),
            since=now,
        )
        if self.shown_after is not None:
            thing.visible = now + self.shown_after
        self.things[thing.id] = thing
        self._later(self._slow(*self.launch_range), thing, self._runs)
        return thing

    def _slow(self, low: float, high: float) -> float:
        factor = 8.0 if self.luck.holds("slow_metal", None) else 1.0
        return self.dice.between(low, high) * factor

    # --- lives -------------------------------------------------------------------------

    def put_back(self, thing: Thing, seconds: float) -> None:
        """Take in a machine as it once stood; what it was in the middle of ends in `seconds`."""
        self.things[thing.id] = thing
        if thing.state == "pending":
            self._later(seconds, thing, self._runs)
        elif thing.state == "stopping":
            self._later(seconds, thing, lambda each: self._set(each, "stopped"))
        elif thing.state == "shutting-down":
            self._later(seconds, thing, lambda each: self._set(each, "terminated"))

    def _later(self, delay: float, thing: Thing, then: Callable[[Thing], None]) -> None:
        thing.turn += 1
        turn = thing.turn

        def due() -> None:
            if thing.turn == turn:
                then(thing)

        self.loop.call_later(delay, due, context=self._world)

    def _set(self, thing: Thing, state: InstanceState) -> None:
        thing.before, thing.state, thing.since = thing.state, state, self.loop.time()

    def _runs(self, thing: Thing) -> None:
        self._set(thing, "running")
        thing.public_ip = self.racks.boot(thing.server_id, hangs=thing.hangs)
        thing.hangs = False

    def begin_start(self, thing: Thing) -> None:
        """Begin to start a stopped instance."""
        self._within_quota(thing.request.instance_type)
        self._set(thing, "pending")
        thing.launched = self.loop.time()
        self._later(self._slow(*self.start_range), thing, self._runs)

    def begin_stop(self, thing: Thing, who: str) -> None:
        """Begin to stop an instance; its server is off at once."""
        self._tell("stopping", thing, who)
        self._set(thing, "stopping")
        thing.public_ip = None
        self.racks.stop(thing.server_id)
        self._later(self._slow(*self.stop_range), thing, lambda each: self._set(each, "stopped"))

    def begin_end(self, thing: Thing, who: str, reason: str | None = None) -> None:
        """Begin the end of an instance; its server and disk are gone at once."""
        self._tell("ending", thing, who)
        self._set(thing, "shutting-down")
        thing.reason = reason
        thing.public_ip = None
        self.racks.destroy(thing.server_id)
        self._later(self._slow(*self.stop_range), thing, lambda each: self._set(each, "terminated"))

    def _tell(self, what: str, thing: Thing, who: str) -> None:
        for listener in self.listeners:
            listener(what, thing, who)

    def launched_at(self, thing: Thing) -> datetime:
        """Return when an instance was last started."""
        return EPOCH + timedelta(seconds=thing.launched)

    # --- what shows --------------------------------------------------------------------

    def shown(self, thing: Thing) -> Instance | None:
        """Return the instance as a reader sees it now; None when it does not show."""
        now = self.loop.time()
        if now < thing.visible:
            return None
        if thing.state == "terminated" and now - thing.since > SHOWN_SECONDS:
            return None
        state = thing.state
        fresh = now - thing.since < 8.0 and thing.before != state
        if fresh and self.luck.strikes("state_stale"):
            state = thing.before
        up = state == "running"
        told = (state, thing.public_ip, thing.launched, thing.reason)
        kept = thing.told
        if kept is not None and kept[0] == told and kept[1].tags == thing.tags:
            return kept[1]
        found = Instance(
            id=thing.id,
            state=state,
            instance_type=thing.request.instance_type,
            image_id=thing.request.image_id,
            zone=thing.zone,
            public_ip=thing.public_ip if up else None,
            private_ip=None,
            launch_time=self.launched_at(thing),
            root_volume_id=f"vol-{thing.id[2:]}",
            client_token=thing.request.token,
            state_reason=thing.reason,
            tags=dict(thing.tags),
        )
        thing.told = (told, found)
        return found

    def checked(self, thing: Thing) -> Checks | None:
        """Return a running instance's checks as they show; None when it does not run."""
        now = self.loop.time()
        if thing.state != "running" or now < thing.visible:
            return None
        if now - thing.since < INITIALIZING_SECONDS and thing.instance_check == "ok":
            return Checks(thing.id, "initializing", "initializing", thing.events)
        return Checks(thing.id, thing.system_check, thing.instance_check, thing.events)

    def of_worker(self, uid: str) -> list[Thing]:
        """Return the live instances that carry a worker's uid, oldest first."""
        return [
            each
            for each in self.things.values()
            if each.live and each.tags.get(launches.WORKER_UID) == uid
        ]
