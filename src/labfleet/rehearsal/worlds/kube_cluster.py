"""One cluster of a rehearsal: the Kubernetes simulator's core in virtual time, and what it truly holds.

The simulator decides what pods take and how they end. Whatever reads it lets happen first what fell
due; `run` does so when nobody reads. What became of the pods of each run is kept by the run's name, as
their label says it: the truth of the rules, which no view and no figure changes.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from kubernetes_simulator.core import settling
from kubernetes_simulator.core.access import Access
from kubernetes_simulator.core.deleting import begin
from kubernetes_simulator.core.inputs import Json
from kubernetes_simulator.core.kinds import NODES, PODS
from kubernetes_simulator.core.making import make
from kubernetes_simulator.core.node_use import OWN_BYTES, OWN_BYTES_PER_SECOND, OWN_CORES
from kubernetes_simulator.core.runs import Run
from kubernetes_simulator.core.settings import Settings
from kubernetes_simulator.core.store import Change
from kubernetes_simulator.core.world import ENDED, World
from labfleet.rehearsal.time.loop import Loop, Process, current
from labfleet.rehearsal.time.virtual_host import EPOCH, SeededRng
from labfleet.resources.cluster_access import RUN_LABEL

RESOURCES = ("cpu_milli", "memory_mib", "network_kbps")
"""What a run takes, in the order of every row of numbers here."""
Row = tuple[float, float, float]
START = EPOCH.timestamp()
NODE_COUNT = 2
NODE_SHARE = 0.75
"""What of the cluster's room one node has: both have half as much again, one alone has not all."""
ASKED = 0.1
"""What pods request of what they come to take: the scheduler spreads them and refuses none."""
LIMITED = 0.975
"""What of its memory a run may have that is killed for it."""
SPACE = "default"
TOGETHER = 60.0
"""Pods that end within so many seconds of the last one of their run ended with it."""
LARGE, NOTHING = "large", "nothing"
"""How a source of metrics lies."""
TOO_LARGE = 1e5
"""By what a source multiplies that says far too much."""
MOST_LISTENERS = 40
"""Watches of one cluster that are told; those of a process that watches anew are the oldest."""
WINDOW = 120.0
"""Seconds over which a source takes its rates, as the built-in PromQL does."""
_WORST_FIRST = ("OOMKilled", "Evicted", "Failed", "Gone", "Completed")


@dataclass(frozen=True, slots=True)
class Need:
    """What a run comes to take, for how many seconds, and whether it is killed for its memory."""

    peaks: Row
    seconds: float
    killed: bool


@dataclass(slots=True)
class RunTruth:
    """What truly became of one run's pods.

    live: Phases of the pods that are not over, by uid. pods: Uids of all of them. ran: When the first
    container of it ran; None before that. over: When the last of its pods was over. ends: When and
    how each was over, in the words of a view. removed: Whether its script has deleted its pods.
    """

    live: dict[str, str] = field(default_factory=dict)
    pods: list[str] = field(default_factory=list)
    ran: float | None = None
    over: float | None = None
    ends: list[tuple[float, str]] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    removed: bool = False

    @property
    def how(self) -> str:
        """Return how the run ended: as the worst of the pods that ended with the last one."""
        return _worst(self.ends)

    @property
    def told(self) -> frozenset[str]:
        """Return how the run may be said to have ended.

        Of a pod that is gone a process knows nothing that began to look later.
        """
        there = [each for each in self.ends if each[1] != "Gone"]
        found = {_worst(self.ends), _worst(there), "Gone" if self.removed else ""}
        return frozenset(found - {""})


@dataclass(slots=True)
class Told:
    """The least and the most that any process was told of one figure of a run."""

    least: float = math.inf
    most: float = 0.0

    def add(self, value: float) -> None:
        """Note what was told."""
        self.least, self.most = min(self.least, value), max(self.most, value)


