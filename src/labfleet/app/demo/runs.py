"""The demo's runs of simulations: who asks for what on the cluster, and what becomes of each.

A caller asks, makes pods once its run may start, and reports the end when they are over. One of
them says nothing any more after its start: its pods alone tell that its run has crashed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from labfleet.app.demo.pods import PodPlan
from labfleet.cli.kit import exits
from labfleet.decisions.admission.targets import NEVER_FITS

LENGTH, REAL = 600, 5.0
"""Fleet seconds that the first runs last, and the real ones that they last at least: only what is
looked at a few times is measured."""
TRIES = 5
"""So often a run is asked for that shall be learned, shall wait, or shall be ended by its pods."""
HELD = 60
"""So many times its length a run may hold what it gets."""
REST = 5
"""Steps until a part that was denied is asked again: what lacks room, or found no measurement."""
FAMILY = "waku"
HOLDING = frozenset({"APPROVED", "RUNNING"})
LIVE = HOLDING | {"QUEUED"}
CLUSTER = "default"
LEARNED = frozenset({"exact", "closest"})
"""The evidence of a forecast that rests on runs of its own family."""


@dataclass(frozen=True)
class RunPart:
    """One part in the script of runs.

    name: What it shows.
    body: What its caller asks.
    pods: What its caller starts; None: it is denied and starts nothing.
    silent: Whether its caller never reports.
    """

    name: str
    body: Mapping[str, Any]
    pods: PodPlan | None
    silent: bool = False


def length_at(speed: float) -> int:
    """Return how long the first runs last, in fleet seconds."""
    return max(LENGTH, round(REAL * speed))


def held(length: int) -> int:
    """Return for how long a run may hold what it gets, in fleet seconds.

    Far longer than its pods live: nobody reports for it and nobody sees its pods while the server
    is killed again and again, and a run that expires shows nothing.
    """
    return min(604_800, HELD * length)


def family(length: int) -> RunPart:
    """Return a run of which its caller says nothing but what it is: by default, then learned."""
    body = {"params": {"chart": FAMILY, "nodecount": 6}, "durationSeconds": held(length)}
    return RunPart("family", body, PodPlan(count=6, cpu_milli=500, seconds=length))


def pair(length: int) -> list[RunPart]:
    """Return two runs of declared cost: of 19.2 CPUs that may be used, the second waits."""
    mesh = {"params": {"chart": "mesh"}, "cost": {"cpu": 10, "memory": "10Gi"}}
    body = {**mesh, "durationSeconds": held(length)}
    return [
        RunPart("room", body, PodPlan(4, 2500, length * 4 // 3)),
        RunPart("queue", {**body, "queue": True}, PodPlan(4, 2500, length // 2)),
    ]


def crash(length: int) -> RunPart:
    """Return a run whose pod fails, and whose caller does not say so."""
    peers = {"chart": "nimlibp2p", "number_of_peers": 1}
    pods = PodPlan(1, 500, length // 3, fails=True)
    body = {"params": peers, "durationSeconds": held(length)}
    return RunPart("crash", body, pods, silent=True)


def opening(length: int) -> list[RunPart]:
    """Return what is asked at first, of a cluster of 24 CPUs."""
    large = {"params": {"chart": FAMILY, "nodecount": 3000}}
    return [family(length), RunPart("large", large, None), crash(length), *pair(length)]


class Starter(Protocol):
    """What makes pods for runs."""

    def make(self, name: str, plan: PodPlan) -> None:
        """Make the pods of a run."""
        ...

    def ended(self) -> dict[str, str]:
        """Return how the pods of runs ended that have, by name."""
        ...

    def remove(self, name: str) -> None:
        """Remove the pods of a run."""
        ...


@dataclass
class _Own:
    """One run of ours that is not over: its part, its pods, and whether they were made."""

    part: RunPart
    pods: PodPlan
    made: bool = False


Call = Callable[..., Any]
"""Asks the API: method, path, body, and the idempotency key."""


@dataclass
class RunScript:
    """Plays all parts, a step at each tick; nothing waits.

    names: Records of all runs that it asked for.
    finished: Whether every part was played to its end.
    """

    call: Call
    pods: Starter
    length: int
    names: set[str] = field(default_factory=set)
    _waiting: list[RunPart] = field(default_factory=list)
    _own: dict[str, _Own] = field(default_factory=dict)
    _asked: int = 0
    _tries: Counter[str] = field(default_factory=Counter)
    _rest: int = 0

    def __post_init__(self) -> None:
        """Begin with the parts that are asked for at first."""
        self._waiting += opening(self.length)

    @property
    def finished(self) -> bool:
        """Tell whether nothing is left to ask, to run and to remove."""
        return not self._waiting and not self._own

    def again(self) -> None:
        """Ask for one more run of the family at the next step."""
        self._waiting.append(family(self.length))

    def step(self, simulations: Sequence[Mapping[str, Any]]) -> None:
        """Do what is to be done now, of the runs as they are stored; later if no answer comes."""
        try:
            self._ask_waiting()
            ends = self.pods.ended() if any(each.made for each in self._own.values()) else {}
            for each in simulations:
                own = self._own.get(each["metadata"]["name"])
                if own is not None:
                    self._follow(each, own, ends)
        except exits.Failure as problem:
            # It has just been killed, or a successor does not decide yet.
            if problem.code != exits.UNREACHABLE:
                raise

    def _ask_waiting(self) -> None:
        """Ask for the parts whose turn it is, once the cluster is measured; denied ones later."""
        self._rest -= 1
        if not self._waiting or self._rest > 0:
            return
        if self.call("GET", f"/api/v1/clusters/{CLUSTER}")["status"]["mode"] != "measured":
            return
        for each in tuple(self._waiting):
            if self._ask(each):
                self._waiting.remove(each)
            else:
                self._rest = REST

    def _ask(self, part: RunPart) -> bool:
        """Ask for a part; tell whether that is settled, or to be asked again at another tick."""
        key = f"demo-run-{self._asked}"
        told = self.call("POST", "/request_run", {"cluster": CLUSTER, **part.body}, key)
        self._asked += 1
        self.names.add(str(told["record"]))
        if told["decision"] == "denied":
            return NEVER_FITS in told["reasons"]
        if part.pods is not None:
            self._own[str(told["simulation_id"])] = _Own(part, part.pods)
        if part.name == "queue" and told["decision"] != "queued" and self._may_try(part):
            # The server was down for so long that nothing was there to wait for.
            self._waiting += pair(self.length)
        return True

    def _follow(self, run: Mapping[str, Any], own: _Own, ends: Mapping[str, str]) -> None:
        name, status = str(run["metadata"]["name"]), run["status"]
        if status["phase"] in HOLDING:
            if not own.made:
                if status.get("takeUpBy"):
                    self.call("POST", "/simulation_heartbeat", {"simulation_id": name})
                self.pods.make(name, own.pods)
                own.made = True
            elif name in ends and not own.part.silent:
                body = {"simulation_id": name, "status": ends[name]}
                self.call("POST", "/simulation_complete", body)
        elif status["phase"] not in LIVE:
            self.pods.remove(name)
            del self._own[name]
            if not shown(own.part, run) and self._may_try(own.part):
                self._waiting.append(own.part)

    def _may_try(self, part: RunPart) -> bool:
        """Tell whether a run that did not show what it shall is asked for once more."""
        self._tries[part.name] += 1
        return self._tries[part.name] < TRIES


def shown(part: RunPart, run: Mapping[str, Any]) -> bool:
    """Tell whether a run that is over has shown what its part is for."""
    if part.name == "family":
        return bool(learned_from(run))
    return not part.silent or run["status"]["phase"] == "FAILED"


def learned_from(run: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the past runs by which a run's CPU was judged; none when its caller stated it."""
    if (run["spec"].get("cost") or {}).get("cpuMilli") is not None:
        return ()
    for each in (run["status"].get("prediction") or {}).get("forecasts") or ():
        if each["resource"] == "cpu_milli" and each["evidence"] in LEARNED:
            return tuple(each["runs"])
    return ()
