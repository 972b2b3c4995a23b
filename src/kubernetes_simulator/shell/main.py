"""The command: `labfleet kubernetes-simulator --port N [--speed S] [--kubeconfig FILE]`.

Serves one simulated cluster on 127.0.0.1:N until it is ended, and writes a kubeconfig by which
kubectl and other clients reach it. One JSON line on stdout says when it is ready; SIGTERM and
SIGINT end it in order.
"""

import asyncio
import json
import os
import random
import signal
import ssl
import sys
import time
from base64 import b64encode
from dataclasses import dataclass, field
from pathlib import Path

import click
import uvloop
import yaml

from kubernetes_simulator.app import App
from kubernetes_simulator.core.access import ADMIN, Access
from kubernetes_simulator.core.errors import ApiError
from kubernetes_simulator.core.quantities import read
from kubernetes_simulator.core.settings import Settings
from kubernetes_simulator.core.settling import founded
from kubernetes_simulator.shell.web import Web

LOCAL = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Options:
    """The command line."""

    port: int = 0
    speed: float = 1.0
    kubeconfig: str | None = None
    token: str | None = field(default=None, repr=False)
    nodes: int = 3
    node_cpu: str = "8"
    node_memory: str = "32Gi"
    seed: int | None = None
    http: bool = False
    log: int = Settings().most_changes


def kubeconfig(url: str, token: str, authority: bytes | None) -> str:
    """Return the text of a kubeconfig; authority: the certificate (PEM) that TLS is checked by."""
    cluster = {"server": url}
    if authority is not None:
        cluster["certificate-authority-data"] = b64encode(authority).decode()
    context = {"cluster": "simulated", "user": "admin", "namespace": "default"}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "simulated", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": token}}],
            "contexts": [{"name": "simulated", "context": context}],
            "current-context": "simulated",
        },
        sort_keys=False,
    )


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read; it is whole or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    number = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(number, "w") as opened:
        opened.write(text)
    fresh.replace(path)


def _secure() -> tuple[ssl.SSLContext, bytes]:
    # Loaded late: --help is to work where cryptography is not installed.
    from kubernetes_simulator.shell.tls import throw_away

    return throw_away()


async def serve(options: Options, stop: asyncio.Event) -> None:
    """Serve until the event is set."""
    rng: random.Random = random.SystemRandom()
    if options.seed is not None:
        rng = random.Random(options.seed)  # noqa: S311 - a seeded world is asked for
    token = options.token or f"{random.SystemRandom().getrandbits(128):032x}"
    access = Access()
    access.allow(token, ADMIN)
    if options.http:
        access.nobody = ADMIN
    seed = options.seed if options.seed is not None else rng.getrandbits(32)
    settings = Settings(speed=options.speed, seed=seed, most_changes=options.log)
    size = (options.nodes, options.node_cpu, options.node_memory)
    world = founded(settings, rng, access, time.time(), size)
    app = App(world, time.time, asyncio.sleep)
    tls, authority = (None, None) if options.http else _secure()
    web = Web(app, tls)
    door = await web.listen(LOCAL, options.port)
    url = f"{'http' if options.http else 'https'}://{LOCAL}:{door.sockets[0].getsockname()[1]}"
    if options.kubeconfig is not None:
        write_private(Path(options.kubeconfig), kubeconfig(url, token, authority))
    _announce(options, url)
    try:
        async with asyncio.TaskGroup() as group:
            going = group.create_task(app.run())
            await stop.wait()
            going.cancel()
    finally:
        door.close()
        web.cut()


def _announce(options: Options, url: str) -> None:
    line = {
        "ready": True,
        "url": url,
        "control": f"{url}/_control",
        "kubeconfig": options.kubeconfig,
        "speed": options.speed,
    }
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


async def _run(options: Options) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await serve(options, stop)


def _quantity(_context: click.Context, _option: click.Parameter, value: str) -> str:
    try:
        if read(value) > 0:
            return value
    except ApiError as error:
        raise click.BadParameter(error.message) from None
    raise click.BadParameter("it must be positive")


@click.command("kubernetes-simulator", help=__doc__)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port; 0 takes a free one.")
@click.option(
    "--speed", type=click.FloatRange(0.001, 100_000), default=1.0,
    help="Clock factor: runs and waits are so much shorter, counters stay true.",
)  # fmt: skip
@click.option("--kubeconfig", help="File to write, readable by its owner alone.")
@click.option(
    "--token",
    envvar="KUBERNETES_SIMULATOR_TOKEN",
    help="Token of the admin; made when it is not given. The variable keeps it out of the process list.",
)
@click.option(
    "--http",
    is_flag=True,
    help="Plain HTTP; kubectl sends no token over it, so who sends none may do everything.",
)
@click.option("--nodes", type=click.IntRange(0, 5000), default=3, help="How many nodes there are.")
@click.option("--node-cpu", default="8", callback=_quantity, help="Cores of each node.")
@click.option("--node-memory", default="32Gi", callback=_quantity, help="Memory of each node.")
@click.option("--seed", type=int, help="Seed of ids and use; without it they are random.")
@click.option(
    "--log", type=click.IntRange(10, 1_000_000), default=Settings().most_changes,
    help="How many changes a watch can go back before it is answered 410.",
)  # fmt: skip
def _command(**values: object) -> None:
    options = Options(**values)  # type: ignore[arg-type]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(options))


def main(argv: list[str]) -> int:
    """Run the command; 0 after an orderly end, 1 if the port is taken, 2 for wrong usage."""
    try:
        _command.main(argv, prog_name="kubernetes-simulator", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return 2
    except OSError as error:
        sys.stderr.write(f"kubernetes-simulator: {error}\n")
        return 1
    return 0
