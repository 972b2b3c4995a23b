"""Plays the demo: starts the stage, asks for everything over the API, waits, winds down."""

from __future__ import annotations

import json
import random
import secrets
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labfleet.app.demo import cast as casts
from labfleet.app.demo.pods import Pods
from labfleet.app.demo.processes import Child, Ports, Stage
from labfleet.app.demo.runs import LIVE, RunScript, length_at
from labfleet.cli.kit import exits
from labfleet.cli.kit.client import Client
from labfleet.cli.kit.environment import CommandEnvironment
from labfleet.cli.kit.settings import Settings

TERMINAL = frozenset({"COMPLETED", "EXPIRED", "FAILED", "CANCELLED"})
TICK = 0.4
SECRETS = "secrets"
"""The folder of the files that clusters may name."""
LIVELY = 9


class Stuck(RuntimeError):
    """The demo did not come to its end in time."""


@dataclass(frozen=True)
class DemoPlan:
    """What to play: see `command` for the options' meaning."""

    folder: Path
    speed: float
    port: int
    labs: Path | None
    copies: int
    minutes: int
    maximum: int
    kills: int
    seed: int
    patience: float
    store: str = ""


@dataclass
class Scene:
    """What is on the screen."""

    act: str = "starting"
    workers: list[dict[str, Any]] = field(default_factory=list)
    sessions: list[dict[str, Any]] = field(default_factory=list)
    simulations: list[dict[str, Any]] = field(default_factory=list)
    restarts: int = 0
    kills: int = 0
    url: str = ""


Show = Callable[[Scene], None]


