"""The day's callers: half start `labfleet admit` around kubectl, as around helm; half speak HTTP.

One thread plays all of them, a step at a time: who asks now, whose pods are over, who reports, and
who forgets to.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from day_world import LABEL, RATE, Kube
from server_process import ServerProcess

HELM: dict[str, int] = {
    "waits": 52, "holds": 20, "looks": 12, "broken": 4, "crashes": 4, "killed": 3, "stopped": 2,
    "large": 3,
}  # fmt: skip
"""How many of the callers that wrap a command do what."""
PLAIN: dict[str, int] = {
    "reports": 70, "forgets": 8, "silent crash": 5, "says failed": 4, "OOM": 4, "evicted": 2,
    "removed": 2, "absent": 2, "large": 3,
}  # fmt: skip
"""The same of those that speak HTTP."""
JUDGED = frozenset({
    "waits", "holds", "looks", "crashes", "killed", "reports", "forgets", "silent crash", "says failed",
})  # fmt: skip
"""Whose runs last long enough to be measured: longer than the window of rates and two looks."""
NO_PODS = frozenset({"broken", "large", "absent"})
SILENT = frozenset({"forgets", "silent crash", "OOM", "evicted", "removed"})
TTL = 300
"""Fleet seconds: who reports at real half times of that never does in time, so pods speak."""


@dataclass
class Caller:
    """One caller: what it does, when it asks (real seconds), what it starts, and what came of it.

    shape: Pods, CPU and memory of each, network in bytes a second, and how long it runs (real s).
    denied: How often it was denied. name: The Simulation that was let in.
    """

    number: int
    way: str
    does: str
    at: float
    shape: tuple[int, int, int, int, float]
    queues: bool
    denied: int = 0
    name: str = ""
    state: str = "to ask"
    process: subprocess.Popen[bytes] | None = None
    log: Path | None = None
    since: float = 0.0

    @property
    def params(self) -> dict[str, Any]:
        """What makes its run what it is: two charts, and others of declared cost."""
        pods = 3000 if self.does == "large" else self.shape[0]
        chart = ("waku", "nimlibp2p", "bench")[self.number % 3]
        return {"chart": chart, "number_of_peers" if chart == "nimlibp2p" else "nodecount": pods}

    @property
    def cost(self) -> dict[str, Any] | None:
        """What it declares: of the third chart nobody would know."""
        pods = 3000 if self.does == "large" else self.shape[0]
        return {"cpu": pods / 2, "memory": f"{pods * 400}Mi"} if self.number % 3 == 2 else None


def planned(seconds: float) -> list[Caller]:
    """Return two hundred callers over so many seconds; the same ones each time."""
    rng = random.Random(16)
    kinds = [("helm", does) for does, count in HELM.items() for _ in range(count)]
    kinds += [("plain", does) for does, count in PLAIN.items() for _ in range(count)]
    rng.shuffle(kinds)
    made = []
    for number, (way, does) in enumerate(kinds):
        pods = rng.choice((1, 1, 2, 3))
        cpu, memory = rng.randrange(200, 450), rng.randrange(100, 300)
        network, lasts = rng.randrange(200_000, 2_000_000), rng.uniform(16.0, 22.0)
        shape = (pods, cpu, memory, network, lasts)
        queues = rng.random() < 0.6 or does not in {"reports", "waits"}
        made.append(Caller(number, way, does, seconds * number / len(kinds), shape, queues))
    return made


def template(caller: Caller, name: str) -> dict[str, Any]:
    """Return the pod of a caller's run, which carries its name."""
    _, cpu, memory, network, lasts = caller.shape
    fails = caller.does in {"crashes", "silent crash", "says failed"}
    says = {
        "cpu": f"{cpu}m", "memory": f"{memory}Mi", "network-in": str(network), "network-out": "50k",
        "ramp": "0.2", "duration": f"{lasts * RATE:.0f}", "exit-code": "3" if fails else "0",
    }  # fmt: skip
    limit = f"{memory - 20 if caller.does == 'OOM' else 500}Mi"
    resources = {"requests": {"cpu": "400m", "memory": "64Mi"}, "limits": {"memory": limit}}
    return {
        "metadata": {
            "labels": {LABEL: name, "app": "day"},
            "annotations": {f"kubernetes-simulator/{key}": text for key, text in says.items()},
        },
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "node", "image": "node:1", "resources": resources}],
        },
    }


def pods_of(caller: Caller) -> list[dict[str, Any]]:
    """Return the bare pods of an HTTP caller's run."""
    found = []
    for place in range(caller.shape[0]):
        made = template(caller, caller.name)
        made["metadata"]["name"] = f"{caller.name}-{place}"
        found.append({"apiVersion": "v1", "kind": "Pod", **made})
    return found


