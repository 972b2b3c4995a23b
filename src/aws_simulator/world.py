"""The world behind the API: clock, random numbers, configuration, machines, tokens and the journal.

One lock guards it. CML control calls are made outside the lock, with the machine marked busy, so
that a slow peer delays one instance only. It holds no moto code: `patches` hooks moto in.
"""

import contextlib
import dataclasses
import heapq
import math
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from aws_simulator.buckets import Buckets
from aws_simulator.clock import ScaledClock
from aws_simulator.cml_link import CmlLink, product_uuid
from aws_simulator.faults import Rule
from aws_simulator.journal import Journal
from aws_simulator.machine import SETTLED, TRANSIENT, Machine
from aws_simulator.settings import Config

RETRY_SECONDS = 0.5
LASTING = {"pending": "pending", "stopping": "stopping", "terminating": "shutting-down"}
Hook = Callable[[Any, str, dict[str, Any]], None]


@dataclasses.dataclass
class Launch:
    """What a client token stands for: the parameters and the reservation it led to."""

    digest: str
    reservation: Any


@dataclasses.dataclass(order=True)
class OutsideAct:
    """Something that is done from outside the API, or by AWS itself, at a simulated time."""

    at: float
    number: int
    instance_id: str = dataclasses.field(compare=False)
    verb: str = dataclasses.field(compare=False)
    fields: dict[str, Any] = dataclasses.field(compare=False, default_factory=dict)


@dataclasses.dataclass
class Request:
    """The API call that a thread is in; patches look at it."""

    action: str = ""
    form: dict[str, str] = dataclasses.field(default_factory=dict)
    mappings: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    rule: Rule | None = None


