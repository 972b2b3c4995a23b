"""Watches one world's calls as they are made: the facts that I3, I4, I8 and I9 are judged by.

It stands at the wire, between boto3 and the simulator, and knows what the caller should have
known: what ran on the machine's CML server, whether its licence was registered, whether the
launch's token was in the store, and when somebody last asked the server what runs there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from scripted_servers import ScriptedHost, registered

from cml_simulator.core.world import settle
from labfleet.resources import conditions
from labfleet.resources.worker import Worker

if TYPE_CHECKING:
    from bug_world import BugWorld

HAZARDS = ("StopInstances", "TerminateInstances")
# Calls whose answer says what runs: nodes by name, their number, or a refusal while they run.
CHECKS = ("all_nodes", "system_stats", "deregister")
MOMENT = 0.001


class Witness:
    """What was true when each call was made; times are the simulator's Unix seconds."""

    def __init__(self, world: BugWorld) -> None:
        """Stand at the wire of a world."""
        self.world = world
        self.intents: list[str] = []
        self.launches: list[dict[str, str]] = []
        self.busy: dict[str, list[list[float]]] = {}
        self.licences: dict[str, list[list[float]]] = {}
        self.checks: dict[str, list[float]] = {}
        self._answer = world.cloud.answer
        self._at = world.hosts.at
        world.cloud.answer = self.answer  # type: ignore[method-assign]
        world.hosts.at = self.at  # type: ignore[method-assign]
        self._launch = world.compute.launch
        world.compute.launch = self.launch  # type: ignore[method-assign]

    @property
    def now(self) -> float:
        """Return the simulator's time."""
        return self.world.hosts.now

    def facts(self) -> dict[str, Any]:
        """Return the facts, as the invariant checker takes them."""
        return {
            "intents": self.intents, "busy": self.busy, "licences": self.licences,
            "checks": self.checks,
        }  # fmt: skip

    async def launch(self, request: Any) -> Any:
        """Note the token if the store holds it as an open launch now."""
        stored = await self.world.services.objects.get(Worker, request.worker, "default")
        effect = None if stored is None else stored.status.effect
        if effect is not None and effect.kind == "launch":
            self.intents.append(effect.parameters["token"])
        return await self._launch(request)

    def answer(self, request: Any) -> Any:
        """Look at a call before it is served."""
        body = request.body or b""
        form = parse_qs(body.decode() if isinstance(body, bytes) else str(body))
        action = form.get("Action", [""])[0]
        console = b"Credential=console" in str(request.headers.get("Authorization")).encode()
        if action == "RunInstances" and not console:
            self.launches.append({name: values[0] for name, values in form.items()})
        if action in HAZARDS and not console:
            for name, values in form.items():
                if name.startswith("InstanceId."):
                    self._judged(values[0])
        return self._answer(request)

    def at(self, address: Any) -> Any:
        """Return a server whose busy checks are noted."""
        return _Watched(self, self._at(address), address)

    def checked(self, address: Any) -> None:
        """Note that somebody was told what runs at an address."""
        host = address.base_url.removeprefix("https://").partition(":")[0]
        machine = self.world.cloud.at(host)
        if machine is not None:
            self.checks.setdefault(machine.server_id, []).append(self.now)

    def _judged(self, instance_id: str) -> None:
        hosts = self.world.hosts
        found = hosts.cml_servers.fleet.servers.get(instance_id)
        alive = {each["id"]: each for each in self.world.cloud.instances()}
        self.checks.setdefault(instance_id, [])
        if self._never_up(instance_id):
            self.checks[instance_id].append(self.now)  # on this boot nothing can have run
        if found is None or instance_id not in alive:
            return
        period = [self.now - MOMENT, self.now + MOMENT]
        settle(found, self.now)
        if alive[instance_id]["state"] == "running" and found.active:
            self.busy.setdefault(instance_id, []).append(period)
        if registered(found) and not self._leak_told(instance_id):
            self.licences.setdefault(instance_id, []).append(period)

    def _never_up(self, instance_id: str) -> bool:
        """Tell whether CML has not been ready since the machine's last start."""
        since = self.world.cloud.running_since(instance_id)
        return since is None or self.now - since < self.world.hosts.cml_servers.boot_range[1]

    def _leak_told(self, instance_id: str) -> bool:
        """Tell whether the record says that this machine's licence could not be returned."""
        for each in self.world.cache.all(Worker):
            if each.status.machine.id == instance_id:
                told = conditions.find(each.status.conditions, "LicenceLeaked")
                return told is not None and told.status != "False"
        return False


class _Watched:
    """A server's client that tells the witness of busy checks that were answered."""

    def __init__(self, witness: Witness, host: ScriptedHost, address: Any) -> None:
        self._witness = witness
        self._host = host
        self._address = address

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._host, name)
        if name not in CHECKS:
            return real

        async def check(*args: Any, **kwargs: Any) -> Any:
            return await self._noted(lambda: real(*args, **kwargs))

        return check

    async def _noted(self, call: Callable[[], Awaitable[Any]]) -> Any:
        answer = await call()
        self._witness.checked(self._address)
        return answer