@dataclass(slots=True)
class KubeCluster:
    """A cluster of a name and, about, a size; `runs` is what became of each run's pods.

    `told` is what sources said of each run, by its name and figure; `views` when views told that it
    runs. `good` is when each part of the cluster was last told as it is, `bad` since when it was not
    although somebody asked. `seen`: its pods are looked at; `lies`: how what it measures is not true now;
    `silent_since`: since when its API server answers nothing; `cuts`: how often watches were cut;
    `asked`: its API is asked for figures, of which `clock_off` is by how much their clock is wrong.
    """

    name: str
    loop: Loop
    rng: SeededRng
    room: Row
    world: World = field(init=False)
    runs: dict[str, RunTruth] = field(default_factory=dict)
    told: dict[str, dict[str, Told]] = field(default_factory=dict)
    views: dict[str, deque[float]] = field(default_factory=dict)
    good: dict[str, float] = field(default_factory=dict)
    bad: dict[str, float] = field(default_factory=dict)
    seen: bool = False
    lies: str = ""
    silent_since: float | None = None
    cuts: int = 0
    asked: bool = False
    clock_off: float = 0.0
    decoded: dict[tuple[str, str], Any] = field(default_factory=dict)
    """Objects as the adapter reads them, by uid and version."""
    _listeners: list[tuple[Process | None, asyncio.Event]] = field(default_factory=list)
    _read: int = 0
    _due: float | None = None
    _moved: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        settings = Settings(
            seed=self.rng.getrandbits(32), pull_seconds=8.0, start_seconds=3.0, most_changes=4000
        )
        cpu, memory = (each * NODE_SHARE for each in self.room[:2])
        size = (NODE_COUNT, f"{cpu:.0f}m", f"{memory:.0f}Mi")
        self.world = settling.founded(settings, self.rng, Access(), self._now(), size)
        self._read = self.world.store.revision

    def _now(self) -> float:
        return START + self.loop.time()

    # --- time ---------------------------------------------------------------------------------

    def settle(self) -> World:
        """Let happen what fell due, and return the simulator's world as it is now."""
        world, now = self.world, self._now()
        if world.dirty or (world.timers and world.timers[0][0] <= now):
            settling.settle(world, now)
        world.now = max(world.now, now)
        if world.store.revision > self._read:
            for change in world.store.since(self._read):
                if change.path == PODS.path:
                    self._hear(change)
            self._read = world.store.revision
            self._listeners = [each for each in self._listeners if _lives(each[0])]
            for _, heard in self._listeners:
                heard.set()
        if world.next_due != self._due:
            self._due = world.next_due
            self._moved.set()
        return world

    def listener(self) -> asyncio.Event:
        """Return what is set when anything has changed, for as long as this process lives."""
        heard = asyncio.Event()
        self._listeners.append((current(), heard))
        del self._listeners[:-MOST_LISTENERS]
        return heard

    def silent(self, *, on: bool) -> None:
        """Let the API server say nothing any more, or speak again."""
        self.silent_since = self.loop.time() if on else None
        for _, heard in self._listeners:
            heard.set()

    def cut(self) -> bool:
        """Cut all watches; tell whether there was one."""
        self.cuts += 1
        for _, heard in self._listeners:
            heard.set()
        return any(_lives(process) for process, _ in self._listeners)

    async def run(self) -> None:
        """Let everything happen when it is due, for ever."""
        while True:
            due = self.settle().next_due
            self._moved.clear()
            try:
                async with asyncio.timeout(None if due is None else max(0.0, due - self._now())):
                    await self._moved.wait()
            except TimeoutError:
                pass

    # --- what was told ------------------------------------------------------------------------

    def heard(self, part: str) -> None:
        """Note that a process was told a part of the cluster as it is."""
        self.good[part] = self.loop.time()
        self.bad.pop(part, None)

    def failed(self, part: str) -> None:
        """Note that a process asked for a part of the cluster and was told nothing true."""
        self.bad.setdefault(part, self.loop.time())

    def blind_since(self, part: str) -> float | None:
        """Return since when nobody was told a part as it is; None while it is known."""
        return self.bad.get(part)

    def viewed(self, run: str) -> None:
        """Note that a process was told that a run's pods run."""
        self.views.setdefault(run, deque(maxlen=8)).append(self.loop.time())

    # --- pods of runs ---------------------------------------------------------------------------

    def start(self, run: str, need: Need, *, pods: int) -> None:
        """Let so many pods of a run start, which share what it takes."""
        self.runs[run] = RunTruth()
        world = self.settle()
        for number in range(pods):
            # Only one of them is limited, so that another may outlive it.
            make(world, PODS, _pod(f"{run}-{number}", run, need, pods, limited=number == 0))
        self.settle()

    def remove(self, run: str) -> None:
        """Delete the pods of a run, those that are over too."""
        world = self.settle()
        self.runs[run].removed = True
        for pod in world.store.all(PODS, SPACE):
            if pod["metadata"].get("labels", {}).get(RUN_LABEL) == run:
                begin(world, PODS, pod, None)
        self.settle()

    def _hear(self, change: Change) -> None:
        """Keep what a change says of a run's pods."""
        pod, meta = change.obj, change.obj["metadata"]
        run = self.runs.get((meta.get("labels") or {}).get(RUN_LABEL, ""))
        if run is None:
            return
        uid, at = meta["uid"], self.loop.time()
        phase = pod.get("status", {}).get("phase", "Pending")
        if change.kind == "ADDED":
            run.live[uid] = phase
            run.pods.append(uid)
        if uid not in run.live:
            return
        if phase == "Running" and run.ran is None:
            run.ran = at
        if change.kind != "DELETED" and phase not in ENDED:
            run.live[uid] = phase
            return
        del run.live[uid]
        how = _how(pod) if phase in ENDED else "Gone"
        run.ends.append((at, how))
        if not run.live:
            run.over = at
            run.ended.set()

    # --- what is taken ------------------------------------------------------------------------

    def load(self, *, without: frozenset[str] = frozenset()) -> Row:
        """Return what the pods of all runs take at this instant, less those of some runs."""
        world, sums = self.settle(), [0.0, 0.0, 0.0]
        for name, run in self.runs.items():
            for uid in run.live if name not in without else ():
                found = world.runs.get(uid)
                if found is not None:
                    sums[0] += found.takes("cpu", world.now) * 1000
                    sums[1] += found.takes("memory", world.now) / 2**20
                    sums[2] += found.takes("sent", world.now) / 125
        return (sums[0], sums[1], sums[2])

    def most(self, run: str) -> Row:
        """Return the sum of what each pod of a run has taken at most so far."""
        world, sums = self.settle(), [0.0, 0.0, 0.0]
        for uid in self.runs[run].pods:
            found = world.run_of(uid)
            for each in () if found is None else found.attempts:
                age = each.age(world.now)
                sums[0] += sum(one.cpu.most(age) for one in each.containers) * 1000
                sums[1] += sum(one.memory.most(age) for one in each.containers) / 2**20
                sums[2] += each.sent.most(age) / 125
        return (sums[0], sums[1], sums[2])

    def measured(self) -> tuple[dict[str, Row], dict[str, Row]]:
        """Return what a source measures now of each run and of each node that is there.

        CPU and network are means over the window, as a counter gives them; memory is what is held.
        """
        world = self.settle()
        of_runs: dict[str, Row] = {}
        of_nodes: dict[str, Row] = {
            name: (OWN_CORES * 1000, OWN_BYTES / 2**20, OWN_BYTES_PER_SECOND / 125)
            for _, name in world.store.tables[NODES.path]
            if name not in world.silent
        }
        for run, truth in self.runs.items():
            for uid in truth.live:
                found = world.runs.get(uid)
                if found is not None and found.attempts and found.node in of_nodes:
                    row = _row(found, world.now)
                    of_runs[run] = _plus(of_runs.get(run), row)
                    of_nodes[found.node] = _plus(of_nodes[found.node], row)
        return of_runs, of_nodes


