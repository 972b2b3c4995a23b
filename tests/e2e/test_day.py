"""A day of two hundred runs: real kubectl, a real Prometheus, the server, and callers of all kinds."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from day_blindness import Blindness
from day_callers import HELM, JUDGED, NO_PODS, PLAIN, SILENT, Caller, Callers, planned
from day_world import (
    LABEL,
    RATE,
    WINDOW,
    Kube,
    Prometheus,
    described,
    metric,
    mode,
    scraping,
    served,
    simulated,
)  # fmt: skip
from promql_proxy import proxied
from server_process import ServerProcess, until

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
ASKING = 120.0
"""Real seconds in which the callers come."""
CUTS = 50
APART = 12.0
"""Seconds between two comparisons of the pods that are seen with those that there are: watches that
are cut again and again are begun anew ever more slowly."""
SAFE = 240
"""Fleet seconds after which figures are too old."""
LOOK = 2 * 30 / RATE + 1.0
"""Seconds from one sample to the next: between two looks of which one is late, after one scrape."""
FIGURES = {
    "cpu_milli": ("cpu", 1000.0, WINDOW),
    "memory_mib": ("memory", 2.0**-20, 0),
    "network_in_kbps": ("received", 8 / 1000, WINDOW),
}
"""By figure of the product what the simulator calls it, the factor, and the window of its query."""
LIVE = {"QUEUED", "APPROVED", "RUNNING"}
ENDS: dict[str, tuple[str, set[str]]] = {
    "waits": ("COMPLETED", {"Completed", "PodsRunning"}),
    "holds": ("COMPLETED", {"PodsRunning"}),
    "looks": ("COMPLETED", {"Completed", "PodsRunning"}),
    "broken": ("FAILED", {""}),
    "crashes": ("FAILED", {"PodsFailed", "PodsRunning"}),
    "killed": ("COMPLETED", {"Completed"}),
    "stopped": ("CANCELLED", {"PodsRunning"}),
    "reports": ("COMPLETED", {"Completed", "PodsRunning"}),
    "forgets": ("COMPLETED", {"Completed"}),
    "silent crash": ("FAILED", {"PodsFailed"}),
    "says failed": ("FAILED", {"PodsFailed", "PodsRunning"}),
    "OOM": ("FAILED", {"OOMKilled"}),
    "evicted": ("FAILED", {"Evicted"}),
    "removed": ("COMPLETED", {"PodsGone"}),
    "absent": ("EXPIRED", {""}),
}
"""How a run ends, and what its pods said last; who reports may do so before the next look."""


@dataclass
class World:
    """All that the day needs."""

    kube: Kube
    prometheus: Prometheus
    server: ServerProcess
    folder: Path
    epoch: float
    clocks: Future[None]

    def instant(self, fleet: str) -> float:
        """Return the real instant of one of the fleet's."""
        return self.epoch + (datetime.fromisoformat(fleet).timestamp() - self.epoch) / RATE


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One cluster, one Prometheus and one server for the whole day; beside it one in real time."""
    folder = tmp_path_factory.mktemp("day")
    for name in ("cluster", "prometheus", "callers"):
        (folder / name).mkdir()
    with ExitStack() as kept:
        kube = kept.enter_context(simulated(folder / "cluster"))
        target = kube.it.url.removeprefix("https://")
        prometheus = kept.enter_context(scraping(folder / "prometheus", target))
        thread = kept.enter_context(ThreadPoolExecutor(1))
        clocks = thread.submit(clock_story, folder / "clock", kube, prometheus.url)
        epoch = float(int(time.time()))
        cluster = described(prometheus.url, "default", safeAfterSeconds=SAFE)
        server = kept.enter_context(served(folder / "server", kube, cluster, RATE))
        yield World(kube, prometheus, server, folder, epoch, clocks)


@dataclass
class Moments:
    """Compares from time to time what the server sees with what there is.

    ages: At real instants, how many real seconds old its newest figures were.
    """

    kube: Kube
    before: set[str] = field(default_factory=set)
    seen: set[str] = field(default_factory=set)
    taken: float = 0.0
    compared: int = 0
    wrong: list[str] = field(default_factory=list)
    ages: list[tuple[float, float]] = field(default_factory=list)

    def compare(self, runs: dict[str, dict[str, Any]]) -> None:
        """What ran at two moments is seen to run; what ran at neither is not seen at both."""
        pods = [each for each in self.kube.pods() if each["status"].get("phase") == "Running"]
        now = {each["metadata"]["labels"][LABEL] for each in pods}
        both, either, seen_before = self.before & now, self.before | now, self.seen
        self.seen = set()
        for name, each in runs.items():
            status = each["status"]
            if status["phase"] not in {"APPROVED", "RUNNING"}:
                continue
            if told(status) == "PodsRunning":
                self.seen.add(name)
            if name in both and name not in self.seen:
                self.wrong.append(f"{name} runs and is not seen")
            if name in self.seen & seen_before and name not in either:
                self.wrong.append(f"{name} is seen and does not run")
            self.compared += name in both
        self.before = now

    def gap(self, begin: float, end: float) -> float:
        """Return how old figures became between two instants."""
        return max((age for at, age in self.ages if begin <= at <= end), default=0.0)


def told(status: dict[str, Any]) -> str:
    """Return what the pods of a run said last."""
    found = [each for each in status["conditions"] if each["type"] == "PodsLive"]
    return found[0]["reason"] if found else ""


def played(callers: Callers, world: World) -> Moments:
    """Let the day pass until every caller is done; the watches are cut fifty times meanwhile."""
    kube = world.kube
    moments, began, cuts = Moments(kube), time.monotonic(), 0
    while not callers.over:
        now = time.monotonic() - began
        callers.step()
        if cuts < CUTS and now > cuts * ASKING / CUTS:
            cuts += 1
            kube.ask("/_control/watches/cut", {})
        if now - moments.taken > APART:
            moments.taken = now
            moments.compare(callers.runs())
        age = metric(world.server, "labfleet_cluster_figures_age_seconds", part="metrics")
        moments.ages.append((time.time(), age / RATE))
        time.sleep(max(0.0, began + now + 0.5 - time.monotonic()))
    assert cuts == CUTS
    return moments


def ended(caller: Caller, run: dict[str, Any]) -> list[str]:
    """Return what is wrong with how a run ended."""
    status, (phase, said) = run["status"], ENDS[caller.does]
    wrong = []
    if status["phase"] != phase or told(status) not in said:
        wrong.append(f"is {status['phase']} by {told(status)}")
    silent = caller.does in SILENT or caller.does == "killed"
    if silent != ("its caller did not report its end" in status["note"]):
        wrong.append(f"has the note {status['note']!r}")
    if caller.does == "absent" and "no longer reported" not in status["note"]:
        wrong.append(f"has the note {status['note']!r}")
    if status["reported"] == (silent or caller.does == "absent"):
        wrong.append(f"reported is {status['reported']}")
    return wrong


def measured(
    world: World, moments: Moments, caller: Caller, run: dict[str, Any]
) -> tuple[list[str], float | None]:
    """Return what is wrong with the peaks of a run, and by which share one is furthest off.

    None: it lived too short to be measured, or nobody looked for a while.
    """
    status, wrong, furthest = run["status"], list[str](), 0.0
    end, begin = world.instant(status["completedAt"]), world.instant(status["decidedAt"])
    looked = caller.does in JUDGED and moments.gap(begin, end) < LOOK
    for figure, (name, scale, longest) in FIGURES.items():
        # What ended within the window was measured since its start, by a quarter of it at least.
        window = longest if caller.does in JUDGED else longest / 4
        seen = (status["used"].get(figure) or {}).get("peak")
        if seen is None:
            wrong += [f"has no {figure}"] if looked else []
            continue
        # One sample less is a window that is a scrape shorter, or an end that is a look earlier.
        true, short, before = (
            world.kube.truth(caller.name, over, at)[name]["peak"] * scale
            for over, at in ((window, end), (window * 0.9, end), (window, end - LOOK))
        )
        if seen > max(true * 1.05, short) or (looked and seen < before * 0.95):
            wrong.append(f"{figure} {seen:g}, truly {true:g}, by one sample {short:g}, {before:g}")
        furthest = max(furthest, abs(seen / true - 1))
    return wrong, furthest if looked else None


def test_each_run_of_a_day_ends_as_it_did_and_used_what_it_did(world: World) -> None:
    """Two hundred callers; peaks within five percent or one sample; nothing lost, nothing left."""
    callers = Callers(world.server, world.kube, world.folder / "callers", planned(ASKING))
    try:
        moments = played(callers, world)
        print(f"{moments.compared} times a run was seen to run")
        assert not moments.wrong, "\n".join(moments.wrong)
        assert moments.compared > 30
        until(lambda: not any(each["status"]["phase"] in LIVE for each in callers.runs().values()),
              "the end of the last run")  # fmt: skip
        callers.sweep()
        until(lambda: not world.kube.pods(), "no pod is left")
    finally:
        callers.end()
    runs = callers.runs()
    accounted(callers, runs)
    wrong, off = list[str](), list[float]()
    for each in callers.all:
        if each.name:
            found = ended(each, runs[each.name])
            peaks, furthest = measured(world, moments, each, runs[each.name])
            off += [] if furthest is None else [furthest]
            wrong += [f"{each.number} {each.does} {each.name} {one}" for one in (*found, *peaks)]
    off.sort()
    near, half = sum(1 for each in off if each <= 0.05), off[len(off) // 2]
    print(f"{len(off)} runs measured, {near} within 5 %; half within {half:.1%}, all {off[-1]:.1%}")
    assert len(off) > 90
    assert not wrong, "\n".join(wrong)
    remembered(world.server, callers, runs)


def accounted(callers: Callers, runs: dict[str, dict[str, Any]]) -> None:
    """Every caller was let in once or never fits; every record is one caller's; some waited."""
    large = [each for each in callers.all if each.does == "large"]
    let_in = {each.name for each in callers.all if each.does != "large"}
    assert (len(callers.all), len(large)) == (sum(HELM.values()) + sum(PLAIN.values()), 6)
    assert len(let_in) == 194
    phases = Counter(each["status"]["phase"] for each in runs.values())
    assert phases["DENIED"] == sum(each.denied for each in callers.all)
    assert set(runs) - let_in == {
        n for n, each in runs.items() if each["status"]["phase"] == "DENIED"
    }
    reasons = Counter(
        each["status"]["decision"]["reason"]
        for each in runs.values()
        if each["status"]["phase"] == "DENIED"
    )
    assert reasons.pop("NeverFits") == len(large)
    assert set(reasons) <= {"NoCapacityAvailable", "OthersWait"}
    waited = [n for n in let_in if runs[n]["status"]["askedAt"] != runs[n]["status"]["decidedAt"]]
    print(f"{phases}, of them {len(waited)} waited in the queue; denials: {reasons}")
    assert waited


