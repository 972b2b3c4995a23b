"""Compute: where workers' machines come from.

Errors are kernel types: Throttled, OutOfCapacity (this type and zone have none), QuotaExceeded,
Denied (credentials, clock), Invalid (the template is wrong), Temporary (server trouble),
Ambiguous (the call may have happened), Gone. An empty answer is not an error and an error
is never an empty answer (facts/aws-bugs.md#case-11).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from labfleet.kernel import errors
from labfleet.resources.machine import MachineState, ScheduledEvent
from labfleet.resources.providers import ProviderSettings
from labfleet.resources.providers.trouble import Trouble


@dataclass(frozen=True, slots=True)
class Instance:
    """One machine as the provider describes it; None means that the field was not there."""

    id: str
    state: MachineState
    instance_type: str | None = None
    image_id: str | None = None
    zone: str | None = None
    public_ip: str | None = None
    private_ip: str | None = None
    launch_time: datetime | None = None
    root_volume_id: str | None = None
    client_token: str | None = None
    state_reason: str | None = None
    tags: dict[str, str] = field(default_factory=dict)
    stopped_at: datetime | None = None
    """When it last left off running, as the provider tells it."""


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """All parameters of one launch; sent again unchanged it gives the same instance.

    `token` is the client token, and `choice` what the provider chose for it: another choice needs
    another token, and only after the first was proved empty (facts/aws.md#client-token).
    `attempt`, `worker` and `pool` go into tags together with the installation's owner tag. The
    names are for people (`namespace/name` outside of `default`); machines are known by the uid.
    """

    region: str
    token: str
    worker: str
    worker_uid: str
    attempt: int
    choice: Mapping[str, str]
    settings: ProviderSettings
    pool: str | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """A machine image that matched a template's pattern."""

    id: str
    name: str
    created: datetime | None


@dataclass(frozen=True, slots=True)
class Checks:
    """The provider's own checks of one machine; None was not told.

    Words: ok, impaired, insufficient-data, initializing, not-applicable. `events` are what
    the provider will do to it.
    """

    instance_id: str
    system: str | None
    instance: str | None
    events: tuple[ScheduledEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class Leftover:
    """A volume or address with our owner tag that is attached to nothing."""

    kind: Literal["volume", "address"]
    region: str
    id: str
    created: datetime | None
    tags: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MetricPoint:
    """One measurement over a period that begins at `at`.

    `cpu_percent` 0-100 average; network in bytes over the period (facts/aws-bugs.md#case-29).
    """

    at: datetime
    cpu_percent: float | None = None
    network_in_bytes: float | None = None
    network_out_bytes: float | None = None


Taken = Callable[[], Collection[str]]
"""Returns ids of machines, and what launches under way have as `machine` in their choice."""


def trouble_of(problem: errors.LabfleetError) -> Trouble | None:
    """Return what an error says of the provider by its kind; None when it answered the question.

    No room, a quota, a machine that is gone and a request that is wrong are answers.
    """
    if isinstance(problem, errors.Throttled):
        return Trouble.THROTTLED
    if isinstance(problem, errors.OutOfCapacity | errors.QuotaExceeded):
        return None
    if isinstance(problem, errors.Temporary | errors.Ambiguous):
        return Trouble.SILENT
    return None


class Machines(Protocol):
    """The provider's calls, as one installation makes them: it changes only what has its tag."""

    async def launch(self, request: LaunchRequest) -> Instance:
        """Start one machine, tagged at launch. Ambiguous when the reply was lost."""
        ...

    async def find_launched(self, request: LaunchRequest) -> tuple[Instance, ...]:
        """Return the non-terminated machines of this worker and attempt (by tags and token).

        Empty may also mean that they are not visible yet: wait 60 s of fleet time and ask
        again before believing it (facts/aws.md#client-token).
        """
        ...

    async def describe(self, region: str, instance_id: str) -> Instance | None:
        """Return the machine, or None when the provider says NotFound."""
        ...

    async def list_owned(self, region: str) -> tuple[Instance, ...]:
        """Return every machine with our owner tag that is not terminated; all pages or an error."""
        ...

    async def start(self, region: str, instance_id: str) -> None:
        """Ask a stopped machine to start."""
        ...

    async def stop(self, region: str, instance_id: str) -> None:
        """Ask a running machine to stop; no error when it is already stopping or stopped."""
        ...

    async def terminate(self, region: str, instance_id: str) -> None:
        """Ask to terminate the machine; no error when it has ended or does not exist."""
        ...

    async def console_output(self, region: str, instance_id: str) -> str:
        """Return the last console text, at most 16 KiB; Invalid NotSupported where there is none."""
        ...

    async def checks(self, region: str) -> Mapping[str, Checks]:
        """Return the machines whose checks are not all ok or that have scheduled events.

        Asked by filter, so a healthy fleet costs few calls (facts/aws.md#status-checks); a running
        machine that is not in the map is ok. Machines of others may be in it.
        """
        ...

    async def images(self, region: str, pattern: str, owners: tuple[str, ...]) -> tuple[Image, ...]:
        """Return the images whose name matches, newest first; owners are always passed."""
        ...

    async def candidates(self, region: str, image_ids: Sequence[str]) -> tuple[Instance, ...]:
        """Return every machine of these images that is not terminated, whoever owns it.

        All pages and all chunks of ids, or an error: never a part.
        """
        ...

    async def claim(self, region: str, instance_id: str, worker: str, worker_uid: str) -> None:
        """Put our owner tags on a machine that has none; Denied when it has another owner."""
        ...

    async def set_tags(self, region: str, instance_id: str, tags: Mapping[str, str]) -> None:
        """Set tags on a machine of ours; Denied for the owner tags themselves."""
        ...

    async def remove_tags(self, region: str, instance_id: str, keys: Sequence[str]) -> None:
        """Remove tags from a machine of ours; Denied for the owner tags; no error if missing."""
        ...

    async def leftovers(self, region: str) -> tuple[Leftover, ...]:
        """Return volumes and addresses with our owner tag that are attached to nothing."""
        ...

    async def remove(self, leftover: Leftover) -> None:
        """Delete the volume or release the address after a new check; no error when gone."""
        ...

    async def metrics(
        self, region: str, instance_ids: Sequence[str], start: datetime, end: datetime, period: int
    ) -> Mapping[str, tuple[MetricPoint, ...]]:
        """Return CloudWatch points, oldest first; a machine without points is absent.

        Batched by 500 metrics a request; `period` in seconds. Costs money per metric asked.
        """
        ...

    async def close(self) -> None:
        """Release threads and connections."""
        ...


class Compute(Machines, Protocol):
    """A provider with what it knows of itself: what to ask for, how fast, and what was refused.

    A caller stores its intent before each call, and before that asks here whether and for what to
    call. This memory is one process's; losing it costs a call or two.
    """

    def turn(self, action: str, region: str, instance_id: str | None = None) -> float:
        """Take a turn to make a call; return 0, or the fleet seconds until there is one.

        An action that is no call to a provider always has its turn.
        """
        ...

    def trouble(self, region: str, problem: errors.LabfleetError) -> Trouble | None:
        """Return what a call's error says of the provider itself; None when that is well."""
        del region
        return trouble_of(problem)

    def held(
        self, settings: ProviderSettings, choice: Mapping[str, str] | None = None
    ) -> errors.Temporary | None:
        """Return why nothing can be launched now (of this choice); None when something can.

        `retry_after` of the error are fleet seconds.
        """
        ...

    async def image(self, settings: ProviderSettings) -> str | None:
        """Return the image of which a launch would make its machine now; None without images."""
        ...

    async def choose(self, settings: ProviderSettings, taken: Taken) -> Mapping[str, str]:
        """Return what a launch is to ask for: stored with its intent, and sent unchanged.

        `taken` tells which machines other workers have, or are about to have. Raises what `held`
        would return. Keys must not be `attempt`, `token` or `mismatch`; `type` is the machine type,
        for messages, and `machine` one that is there already, so that nobody else is given it.
        """
        ...
