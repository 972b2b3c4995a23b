"""What is known of a worker's calls to the outside: the open one, and the next launch.

The controller fills these in; `settle` and the rules read them. A call's intent is stored before
the call (engine/effects.py), its answer is only this process's memory until the next step records
what it means.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from labfleet.kernel import errors
from labfleet.resources.machine import MachineStatus


class Answer(msgspec.Struct, frozen=True):
    """What a call said that the next look does not show; the defaults say nothing.

    `problem` is the error that it ended with. `machine` was launched, or found by the look-up
    after a launch. `refused` is the text of a launch, registration, claim or change of tags that
    was refused for good; `nodes_running` a deregistration refused because nodes run, `cloud_told`
    False one that only happened locally, `returned` one that the licence cloud knows of.
    `later`: another licensing operation is under way, so nothing was asked.
    `telemetry` was set on this boot, unless `telemetry_refused` says why not. `tags` are the keys
    that the machine has now. `note` is for the event.
    """

    problem: errors.LabfleetError | None = None
    machine: MachineStatus | None = None
    refused: str | None = None
    nodes_running: bool = False
    later: bool = False
    cloud_told: bool = True
    returned: bool = False
    telemetry: bool | None = None
    telemetry_refused: str | None = None
    claimed: bool = False
    tags: tuple[str, ...] | None = None
    note: str = ""


class Call(msgspec.Struct, frozen=True):
    """What this process knows of the call whose intent is stored.

    running: it may be under way, or may have happened unseen. not_done: it surely did not happen.
    over: it surely ended, and what it did has to be looked at (of a launch: nothing was found).
    answered: `answer` says it. A `problem` of a running call is that of looking for it.
    """

    state: Literal["running", "not_done", "over", "answered"]
    answer: Answer = Answer()


class Offer(msgspec.Struct, frozen=True):
    """What a launch would ask for now (`parameters` of its intent), or why there is none.

    `held`: every option is blocked, as the provider knows without a call. `problem`: choosing
    failed. `wait`: no turn for a call yet, in fleet seconds.
    """

    parameters: Mapping[str, str] | None = None
    held: errors.Temporary | None = None
    problem: errors.LabfleetError | None = None
    wait: float = 0.0


class TagChange(NamedTuple):
    """The tags to set on a machine and the keys to remove; both empty: all is as wanted."""

    put: dict[str, str]
    gone: tuple[str, ...]


MISMATCH = "mismatch"
"""Parameter of a launch whose token is bound to another request."""
