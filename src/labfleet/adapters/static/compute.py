"""Compute over servers that are there already: a launch takes one, an end gives it back.

A machine's id is its server's name and a mark of the launch's token, so that the same server, given
out again, is another machine. Who has which server stands in the store; `choose` is told. What is
kept here is one process's memory, and losing it only repeats a stop: a machine whose end was asked
for is asked again until it is off. A server without commands is never switched: it is parked
instead of stopped, goes on running, and takes no session.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from labfleet.adapters.static.sites import Server, Sites
from labfleet.interfaces.compute import (
    Checks,
    Compute,
    Image,
    Instance,
    LaunchRequest,
    Leftover,
    MetricPoint,
    Taken,
)
from labfleet.kernel import errors
from labfleet.kernel.clock import Clock
from labfleet.resources.machine import MachineState
from labfleet.resources.providers import ProviderSettings
from labfleet.resources.providers.static import PREFIX, StaticSettings

FULL_SECONDS = 60.0
"""How long nobody is offered a site's servers again after all were taken."""
PROMISED_SECONDS = 120.0
"""How long a chosen server is kept for who chose it, until the store shows it."""
ENDED_KEPT = 1000
TYPE = "static"
OURS = "labfleet:"


class Switch(Protocol):
    """What switches servers: `hooks.Hooks`, or a world of tests."""

    async def start(self, server: Server) -> None:
        """Have the server switched on."""
        ...

    async def stop(self, server: Server) -> None:
        """Have the server switched off."""
        ...

    async def state(self, server: Server) -> MachineState:
        """Return the server's state."""
        ...


@dataclass(slots=True)
class _Machine:
    """What this process knows of a machine."""

    server: Server
    token: str | None = None
    tags: dict[str, str] = field(default_factory=dict)
    parked: bool = False
    ended: bool = False