def _worst(ends: list[tuple[float, str]]) -> str:
    last = max((at for at, _ in ends), default=0.0)
    final = [how for at, how in ends if at >= last - TOGETHER]
    return min(final, key=_WORST_FIRST.index, default="")


def _lives(process: Process | None) -> bool:
    return process is None or process.alive


def _row(run: Run, now: float) -> Row:
    cpu, sent = run.mean("cpu", now, WINDOW), run.mean("sent", now, WINDOW)
    return (cpu * 1000, run.takes("memory", now) / 2**20, sent / 125)


def _plus(one: Row | None, other: Row) -> Row:
    if one is None:
        return other
    return (one[0] + other[0], one[1] + other[1], one[2] + other[2])


def _pod(name: str, run: str, need: Need, pods: int, *, limited: bool) -> Json:
    cpu, memory, sent = (each / pods for each in need.peaks)
    resources: Json = {
        "requests": {"cpu": f"{cpu * ASKED:.0f}m", "memory": f"{memory * ASKED:.0f}Mi"}
    }
    if need.killed and limited:
        resources["limits"] = {"memory": f"{memory * LIMITED * 2**20:.0f}"}
    says = {
        "cpu": f"{cpu:.3f}m",
        "memory": f"{memory * 2**20:.0f}",
        "network-out": f"{sent * 125:.0f}",
        "duration": f"{need.seconds:.3f}s",
    }
    return {
        "metadata": {
            "name": name,
            "namespace": SPACE,
            "labels": {RUN_LABEL: run},
            "annotations": {f"kubernetes-simulator/{key}": text for key, text in says.items()},
        },
        "spec": {
            "containers": [{"name": "lab", "image": "lab", "resources": resources}],
            "restartPolicy": "Never",
        },
    }


def _how(pod: Json) -> str:
    """Return how a pod ended that is over, in the words of a view."""
    status = pod["status"]
    if status.get("reason") == "Evicted":
        return "Evicted"
    if status["phase"] == "Succeeded" and not pod["metadata"].get("deletionTimestamp"):
        return "Completed"
    ends = [each["state"].get("terminated", {}) for each in status.get("containerStatuses") or ()]
    if any(each.get("reason") == "OOMKilled" for each in ends):
        return "OOMKilled"
    return "Gone" if pod["metadata"].get("deletionTimestamp") else "Failed"