def chart_of(caller: Caller) -> dict[str, Any]:
    """Return what a wrapped command applies: a Job, or for who only holds a StatefulSet; ID is the name."""
    pod, pods = template(caller, "ID"), caller.shape[0]
    named = {"metadata": {"name": "ID", "labels": {"app": "day"}}}
    if caller.does == "holds":
        pod["spec"]["restartPolicy"] = "Always"
        del pod["metadata"]["annotations"]["kubernetes-simulator/duration"]
        spec = {
            "serviceName": "ID", "replicas": pods, "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {LABEL: "ID"}}, "template": pod,
        }  # fmt: skip
        return {"apiVersion": "apps/v1", "kind": "StatefulSet", **named, "spec": spec}
    spec = {"completions": pods, "parallelism": pods, "backoffLimit": 0, "template": pod}
    if caller.does == "broken":
        spec["completionz"] = spec.pop("completions")
    return {"apiVersion": "batch/v1", "kind": "Job", **named, "spec": spec}


class Callers:
    """Plays the callers against one server and one cluster; `step` never waits."""

    def __init__(self, server: ServerProcess, kube: Kube, folder: Path, plan: list[Caller]) -> None:
        self.server, self.kube, self.folder = server, kube, folder
        self.all = plan
        self.began = time.monotonic()
        self.kubectls = 0
        self._swept = 0.0
        self.environment = {
            **kube.environment, "LABFLEET_URL": server.url, "LABFLEET_TOKEN_FILE": str(server.token),
        }  # fmt: skip

    @property
    def over(self) -> bool:
        """Tell whether every caller is done."""
        return all(each.state == "done" for each in self.all)

    def step(self) -> None:
        """Do what is due now of every caller."""
        now = time.monotonic() - self.began
        for each in self.all:
            if each.state == "to ask" and each.at <= now:
                self._begin(each)
        self._plain(now)
        for each in self.all:
            if each.process is not None and each.state != "done":
                self._wrapped(each, now)
        if now - self._swept > 10.0:
            self._swept = now
            self.sweep()

    def _begin(self, caller: Caller) -> None:
        if caller.way == "plain":
            self._ask(caller)
            return
        caller.process, caller.state = self._admit(caller), "runs"
        caller.since = time.monotonic() - self.began

    # --- around a command -------------------------------------------------------------------

    def _admit(self, caller: Caller) -> subprocess.Popen[bytes]:
        """Start `labfleet admit` as a run script would."""
        file = self.folder / f"chart-{caller.number}.json"
        file.write_text(json.dumps(chart_of(caller)))
        apply = f"sed s/ID/{{id}}/g {file} | kubectl apply -f -"
        waits = "kubectl wait job/{id} --timeout=90s --for="
        then, more = "", list[str]()
        match caller.does:
            case "waits" | "killed" | "stopped":
                then = f" && {waits}condition=complete"
            case "crashes":
                then = f" && {waits}condition=failed && exit 3"
            case "holds":
                more = ["--hold", f"{caller.shape[4]:.1f}s"]
            case "looks":
                look = "kubectl get job {id} -o jsonpath={.status.active} | grep -q ."
                more = ["--until-gone", f"sh -c '{look}'", "--every", "3s"]
        params = [f"--param={key}={value}" for key, value in caller.params.items()]
        said = ",".join(f"{key}={value}" for key, value in (caller.cost or {}).items())
        cost = [f"--cost={said}"] if said else []
        queue = ["--queue"] if caller.queues else []
        argv = [
            sys.executable, "-m", "labfleet", "admit", *params, *cost, *queue, f"--ttl={TTL}s", *more,
            "--", "sh", "-c", apply + then,
        ]  # fmt: skip
        caller.log = self.folder / f"log-{caller.number}"
        with caller.log.open("ab") as log:
            return subprocess.Popen(argv, env=self.environment, stdout=log, stderr=log)

    def _wrapped(self, caller: Caller, now: float) -> None:
        """See how a wrapped command goes on; two callers are killed, and two stopped, on the way."""
        assert caller.process is not None
        assert caller.log is not None
        if not caller.name and " is admitted" in (said := caller.log.read_text()):
            caller.name = next(word for word in said.split(" is admitted")[0].split()[::-1])
            caller.since = now
        if caller.name and now - caller.since > 6.0 and caller.does in {"killed", "stopped"}:
            sent = signal.SIGKILL if caller.does == "killed" else signal.SIGTERM
            if caller.state == "runs":
                caller.process.send_signal(sent)
                caller.state = "told"
        if caller.process.poll() is None:
            return
        if not caller.name:
            said = caller.log.read_text()[-1000:]
            assert caller.process.returncode == 7, (caller, said)
            caller.denied += 1
            never = "NeverFits" in said
            assert never == (caller.does == "large"), (caller, said)
            caller.state, caller.at = "done" if never else "to ask", now + 4.0
            caller.process = None
            return
        caller.state = "done"
        if caller.does in {"holds", "stopped"}:
            kind = "statefulset" if caller.does == "holds" else "job"
            self._kubectl("delete", kind, caller.name, "--wait=false", "--ignore-not-found")

    # --- by HTTP ----------------------------------------------------------------------------

    def _ask(self, caller: Caller) -> None:
        body: dict[str, Any] = {**caller.params, "cost": caller.cost}
        if caller.queues:
            body["queue"] = True
        if caller.does == "absent":
            body["ttl_seconds"] = 60
        told = self.server.call("POST", "/request_run", body)
        if told["decision"] == "denied":
            caller.denied += 1
            never = "NeverFits" in told["reasons"]
            assert never == (caller.does == "large"), told
            caller.state = "done" if never else "to ask"
            caller.at = time.monotonic() - self.began + 4.0
            return
        caller.name = told["simulation_id"]
        caller.state = "let in" if told["decision"] == "approved" else "queued"

    def _plain(self, now: float) -> None:
        """Let HTTP callers take up, start, look and report."""
        for each in self._in("queued"):
            status = self.server.call("GET", f"/api/v1/simulations/{each.name}")["status"]
            if status["phase"] == "APPROVED":
                self.server.call("POST", "/simulation_heartbeat", {"simulation_id": each.name})
                each.state = "let in"
        fresh = self._in("let in")
        made = [pod for each in fresh if each.does not in NO_PODS for pod in pods_of(each)]
        if made:
            self.kubectls += 1
            self.kube.apply(*made)
        for each in fresh:
            each.state, each.since = "done" if each.does in NO_PODS else "runs", now
        if not any(self._in("runs")):
            return
        ends: dict[str, Counter[str]] = {}
        for pod in self.kube.pods():
            run = pod["metadata"]["labels"].get(LABEL, "")
            ends.setdefault(run, Counter())[pod["status"].get("phase", "")] += 1
        for each in self._in("runs"):
            self._follow(each, ends.get(each.name, Counter()), now)

    def _follow(self, caller: Caller, phases: Counter[str], now: float) -> None:
        names = [f"{caller.name}-{place}" for place in range(caller.shape[0])]
        if caller.does in {"evicted", "removed"} and now - caller.since > 8.0:
            if caller.does == "removed":
                self._kubectl("delete", "pod", *names, "--wait=false", "--ignore-not-found")
            for name in names if caller.does == "evicted" else ():
                self.kube.ask(
                    f"/_control/pods/default/{name}/evict", {"message": "short of memory"}
                )
            caller.state = "done"
        elif phases["Succeeded"] + phases["Failed"] == caller.shape[0]:
            if caller.does not in SILENT:
                body: dict[str, Any] = {"simulation_id": caller.name}
                if caller.does == "says failed":
                    body["status"] = "failed"
                self.server.call("POST", "/simulation_complete", body)
            caller.state = "done"

    def _in(self, state: str) -> list[Caller]:
        return [each for each in self.all if each.way == "plain" and each.state == state]

    # --- both -------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Remove by one kubectl the pods and Jobs of runs that are over, as people do."""
        live = {"QUEUED", "APPROVED", "RUNNING"}
        over = {name for name, each in self.runs().items() if each["status"]["phase"] not in live}
        gone = []
        for pod in self.kube.pods():
            owners = pod["metadata"].get("ownerReferences") or []
            if pod["metadata"]["labels"].get(LABEL) in over and not owners:
                gone.append(f"pod/{pod['metadata']['name']}")
        jobs = self.kube.ask("/apis/batch/v1/namespaces/default/jobs")["items"]
        gone += [f"job/{name}" for each in jobs if (name := each["metadata"]["name"]) in over]
        if gone:
            self._kubectl("delete", *gone, "--wait=false", "--ignore-not-found")

    def runs(self) -> dict[str, dict[str, Any]]:
        """Return every Simulation that the server keeps, by name."""
        found: dict[str, dict[str, Any]] = {}
        more = ""
        while True:
            page = self.server.call("GET", f"/api/v1/simulations?limit=500{more}")
            found |= {each["metadata"]["name"]: each for each in page["items"]}
            if not page["next"]:
                return found
            more = f"&cursor={page['next']}"

    def _kubectl(self, *words: str) -> None:
        self.kubectls += 1
        self.kube.kubectl(*words)

    def end(self) -> None:
        """Leave no process behind."""
        for each in self.all:
            if each.process is not None and each.process.poll() is None:
                each.process.kill()
                each.process.wait(timeout=30)