class Play:
    """One demo from an empty folder to an empty world."""

    def __init__(self, plan: DemoPlan, show: Show) -> None:
        self.plan = plan
        self.scene = Scene()
        self._show = show
        self._rng = random.Random(plan.seed)  # noqa: S311 - moments, not secrets
        self._kill_at: list[float] = []
        self.epoch = time.time()
        self.aws_url = ""
        self.cml_url = ""
        self.invalid: dict[str, str] = {}
        self.stage = self._stage()
        self.client: Client | None = None
        self._pods: Pods | None = None
        self._runs: RunScript | None = None
        self.requested = 0
        self.played = False
        """Whether the script of runs came to its end."""
        self.own: set[str] = set()
        """Names of the sessions that the demo itself asked for."""
        self._asked: list[dict[str, Any]] = []

    def _stage(self) -> Stage:
        folder, plan = self.plan.folder, self.plan
        clock = ["--epoch", repr(self.epoch), "--speed", repr(plan.speed)]
        kept = Ports()
        self.cml_port = kept.keep()
        password = secrets.token_urlsafe(12)
        ports = ["--port", "0", "--cml-port", str(self.cml_port)]
        named = {} if plan.labs is None else casts.images_of(casts.labs_of(plan.labs)[0])
        images = [f"--image={name}={kind}" for name, kind in sorted(named.items())]
        cml = Child(
            "cml-simulator",
            ["--fleet", *ports, *clock, *images],
            folder / "cml-simulator.log",
            environment={"CML_SIMULATOR_PASSWORD": password},
        )
        aws = Child("aws-simulator", ["--port", "0", *clock], folder / "aws-simulator.log")
        kubernetes = Child(
            "kubernetes-simulator",
            ["--port", "0", "--speed", repr(plan.speed), "--kubeconfig", str(self._kubeconfig)],
            folder / "kubernetes-simulator.log",
        )
        server = Child(
            "server",
            _server_options(plan, self.epoch, plan.port or kept.keep()),
            folder / "server.log",
            environment={
                "LABFLEET_SECRET_DEMO_CML_PASSWORD": password,
                "LABFLEET_SECRET_DEMO_LICENCE_TOKEN": secrets.token_hex(16),
                "LABFLEET_DEMO_KEY_ID": "demo",
                "LABFLEET_DEMO_KEY": secrets.token_hex(16),
            },
        )
        return Stage(cml, aws, kubernetes, server, kept)

    @property
    def _kubeconfig(self) -> Path:
        return self.plan.folder / SECRETS / casts.KUBECONFIG

    @property
    def pods(self) -> Pods:
        """What stands on the cluster; Stuck before it was started."""
        if self._pods is None:
            raise Stuck("the cluster was not started")
        return self._pods

    @property
    def runs(self) -> RunScript:
        """The runs that are asked for; Stuck before anything was asked."""
        if self._runs is None:
            raise Stuck("nothing was asked for")
        return self._runs

    # --- acts ---------------------------------------------------------------------------

    def open(self) -> dict[str, Any]:
        """Start everything; return what the AWS simulator said of itself."""
        self._act("starting the simulators")
        self.stage.kubernetes.start()
        self.stage.cml.start()
        self.cml_url = str(self.stage.cml.ready()["url"])
        self.stage.aws.arguments += ["--cml", self.cml_url]
        self.stage.aws.start()
        told = self.stage.aws.ready()
        self.aws_url = str(told["url"])
        self.stage.kubernetes.ready()
        self._pods = Pods(self._kubeconfig)
        self.stage.server.arguments += ["--aws-endpoint-url", self.aws_url]
        self._act("starting the server")
        self.stage.server.start()
        self.scene.url = str(self.stage.server.ready()["url"])
        token = (self.plan.folder / "admin.token").read_text().strip()
        self.client = Client(
            Settings(
                url=self.scene.url,
                token=token,
                namespace="default",
                output="json",
                ca_file=None,
                context=None,
                source="the demo",
            ),
            CommandEnvironment(),
            attempts=12,
        )
        return told

    def ask(self, told: dict[str, Any]) -> None:
        """Create template, pool, cluster, definitions, sessions; let the script of runs begin."""
        labs, unreadable = casts.built_in_labs(), dict[str, str]()
        if self.plan.labs is not None:
            labs, unreadable = casts.labs_of(self.plan.labs)
        cast = casts.compose(
            labs,
            copies=1 if self.plan.labs is not None else self.plan.copies,
            minutes=self.plan.minutes,
            maximum=self.plan.maximum,
            speed=self.plan.speed,
            cml_port=self.cml_port,
            region=told.get("region", "us-east-1"),
            subnets=[each["id"] for each in told["subnets"]],
            unreadable=unreadable,
        )
        self.invalid = dict(unreadable)
        self._act("asking for labs")
        for plural, body in (
            ("settings", cast.settings),
            ("templates", cast.template),
            ("pools", cast.pool),
            ("clusters", cast.cluster),
        ):
            self._create(plural, body)
        for body in cast.definitions:
            self._define(body)
        for body in cast.sessions:
            if body["spec"]["definition"] not in self.invalid:
                self._create("sessions", body)
        self._asked = [
            each for each in cast.sessions if "too-large" not in each["metadata"]["name"]
        ]
        self.requested = len(cast.sessions) + len(unreadable)
        self._runs = RunScript(self._call, self.pods, length_at(self.plan.speed))

    def run(self) -> None:
        """Wait until sessions and runs have ended; kill the server now and then if asked to."""
        self._act("running")
        self._plan_kills()
        self._wait(self._played, "sessions and runs did not end")

    def keep_busy(self) -> None:
        """Until interrupted: let another student come whenever somebody has gone."""
        self._act("running; look around, Ctrl-C takes it all down in order")
        self._plan_kills()
        names = [each["spec"]["definition"] for each in self._asked]
        wanted = min(len(names), LIVELY)
        try:
            while True:
                self._tend()
                self.refresh()
                self.runs.step(self.scene.simulations)
                if self.runs.finished:
                    self.played = True
                    self.runs.again()
                live = [each for each in self.scene.sessions if not self._ended([each])]
                if len(live) < wanted:
                    self._another(names[self._rng.randrange(len(names))])
                time.sleep(TICK * 2)
        except KeyboardInterrupt:
            self._act("ending what runs")
        for each in self._list("simulations"):
            if each["status"]["phase"] in LIVE:
                name = each["metadata"]["name"]
                body = {"simulation_id": name, "status": "cancelled"}
                self._call("POST", "/simulation_complete", body)
        self.pods.remove_all()
        for each in self.scene.sessions:
            if not self._ended([each]):
                path = f"/api/v1/sessions/{each['metadata']['name']}/cancel"
                self._call("POST", path, {"reason": "the demo ends"})
        self._wait(lambda: self._ended(self.scene.sessions), "sessions did not end")

    def _played(self) -> bool:
        """Play the runs on; tell whether they and all sessions have ended."""
        self.runs.step(self.scene.simulations)
        self.played = self.runs.finished
        return self.played and self._ended(self.scene.sessions)

    def _another(self, definition: str) -> None:
        self.requested += 1
        owner = f"student{self._rng.randrange(1, 40)}"
        self._create("sessions", casts.session(f"again-{self.requested}", definition, owner))

    def close(self) -> None:
        """Ask for the end of the pool, and of what people added; wait until nothing is left."""
        self._act("taking down")
        for each in self._list("pools"):
            self._call("DELETE", f"/api/v1/pools/{each['metadata']['name']}")
        for each in self._list("workers"):
            if each["spec"].get("pool") is None:
                self._call("DELETE", f"/api/v1/workers/{each['metadata']['name']}")
        self._wait(self._gone, "pool and pods did not end")
        self.refresh()

    def _ended(self, sessions: list[dict[str, Any]]) -> bool:
        phases = [each["status"]["phase"] for each in sessions]
        return bool(phases) and all(phase in TERMINAL for phase in phases)

    def _gone(self) -> bool:
        return not self._list("pools") and not self.scene.workers and self.pods.left() == 0

    def _plan_kills(self) -> None:
        now = time.monotonic()
        for _ in range(self.plan.kills):
            now += self._rng.uniform(1.0, 4.0)
            self._kill_at.append(now)

    def _wait(self, done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + self.plan.patience
        while True:
            self._tend()
            self.refresh()
            if done() and not self._kill_at:
                return
            if time.monotonic() > deadline:
                raise Stuck(f"{what} within {self.plan.patience:.0f} s; --patience gives it longer")
            time.sleep(TICK)

    def _tend(self) -> None:
        """Kill the server when its time has come, and start it again whenever it is dead."""
        if self._kill_at and time.monotonic() >= self._kill_at[0]:
            self._kill_at.pop(0)
            self.stage.server.kill()
            self.scene.kills += 1
        if self.stage.keep_alive():
            self.scene.restarts = self.stage.restarts
            self.stage.server.ready()

    def refresh(self) -> None:
        """Read what is to be shown."""
        try:
            self.scene.sessions = self._list("sessions")
            self.scene.workers = self._list("workers")
            self.scene.simulations = self._list("simulations")
        except exits.Failure as problem:
            if problem.code != exits.UNREACHABLE:
                raise
        self._show(self.scene)

    # --- the API -----------------------------------------------------------------------

    def _list(self, plural: str) -> list[dict[str, Any]]:
        return self._spoken().items(plural)[0]

    def _create(self, plural: str, body: dict[str, Any]) -> None:
        made = self._call("POST", f"/api/v1/{plural}", body)
        if plural == "sessions":
            self.own.add(str(made["metadata"]["name"]))

    def _define(self, body: dict[str, Any]) -> None:
        """Create a definition; a topology that the API refuses is a refused session."""
        try:
            self._create("definitions", body)
        except exits.Failure as problem:
            if problem.code not in {exits.USAGE, exits.CONFLICT}:
                raise
            self.invalid[body["metadata"]["name"]] = str(problem)

    def _call(self, method: str, path: str, body: Any = None, key: str | None = None) -> Any:
        return self._spoken().call(method, path, body=body, key=key).body

    def _spoken(self) -> Client:
        if self.client is None:
            raise Stuck("the server was not started")
        return self.client

    def _act(self, words: str) -> None:
        self.scene.act = words
        self._show(self.scene)


def _server_options(plan: DemoPlan, epoch: float, port: int) -> list[str]:
    """Return the server's command line."""
    given = {
        "--data": str(plan.folder),
        # The same port after each restart, as people's bookmarks and our client expect.
        "--port": str(port),
        "--log-format": "json",
        "--clock-epoch": repr(epoch),
        "--clock-rate": repr(plan.speed),
        "--admin-token-file": str(plan.folder / "admin.token"),
        "--secrets-folder": str(plan.folder / SECRETS),
        "--aws-access-key-env": "LABFLEET_DEMO_KEY_ID",
        "--aws-secret-key-env": "LABFLEET_DEMO_KEY",
    } | ({"--store": plan.store} if plan.store else {})
    return [word for pair in given.items() for word in pair]


def read_json(url: str) -> Any:
    """Return the JSON behind a simulator's control address."""
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - our own loopback URL
        return json.loads(answer.read())
