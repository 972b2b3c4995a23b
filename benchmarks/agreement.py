"""Does a what-if agree with the real server? A recorded day beside the same day, played.

`python -m benchmarks.agreement` starts the real server and both simulators as processes on a
fast clock, sends a day of demand from a seed to its API (people who come now, slots, an exam,
cancellations, extensions), and then asks a what-if over the recorded store. Prints both columns
and how far apart they are; the last line is JSON; exit 1 when a figure is further apart than 5 %.

Nothing is tuned to the recording: the machines' times are those that the AWS and CML simulators
state (480 s to launch metal, 240 s to boot CML, 300 s to end), and the clock's factor is the one
that the server was started with. A fast clock makes this machine's own seconds long ones, so the
what-if is told what a call and a write cost here (`callSeconds`, `storeSeconds`): machine seconds
of loopback calls to the idle simulator and of small durable commits, probed before the day begins.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from labfleet.app.demo import cast as casts
from labfleet.app.demo.play import TERMINAL, DemoPlan, Play
from labfleet.rehearsal import plan_command
from labfleet.rehearsal.plans import demand, plan
from labfleet.rehearsal.figures import tally
from labfleet.rehearsal.plans.demand import PlannedSession
from labfleet.rehearsal.plans.plan import Exam, Generated
from labfleet.rehearsal.whatif.what_if import play

ALLOWED = 0.05
JUDGED = ("completed", "worker_hours", "wait_p50", "wait_p95")
SHOWN = (*JUDGED, "requested", "cancelled", "failed", "expired", "wait_max", "peak_workers",
         "workers_used", "late_starts", "cost_usd", "utilisation")  # fmt: skip
# Labs that boot for minutes: on a fast clock the milliseconds of this machine are seconds, and
# a lab that is up in twenty would mostly measure those.
LABS = {"routing-pod": 90, "campus": 120}
LAUNCH_SECONDS, BOOT_SECONDS, END_SECONDS = 480.0, 240.0, 300.0
PROBES = 300
LEAD_IN = 120.0


@dataclass(frozen=True)
class Step:
    """One request at a fleet second."""

    at: float
    send: Callable[[], None]


def main(arguments: list[str] | None = None) -> int:
    """Record, play, compare."""
    options = _options(arguments)
    with tempfile.TemporaryDirectory(prefix="labfleet-agreement-") as temporary:
        folder = Path(options.data or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        begun = time.monotonic()
        if options.replay:
            told = json.loads((folder / "recorded.json").read_text())
        else:
            told = record(folder, options)
            (folder / "recorded.json").write_text(json.dumps(told))
        print(f"recorded in {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
        result = compare(folder, told, options)
    print(json.dumps(result))
    return 0 if result["agrees"] else 1


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agreement")
    parser.add_argument("--hours", type=float, default=24.0, help="fleet hours of demand")
    parser.add_argument("--speed", type=float, default=60.0, help="fleet seconds a real second")
    parser.add_argument("--seed", type=int, default=20261128, help="seed of the demand")
    parser.add_argument("--workers", type=int, default=6, help="most workers of the pool")
    parser.add_argument("--data", help="keep the recorded store here")
    parser.add_argument("--replay", action="store_true", help="only play: --data was recorded")
    return parser.parse_args(arguments)


# --- the real day ----------------------------------------------------------------------


def record(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Play a day against the real server; return from when to when it was."""
    stage = Play(
        DemoPlan(folder=folder.resolve(), speed=options.speed, port=0, labs=None, copies=1, minutes=60,
             maximum=options.workers, kills=0, seed=options.seed, patience=600.0),
        lambda _: None,
    )  # fmt: skip
    try:
        told = stage.open()
        probed = {
            "call_seconds": probe_calls(stage.cml_url),
            "store_seconds": probe_store(folder / "probe.db"),
        }
        day = _Day(stage, options)
        day.set_up(told)
        return {**day.run(), **probed}
    finally:
        stage.stage.close()