def remembered(server: ServerProcess, callers: Callers, runs: dict[str, dict[str, Any]]) -> None:
    """The history has a row of each run that held something, with what was measured of it."""
    rows = server.call("GET", "/api/v1/history?kind=Simulation&limit=500")["items"]
    past = {each["run"]["name"]: each["run"] for each in rows}
    assert set(past) == {e.name for e in callers.all if e.name and e.does != "absent"}
    for each in callers.all:
        if each.name in past and each.does not in NO_PODS:
            row, used = past[each.name], runs[each.name]["status"]["used"]
            assert row["use"] == used
            assert row["source"] == ("measured" if used else "reported")
    ends = {each.name: past[each.name]["censored"] for each in callers.all if each.does == "OOM"}
    assert set(ends.values()) == {"OOMKilled"}


def test_prometheus_that_hangs_or_is_killed_stops_nothing_that_runs(world: World) -> None:
    """Held by SIGSTOP, then killed and begun anew: safe mode comes, and goes by itself."""
    story = Blindness(world.server, world.kube, "default", SAFE)
    prometheus = world.prometheus
    story.begin()
    story.story(prometheus.hold, "no answer in time", prometheus.go_on)
    story.story(prometheus.kill, "refused", prometheus.start)
    story.end()


def clock_story(folder: Path, kube: Kube, upstream: str) -> None:
    """In real time, since a scaled clock is not compared: hours ahead, hours behind, and slow."""
    kube.kubectl("create", "namespace", "clock")
    with proxied(upstream) as proxy:
        cluster = described(proxy.url, "clock", safeAfterSeconds=30)
        with served(folder, kube, cluster, 1.0) as server:
            assert mode(server) == "measured"
            story = Blindness(server, kube, "clock", 30)
            story.begin()

            def late() -> None:
                proxy.delay = 60.0

            def in_time() -> None:
                proxy.delay = 0.0
                proxy.released.set()

            story.story(lambda: proxy.off(3 * 3600.0), "s ahead of ours", lambda: proxy.off(0.0))
            story.story(lambda: proxy.off(-3 * 3600.0), "s behind ours", lambda: proxy.off(0.0))
            story.story(late, "no answer in time", in_time)
            story.end()


def test_a_source_with_a_wrong_clock_or_late_answers_is_not_believed(world: World) -> None:
    """The story that passed beside the day: each time safe mode came, and went by itself."""
    world.clocks.result(timeout=300)
    assert world.kube.pods("clock") == []