class StaticCompute(Compute):
    """The servers of all sites of one installation."""

    def __init__(self, sites: Sites, switch: Switch, owner: str, clock: Clock) -> None:
        self._sites = sites
        self._switch = switch
        self._owner = owner
        self._clock = clock
        self._known: dict[str, _Machine] = {}
        self._promised: dict[tuple[str, str], float] = {}
        self._full: dict[str, float] = {}

    # --- what to take, and when ------------------------------------------------------------

    def turn(self, action: str, region: str, instance_id: str | None = None) -> float:
        """Return 0: nobody else uses these servers."""
        del action, region, instance_id
        return 0.0

    def held(
        self, settings: ProviderSettings, choice: Mapping[str, str] | None = None
    ) -> errors.Temporary | None:
        """Return that all servers were taken a moment ago."""
        wait = self._full.get(settings.region, 0.0) - self._clock.monotonic()
        if choice is not None or wait <= 0:
            return None
        return _taken(settings.region, wait)

    async def image(self, settings: ProviderSettings) -> str | None:
        """Return None: each server is as its owner made it."""
        del settings
        return None

    async def choose(self, settings: ProviderSettings, taken: Taken) -> Mapping[str, str]:
        """Return the first server, in order of preference, that no other worker has."""
        assert isinstance(settings, StaticSettings)  # noqa: S101 - routed by its own region
        site, now = self._site(settings.region), self._clock.monotonic()
        missing = [each for each in settings.servers if each not in site]
        if missing:
            what = f"site {settings.site} has no server {', '.join(missing[:5])}"
            raise errors.Invalid(what, reason="NoServer")
        region = settings.region
        # A name counts as taken in every site: an id does not say which site it is of.
        used = {each.partition(".")[0] for each in taken()}
        used |= {
            name for (at, name), until in self._promised.items() if at == region and until > now
        }
        used |= {each.server.name for each in self._live(region)}
        for name in settings.servers or site:
            if name not in used:
                self._promised[region, name] = now + PROMISED_SECONDS
                return {"machine": name}
        self._full[region] = now + FULL_SECONDS
        raise _taken(region, FULL_SECONDS)

    # --- changes ---------------------------------------------------------------------------

    async def launch(self, request: LaunchRequest) -> Instance:
        """Take the chosen server and have it switched on; the same request is the same machine."""
        server = self._site(request.region).get(request.choice["machine"])
        if server is None:
            raise errors.Invalid(f"no server {request.choice['machine']}", reason="NoServer")
        name = id_of(request)
        known = self._known.get(name)
        if known is not None and known.ended:
            raise errors.Gone(f"{name} was given back", reason="IdempotentInstanceTerminated")
        if any(each.server == server for each in self._live(request.region) if each is not known):
            raise errors.OutOfCapacity(f"{server.name} has a worker", reason="ServerTaken")
        if await self._switch.state(server) in {"stopped", "stopping"}:
            await self._switch.start(server)
        if known is None:
            tags = {**request.settings.tags, **tags_of(request)}
            known = self._known[name] = _Machine(server, request.token, tags)
        return await self._shown(name, known)

    async def start(self, region: str, instance_id: str) -> None:
        """Have a stopped machine switched on."""
        machine = self._ours(region, instance_id)
        if machine.server.power is None:
            machine.parked = False
            return
        state = await self._switch.state(machine.server)
        if state == "stopping":
            raise _wrong(instance_id, state)
        if state == "stopped":
            await self._switch.start(machine.server)

    async def stop(self, region: str, instance_id: str) -> None:
        """Have a running machine switched off, or park it."""
        machine = self._ours(region, instance_id)
        if machine.server.power is None:
            machine.parked = True
            return
        state = await self._switch.state(machine.server)
        if state == "booting":
            raise _wrong(instance_id, state)
        if state == "running":
            await self._switch.stop(machine.server)

    async def terminate(self, region: str, instance_id: str) -> None:
        """Give the server back, switched off if it can be."""
        machine = self._machine(region, instance_id)
        if machine is None or machine.ended:
            return
        # A late repetition must not switch off whom the server belongs to by now.
        if not self._given(machine) and await self._switch.state(machine.server) in {
            "booting",
            "running",
        }:
            await self._switch.stop(machine.server)
        machine.ended = True
        self._forget_ended()
        self._promised.pop((region, machine.server.name), None)
        self._full.pop(region, None)

    async def claim(self, region: str, instance_id: str, worker: str, worker_uid: str) -> None:
        """Note whose a machine is; every server of the file is this installation's."""
        machine = self._ours(region, instance_id)
        machine.tags |= {f"{OURS}worker": worker, f"{OURS}worker-uid": worker_uid}

    async def set_tags(self, region: str, instance_id: str, tags: Mapping[str, str]) -> None:
        """Set tags, which are only shown."""
        _refuse_protected(tags)
        self._ours(region, instance_id).tags |= tags

    async def remove_tags(self, region: str, instance_id: str, keys: Sequence[str]) -> None:
        """Remove tags."""
        _refuse_protected(keys)
        machine = self._ours(region, instance_id)
        for key in keys:
            machine.tags.pop(key, None)

    # --- looks -----------------------------------------------------------------------------

    async def find_launched(self, request: LaunchRequest) -> tuple[Instance, ...]:
        """Return the machine of a launch that this process made."""
        name = id_of(request)
        known = self._known.get(name)
        if known is None or known.ended:
            return ()
        return (await self._shown(name, known),)

    async def describe(self, region: str, instance_id: str) -> Instance | None:
        """Return the machine; None when its server is in no site."""
        machine = self._machine(region, instance_id)
        return None if machine is None else await self._shown(instance_id, machine)

    async def list_owned(self, region: str) -> tuple[Instance, ...]:
        """Return the machines that this process has seen and that have not ended.

        One whose server does not tell its state is left out: whoever misses it asks for it by id and
        gets its error, and the other servers of the site are not lost with it. An error when none
        of several tells.
        """
        site = region.removeprefix(PREFIX)
        known = [
            (name, each)
            for name, each in self._known.items()
            if each.server.site == site and not each.ended
        ]
        shown = [self._shown(name, each) for name, each in known]
        told = await asyncio.gather(*shown, return_exceptions=True)
        found, problems = [], []
        for each in told:
            if isinstance(each, Instance):
                found.append(each)
            elif isinstance(each, errors.LabfleetError):
                problems.append(each)
            else:
                raise each
        if problems and not found:
            raise problems[0]
        return tuple(found)

    async def checks(self, region: str) -> Mapping[str, Checks]:
        """Return nothing: no provider looks after these servers."""
        del region
        return {}

    async def console_output(self, region: str, instance_id: str) -> str:
        """Raise Invalid: their consoles are their owner's, and nothing here reads them."""
        self._ours(region, instance_id)
        message = "people's own servers have no console that can be read from here"
        raise errors.Invalid(message, reason="NotSupported")

    async def images(self, region: str, pattern: str, owners: tuple[str, ...]) -> tuple[Image, ...]:
        """Return nothing: what is installed on a server is its owner's matter."""
        del region, pattern, owners
        return ()

    async def candidates(self, region: str, image_ids: Sequence[str]) -> tuple[Instance, ...]:
        """Return nothing: every server is known from the file."""
        del region, image_ids
        return ()

    async def leftovers(self, region: str) -> tuple[Leftover, ...]:
        """Return nothing."""
        del region
        return ()

    async def remove(self, leftover: Leftover) -> None:
        """Do nothing, since there are no leftovers."""

    async def metrics(
        self, region: str, instance_ids: Sequence[str], start: datetime, end: datetime, period: int
    ) -> Mapping[str, tuple[MetricPoint, ...]]:
        """Return nothing: CML measures itself."""
        del region, instance_ids, start, end, period
        return {}

    async def close(self) -> None:
        """Do nothing: no connection is kept."""

    # --- inside ----------------------------------------------------------------------------

    def _site(self, region: str) -> Mapping[str, Server]:
        found = self._sites.get(region.removeprefix(PREFIX))
        if found is None:
            what = f"static_sites has no site {region.removeprefix(PREFIX)!r}"
            raise errors.Invalid(what, reason="NoSite")
        return found

    def _live(self, region: str) -> list[_Machine]:
        site = region.removeprefix(PREFIX)
        return [
            each for each in self._known.values() if each.server.site == site and not each.ended
        ]

    def _machine(self, region: str, instance_id: str) -> _Machine | None:
        """Return what is known of a machine; one of an earlier process is known by its id."""
        known = self._known.get(instance_id)
        if known is None:
            site = self._sites.get(region.removeprefix(PREFIX), {})
            server = site.get(instance_id.partition(".")[0])
            if server is None:
                return None
            known = self._known[instance_id] = _Machine(server)
        return known

    def _ours(self, region: str, instance_id: str) -> _Machine:
        machine = self._machine(region, instance_id)
        if machine is None:
            raise errors.Gone(f"no site has the server of {instance_id}")
        if machine.ended:
            raise errors.Gone(f"{instance_id} was given back", reason="Terminated")
        return machine

    async def _shown(self, name: str, machine: _Machine) -> Instance:
        server = machine.server
        state = await self._switch.state(server)
        if machine.ended:
            off = server.power is None or state == "stopped"
            state = "gone" if off or self._given(machine) else "ending"
        elif machine.parked:
            state = "stopped"
        return Instance(
            id=name,
            state=state,
            instance_type=TYPE,
            zone=server.site,
            public_ip=server.address,
            client_token=machine.token,
            tags={**machine.tags, f"{OURS}owner": self._owner},
        )

    def _forget_ended(self) -> None:
        """Keep the newest ended machines only; one that is asked for later is known by its id."""
        ended = [name for name, each in self._known.items() if each.ended]
        for name in ended[:-ENDED_KEPT]:
            del self._known[name]

    def _given(self, machine: _Machine) -> bool:
        """Tell whether another machine has this one's server by now."""
        return any(
            each is not machine and each.server == machine.server and not each.ended
            for each in self._known.values()
        )


def id_of(request: LaunchRequest) -> str:
    """Return the id of the machine that a request makes."""
    mark = hashlib.blake2b(request.token.encode(), digest_size=6).hexdigest()
    return f"{request.choice['machine']}.{mark}"


def tags_of(request: LaunchRequest) -> dict[str, str]:
    """Return the tags that say whose a machine is."""
    ours = {
        f"{OURS}worker": request.worker,
        f"{OURS}worker-uid": request.worker_uid,
        f"{OURS}attempt": str(request.attempt),
    }
    return ours if request.pool is None else {**ours, f"{OURS}pool": request.pool}


def _taken(region: str, wait: float) -> errors.OutOfCapacity:
    what = f"every server of {region.removeprefix(PREFIX)} that would do has a worker"
    return errors.OutOfCapacity(what, reason="OutOfCapacity", retry_after=wait)


def _wrong(instance_id: str, state: str) -> errors.Temporary:
    return errors.Temporary(f"{instance_id} is {state}", reason="IncorrectInstanceState")


def _refuse_protected(keys: Mapping[str, str] | Sequence[str]) -> None:
    for key in keys:
        if key.startswith(OURS):
            raise errors.Denied(f"the tag {key} says whose the machine is", reason="TagProtected")