def probe_calls(url: str) -> tuple[float, float]:
    """Return from and to (one and nine tenths) how many seconds a call over loopback takes."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    taken = []
    for _ in range(PROBES):
        begun = time.perf_counter()
        connection.request("GET", "/_control/servers")
        connection.getresponse().read()
        taken.append(time.perf_counter() - begun)
    connection.close()
    taken.sort()
    return taken[PROBES // 10], taken[PROBES * 9 // 10]


def probe_store(path: Path) -> float:
    """Return the slowest write of the rehearsal's store that gives the mean of real commits.

    Its lane takes three writes of five at once and the rest between 1 ms and `slowest` more
    (rehearsal.worlds.database.Lane); 0.65 is the mean share of `slowest` that those draw.
    """
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE rows (body BLOB)")
    begun = time.perf_counter()
    for _ in range(PROBES):
        connection.execute("INSERT INTO rows VALUES (?)", (bytes(4000),))
    mean = (time.perf_counter() - begun) / PROBES
    connection.close()
    return max(0.0, (mean / 0.4 - 0.001) / 0.65)


class _Day:
    """One day of demand, sent to the API at its time."""

    def __init__(self, stage: Play, options: argparse.Namespace) -> None:
        self.stage, self.options = stage, options
        self.begin = 0.0

    def set_up(self, told: dict[str, Any]) -> None:
        """Make the fleet: the demo's template, a pool, three labs."""
        region, subnets = told.get("region", "us-east-1"), [each["id"] for each in told["subnets"]]
        template = casts.template(cml_port=self.stage.cml_port, region=region, subnets=subnets)
        pool = casts.pool(maximum=self.options.workers)
        pool["spec"]["scaling"] |= {"minWorkers": 1, "emptySeconds": 900}
        self._post("templates", template)
        self._post("pools", pool)
        topologies = casts.built_in_labs()
        for name, minutes in LABS.items():
            self._post("definitions", casts.definition(name, topologies[name], minutes=minutes))

    def run(self) -> dict[str, Any]:
        """Send everything at its time, wait until all have ended; return the period."""
        span = self.options.hours * 3600
        self.begin = self._now() + LEAD_IN
        steps = sorted(self._steps(span), key=lambda step: step.at)
        for count, step in enumerate(steps):
            self._until(step.at)
            step.send()
            if count % 20 == 0:
                print(f"{step.at / 3600:.1f} h, {count} of {len(steps)}", file=sys.stderr)
        self._until(span)
        deadline = time.monotonic() + 12 * 3600 / self.options.speed
        while time.monotonic() < deadline and not self._all_ended():
            time.sleep(1.0)
        begin = self._instant(0.0) - timedelta(seconds=LEAD_IN)
        return {"from": begin.isoformat(), "to": self._instant(span).isoformat()}

    def _steps(self, span: float) -> list[Step]:
        wanted = Generated(
            on_demand_per_day=130, slots_per_day=40, cancel_share=0.08, extend_share=0.1,
            exams=(Exam(definition="routing-pod", sessions=25, hour=9.0, minutes=90),),
        )  # fmt: skip
        crowd = demand.draw(wanted, dict(LABS), span, self.options.seed)
        steps = []
        for wish in crowd.wishes:
            steps.append(Step(wish.at, self._sender(wish)))
            for act in wish.acts:
                if act.at < span:
                    steps.append(Step(act.at, self._actor(wish.name, act)))
        return steps

    def _sender(self, wish: PlannedSession) -> Callable[[], None]:
        def send() -> None:
            epoch = self._instant(0.0)
            spec = demand.spec(wish, epoch)
            self._post("sessions", {"kind": "Session", "apiVersion": "labfleet.dev/v1",
                                    "metadata": {"name": wish.name}, "spec": spec})  # fmt: skip

        return send

    def _actor(self, name: str, act: demand.Act) -> Callable[[], None]:
        def send() -> None:
            if act.word == "cancel":
                self._call(f"/api/v1/sessions/{name}/cancel", {"reason": "as asked"})
            else:
                self._call(f"/api/v1/sessions/{name}/extend", {"bySeconds": int(act.seconds)})

        return send

    def _post(self, plural: str, body: dict[str, Any]) -> None:
        self._call(f"/api/v1/{plural}", body)

    def _call(self, path: str, body: dict[str, Any]) -> None:
        try:
            if self.stage.client is not None:
                self.stage.client.call("POST", path, body=body)
        except Exception as problem:  # noqa: BLE001 - a refused wish is part of the day
            print(f"{path}: {problem}", file=sys.stderr)

    def _all_ended(self) -> bool:
        self.stage.refresh()
        return all(each["status"]["phase"] in TERMINAL for each in self.stage.scene.sessions)

    # Fleet time is epoch + (real - epoch) x speed, for the server and both simulators alike.
    def _now(self) -> float:
        return float((time.time() - self.stage.epoch) * self.options.speed)

    def _instant(self, at: float) -> datetime:
        epoch = datetime.fromtimestamp(self.stage.epoch, UTC)
        return epoch + timedelta(seconds=self.begin + at)

    def _until(self, at: float) -> None:
        while (left := self.begin + at - self._now()) > 0:
            time.sleep(min(left / self.options.speed, 1.0))


# --- the same day, played --------------------------------------------------------------


def compare(folder: Path, told: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Play the recorded period and set both beside each other."""
    text = json.dumps({
        "name": "agreement",
        "demand": {
            "recorded": {"store": "sqlite:///labfleet.db", "from": told["from"], "to": told["to"]}
        },
        "fidelity": {
            "telemetryMinutes": 0,
            "clockFactor": options.speed,
            "callSeconds": told["call_seconds"],
            "storeSeconds": told["store_seconds"],
        },
        "timings": {
            "launchSeconds": [LAUNCH_SECONDS, LAUNCH_SECONDS],
            "bootSeconds": [BOOT_SECONDS, BOOT_SECONDS],
            "stopSeconds": [END_SECONDS, END_SECONDS],
        },
    })  # fmt: skip
    (folder / "plan.yaml").write_text(text)
    cases, real = plan_command.cases_of(plan.load(folder / "plan.yaml"), folder)
    if real is None:
        raise AssertionError("the plan names a recording")
    there = tally.figures(real.tally, real.crowd.seconds)
    answer = play(cases[0], lambda _: None)
    rows = {}
    print(f"{'':16}{'recorded':>12}{'what-if':>12}{'apart':>9}", file=sys.stderr)
    for name in SHOWN:
        one, two = getattr(there, name), getattr(answer.figures, name)
        apart = None if one is None or two is None or not one else abs(two - one) / one
        rows[name] = {"recorded": one, "what_if": two, "apart": apart}
        shown = ["-" if each is None else f"{each:.2f}" for each in (one, two)]
        far = "-" if apart is None else f"{apart * 100:.1f} %"
        print(f"{name:16}{shown[0]:>12}{shown[1]:>12}{far:>9}", file=sys.stderr)
    judged = {name: rows[name]["apart"] for name in JUDGED}
    return {
        "agrees": all(each is not None and each <= ALLOWED for each in judged.values()),
        "allowed": ALLOWED,
        "figures": rows,
        "hours": options.hours,
        "speed": options.speed,
        "probed": {name: told[name] for name in ("call_seconds", "store_seconds")},
        "violations": [f"{each.rule}: {each.text}" for each in answer.violations],
        "hash": answer.log,
    }


if __name__ == "__main__":
    sys.exit(main())