class World:
    """All state that is not moto's own."""

    def __init__(
        self,
        *,
        clock: ScaledClock,
        region: str,
        seed: int | None = None,
        cml: CmlLink | None = None,
    ) -> None:
        """Begin empty; `region` is where the CML image and the default network live."""
        self.clock = clock
        self.region = region
        self.cml = cml
        self.seed = seed
        self.config = Config()
        self.rng = random.Random(seed)  # noqa: S311 - faults need a seed, not secrecy
        self.lock = threading.RLock()
        self.local = threading.local()
        self.closing = threading.Event()
        self.settled: Hook = lambda _instance, _state, _facts: None
        self.perform: Callable[[OutsideAct], None] = lambda _deed: None
        self.sizes: Callable[[Any], dict[str, Any]] = lambda _instance: {}
        self.clear()

    def clear(self) -> None:
        """Forget everything that happened; configuration and clock stay."""
        self.rules: list[Rule] = []
        self.rule_number = 0
        self.journal = Journal()
        self.buckets = Buckets()
        self.machines: dict[str, Machine] = {}
        self.instances: dict[str, Any] = {}
        self.tokens: dict[tuple[str, str, str, str], Launch] = {}
        self.doubles: dict[str, None] = {}
        self.agenda: list[OutsideAct] = []
        self.numbers = 0
        self.notices: list[dict[str, Any]] = []
        self.wake_at = -math.inf

    @property
    def request(self) -> Request:
        """The request of this thread; an empty one outside of any."""
        found: Request | None = getattr(self.local, "request", None)
        return found if found is not None else Request()

    @property
    def reading(self) -> bool:
        """Tell whether the lags of eventual consistency apply to this thread's call."""
        return self.request.action not in ("", "RunInstances")

    @contextlib.contextmanager
    def unasked(self) -> Iterator[None]:
        """Run the block outside any API call, so that no lag of eventual consistency applies."""
        asked = getattr(self.local, "request", None)
        self.local.request = None
        try:
            yield
        finally:
            self.local.request = asked

    def launched(self, instance: Any) -> Machine:
        """Give a new moto instance its machine; state pending, lags from the configuration."""
        now, lags = self.clock.now(), self.config.lags
        machine = Machine(state="pending", since=now, due=now + self.lasts(instance, "pending"))
        machine.number, machine.launched = self.next_number(), now
        machine.visible_at = now + lags.instance
        machine.tags_visible_at = now + lags.tags
        machine.addresses_visible_at = now + lags.addresses
        machine.nested = self.request.form.get("CpuOptions.NestedVirtualization") == "enabled"
        machine.calls.append("create")
        self.machines[instance.id] = machine
        self.instances[instance.id] = instance
        self.disturb()
        return machine

    def next_number(self) -> int:
        """Return the next number of the order in which things came to be."""
        self.numbers += 1
        return self.numbers

    def forget(self, instance_id: str) -> None:
        """Drop an instance that a rolled-back launch had made."""
        self.machines.pop(instance_id, None)
        self.instances.pop(instance_id, None)

    def visible(self, machine: Machine, action: str, now: float) -> bool:
        """Tell whether an action of the API finds an instance yet, or still."""
        gone = machine.terminated_at
        if gone is not None and now - gone >= self.config.terminated_visible:
            return False
        lag = self.config.lags.actions.get(action)
        return now >= (machine.visible_at if lag is None else machine.launched + lag)

    def lasts(self, instance: Any, what: str) -> float:
        """Return how long a slow state of the instance takes, with the configured jitter."""
        seconds = float(getattr(self.config.times_for(instance.instance_type), what))
        if what == "stopping" and self.config.stuck_stopping:
            return math.inf
        if LASTING[what] in self.config.stuck:
            return math.inf
        jitter = self.config.jitter
        return seconds * (1 + self.rng.uniform(-jitter, jitter)) if jitter else seconds

    def plan(self, at: float, instance_id: str, verb: str, fields: dict[str, Any]) -> None:
        """Put an act on the agenda; the next settling does it, as of its time."""
        heapq.heappush(self.agenda, OutsideAct(at, self.next_number(), instance_id, verb, fields))
        self.disturb()

    def disturb(self) -> None:
        """Say that something changed, so that the next settling looks at everything."""
        self.wake_at = -math.inf

    def settle(self) -> None:
        """Bring every machine up to date, in the order of the due times."""
        with self.lock:
            now, real = self.clock.now(), time.monotonic()
            if now < self.wake_at:
                return
            self.wake_at = self._next_wake()
            todo: list[tuple[float, int, str]] = [
                (self._when(machine, now), machine.number, instance_id)
                for instance_id, machine in self.machines.items()
                if machine.retry_at <= real and machine.advance(now) is not None
            ]
        heapq.heapify(todo)
        while True:
            with self.lock:
                if self.agenda and self.agenda[0].at <= min(now, todo[0][0] if todo else now):
                    deed = heapq.heappop(self.agenda)
                    todo += self._done(deed, now)
                    heapq.heapify(todo)
                    continue
                if not todo:
                    return
                instance_id = heapq.heappop(todo)[2]
                machine = self.machines.get(instance_id)
                step = machine.advance(now) if machine is not None else None
                if machine is None or step is None or machine.retry_at > real:
                    continue
                machine.busy = True
                instance = self.instances[instance_id]
            self._take_step(instance, machine, step, now)
            with self.lock:
                if machine.retry_at <= real and machine.advance(now) is not None:
                    heapq.heappush(todo, (self._when(machine, now), machine.number, instance_id))

    def _next_wake(self) -> float:
        wake = self.agenda[0].at if self.agenda else math.inf
        for machine in self.machines.values():
            if machine.calls and (self.cml is not None or machine.calls != ["destroy"]):
                return -math.inf
            if machine.state in TRANSIENT:
                wake = min(wake, machine.due)
        return wake

    def _when(self, machine: Machine, now: float) -> float:
        """Return the time at which a step counts; for one that calls the CML simulator, now."""
        return min(now, machine.due) if self.cml is None else now

    def _done(self, deed: OutsideAct, now: float) -> list[tuple[float, int, str]]:
        """Do a planned act as of its time; return the step it makes due, if any."""
        machine = self.machines.get(deed.instance_id)
        if machine is None:
            return []
        with self.clock.held(deed.at), self.unasked():
            self.perform(deed)
        if machine.advance(now) is None:
            return []
        return [(self._when(machine, now), machine.number, deed.instance_id)]

    def _take_step(self, instance: Any, machine: Machine, step: str, now: float) -> None:
        is_call = bool(machine.calls) and machine.calls[0] == step
        facts = self._cml_call(instance, step) if is_call else {}
        with self.lock:
            machine.busy = False  # only now: the state may have moved during the call
            self.disturb()
            if facts is None:
                machine.retry_at = time.monotonic() + RETRY_SECONDS
            elif not is_call:
                if SETTLED.get(machine.state) == step:
                    at = self._when(machine, now) if self.cml is None else self.clock.now()
                    with self.clock.held(at), self.unasked():
                        machine.enter(step, at)
                        self.settled(instance, step, facts)
            elif machine.calls and machine.calls[0] == step:
                machine.calls.pop(0)
                if step == "boot" and machine.state == "pending":
                    self.settled(instance, step, facts)

    def _cml_call(self, instance: Any, step: str) -> dict[str, Any] | None:
        if self.cml is None:
            return {}
        if step != "create":
            return self.cml.call(instance.id, step)
        identity = {"product_uuid": product_uuid(root_volume(instance))}
        fields = {**identity, **self.sizes(instance), **self.config.cml_server}
        return self.cml.create(instance.id, fields)

    def note_doubles(self, tags_of: Callable[[Any], dict[str, str]]) -> None:
        """Remember each worker tag that more than one live instance carries right now."""
        seen: dict[str, str] = {}
        for instance_id, machine in self.machines.items():
            if machine.state == "terminated":
                continue
            worker = tags_of(self.instances[instance_id]).get(self.config.worker_tag)
            if worker and worker in seen:
                self.doubles[worker] = None
            elif worker:
                seen[worker] = instance_id


def root_volume(instance: Any) -> str:
    """Return the id of the instance's root volume, or the instance's id when it has none."""
    mapping = instance.block_device_mapping
    device = mapping.get(instance.root_device_name) or next(iter(mapping.values()), None)
    return str(device.volume_id) if device is not None else str(instance.id)
