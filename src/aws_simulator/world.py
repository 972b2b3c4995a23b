"""The world behind the API: clock, dice, configuration, machines, tokens and the journal.

One lock guards it. CML control calls are made outside the lock, with the machine marked busy, so
that a slow peer delays one instance only. It holds no moto code: `patches` hooks moto in.
"""

import dataclasses
import random
import threading
import time
from collections.abc import Callable
from typing import Any

from aws_simulator.buckets import Buckets
from aws_simulator.clock import ScaledClock
from aws_simulator.cml_link import CmlLink, product_uuid
from aws_simulator.faults import Rule
from aws_simulator.journal import Journal
from aws_simulator.machine import SETTLED, Machine
from aws_simulator.settings import Config

RETRY_SECONDS = 0.5
Hook = Callable[[Any, str, dict[str, Any]], None]


@dataclasses.dataclass
class Launch:
    """What a client token stands for: the parameters and the reservation it led to."""

    digest: str
    reservation: Any


@dataclasses.dataclass
class Request:
    """The API call that a thread is in; patches look at it."""

    action: str = ""
    form: dict[str, str] = dataclasses.field(default_factory=dict)
    mappings: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)


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
        self.config = Config()
        self.dice = random.Random(seed)  # noqa: S311 - faults need a seed, not secrecy
        self.lock = threading.RLock()
        self.local = threading.local()
        self.settled: Hook = lambda _instance, _state, _facts: None
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

    @property
    def request(self) -> Request:
        """The request of this thread; an empty one outside of any."""
        found: Request | None = getattr(self.local, "request", None)
        return found if found is not None else Request()

    @property
    def reading(self) -> bool:
        """Tell whether the lags of eventual consistency apply to this thread's call."""
        return self.request.action not in ("", "RunInstances")

    def launched(self, instance: Any) -> Machine:
        """Give a new moto instance its machine; state pending, lags from the configuration."""
        now, lags = self.clock.now(), self.config.lags
        machine = Machine(state="pending", since=now, due=now + self.lasts(instance, "pending"))
        machine.visible_at = now + lags.instance
        machine.tags_visible_at = now + lags.tags
        machine.addresses_visible_at = now + lags.addresses
        machine.nested = self.request.form.get("CpuOptions.NestedVirtualization") == "enabled"
        machine.calls.append("create")
        self.machines[instance.id] = machine
        self.instances[instance.id] = instance
        return machine

    def forget(self, instance_id: str) -> None:
        """Drop an instance that a rolled-back launch had made."""
        self.machines.pop(instance_id, None)
        self.instances.pop(instance_id, None)

    def lasts(self, instance: Any, what: str) -> float:
        """Return how long a slow state of the instance takes, with the configured jitter."""
        seconds = float(getattr(self.config.times_for(instance.instance_type), what))
        if what == "stopping" and self.config.stuck_stopping:
            return float("inf")
        jitter = self.config.jitter
        return seconds * (1 + self.dice.uniform(-jitter, jitter)) if jitter else seconds

    def settle(self) -> None:
        """Bring every machine up to date: make due CML calls, finish due transitions."""
        for _ in range(8):
            with self.lock:
                now, real = self.clock.now(), time.monotonic()
                todo = []
                for instance_id, machine in self.machines.items():
                    step = machine.advance(now) if machine.retry_at <= real else None
                    if step is not None:
                        machine.busy = True
                        todo.append((self.instances[instance_id], machine, step))
            if not todo:
                return
            for instance, machine, step in todo:
                self._take_step(instance, machine, step)

    def _take_step(self, instance: Any, machine: Machine, step: str) -> None:
        is_call = bool(machine.calls) and machine.calls[0] == step
        facts = self._cml_call(instance, step) if is_call else {}
        with self.lock:
            machine.busy = False  # only now: the state may have moved during the call
            if facts is None:
                machine.retry_at = time.monotonic() + RETRY_SECONDS
            elif not is_call:
                if SETTLED.get(machine.state) == step:
                    machine.enter(step, self.clock.now())
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
