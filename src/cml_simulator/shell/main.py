"""The command: `labfleet cml-simulator --port N [--fleet] ...`.

Alone it serves one CML on 127.0.0.1:N, booted as soon as the port opens. With --fleet it serves
`/_control` on 127.0.0.1:N over plain HTTP, and every server booted there on an own loopback
address. One JSON line on stdout says when it is ready; SIGTERM and SIGINT end it in order.
"""

import asyncio
import json
import random
import signal
import sys
from dataclasses import dataclass, field
from functools import partial

import click
import msgspec
import uvloop

from cml_simulator.app import CmlApp, ControlApp
from cml_simulator.core import fleet as fleets
from cml_simulator.core.fleet import Fleet
from cml_simulator.core.profile import Machine, Profile, Rules, release
from cml_simulator.shell.clock import ScaledClock
from cml_simulator.shell.listeners import Listeners
from cml_simulator.shell.ui_socket import UiSocket
from cml_simulator.shell.web import Web

LOCAL = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Options:
    """The command line."""

    port: int = 0
    speed: float = 1.0
    epoch: float | None = None
    password: str = field(default="cml", repr=False)
    http: bool = False
    fleet: bool = False
    cml_port: int = 8443
    first_octet: int | None = None
    seed: int | None = None
    version: str = Profile().version
    over_licence: str = "queue"
    unknown_definition: str = "refuse"
    rule: tuple[str, ...] = ()
    image: tuple[str, ...] = ()


def _rng(options: Options) -> random.Random:
    if options.seed is None:
        return random.SystemRandom()
    return random.Random(options.seed)  # noqa: S311 - a seeded world is asked for


async def serve(options: Options, stop: asyncio.Event) -> None:
    """Serve until the event is set."""
    # Loaded late: --help is to work where cryptography is not installed.
    from cml_simulator.shell.tls import self_signed

    clock = ScaledClock(options.epoch, options.speed)
    world = Fleet(_rng(options), options.password, options.cml_port, images=images_of(options))
    control = ControlApp(world, clock)
    tls = None if options.http else self_signed()
    app = CmlApp(world, clock, asyncio.sleep, None if options.fleet else control)
    cml = Web(app, tls, partial(UiSocket, world, clock))
    front = Web(control, None) if options.fleet else cml
    if not options.fleet:
        _one_server(world, options, clock())
    door = await front.listen(LOCAL, options.port)
    port = door.sockets[0].getsockname()[1]
    if options.fleet:
        world.first_octet = options.first_octet or 1 + port % 250
    else:
        world.port = port
    listeners = Listeners(world, clock, cml, apis=options.fleet)
    _announce(options, clock, port)
    try:
        async with asyncio.TaskGroup() as group:
            tending = group.create_task(listeners.run())
            await stop.wait()
            tending.cancel()
    finally:
        door.close()
        front.cut()
        cml.cut()


def rules_of(options: Options) -> Rules:
    """Return the rules of the command line; a value is JSON, or else a text."""
    values: dict[str, object] = {
        "over_licence": options.over_licence,
        "unknown_definition": options.unknown_definition,
    }
    for text in options.rule:
        key, _, value = text.partition("=")
        if key not in Rules.__slots__:
            raise click.BadParameter(f"no such rule: {key}")
        try:
            values[key] = json.loads(value)
        except ValueError:
            values[key] = value
    try:
        return msgspec.convert(values, Rules)
    except msgspec.ValidationError as error:
        raise click.BadParameter(str(error)) from None


def images_of(options: Options) -> dict[str, str]:
    """Return the image definitions of the command line: id -> node definition."""
    found = {}
    for text in options.image:
        name, _, kind = text.partition("=")
        if not name or not kind:
            raise click.BadParameter(f"IMAGE=NODE_DEFINITION is expected, not {text}")
        found[name] = kind
    return found


def _one_server(world: Fleet, options: Options, now: float) -> None:
    rules = rules_of(options)
    world.fixed_address = LOCAL
    server = fleets.create(world, machine=Machine(), rules=rules, profile=release(options.version))
    fleets.boot(world, server, now)


def _announce(options: Options, clock: ScaledClock, port: int) -> None:
    scheme = "http" if options.http or options.fleet else "https"
    url = f"{scheme}://{LOCAL}:{port}"
    line = {
        "ready": True,
        "url": url,
        "control": f"{url}/_control",
        "cml_port": options.cml_port if options.fleet else port,
        "epoch": clock.epoch,
        "speed": clock.speed,
    }
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


async def _run(options: Options) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await serve(options, stop)


@click.command("cml-simulator", help=__doc__)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port; 0 takes a free one.")
@click.option("--speed", type=click.FloatRange(min=0.001), default=1.0, help="Clock factor.")
@click.option("--epoch", type=float, help="Where simulated and real time are equal (unix time).")
@click.option(
    "--password",
    default="cml",
    envvar="CML_SIMULATOR_PASSWORD",
    help="Password of the user admin; the variable keeps it out of the process list.",
)
@click.option("--http", is_flag=True, help="Plain HTTP instead of TLS.")
@click.option("--fleet", is_flag=True, help="Many servers, driven by /_control.")
@click.option("--cml-port", type=click.IntRange(1, 65535), default=8443, help="With --fleet.")
@click.option("--first-octet", type=click.IntRange(1, 254), help="With --fleet: 127.N.b.c.")
@click.option("--seed", type=int, help="Seed of ids and spread; without it they are random.")
@click.option(
    "--version",
    default=Profile().version,
    help="Version text of the one server; 2.7, 2.8, 2.9 and 2.10 name their releases.",
)
@click.option(
    "--rule", multiple=True, help="KEY=VALUE of the simulator's rules (core/profile.py); repeats."
)
@click.option(
    "--image",
    multiple=True,
    help="ID=NODE_DEFINITION of an image that each server has beside the stock's; repeats.",
)
@click.option(
    "--over-licence",
    type=click.Choice(["queue", "refuse", "leave"]),
    default="queue",
    help="What nodes beyond the licence do.",
)
@click.option(
    "--unknown-definition",
    type=click.Choice(["refuse", "warn"]),
    default="refuse",
    help="What an import with one gets.",
)
def _command(**values: object) -> None:
    options = Options(**values)  # type: ignore[arg-type]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(options))


def main(argv: list[str]) -> int:
    """Run the command; 0 after an orderly end, 1 if the port is taken, 2 for wrong usage."""
    try:
        _command.main(argv, prog_name="cml-simulator", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return 2
    except OSError as error:
        sys.stderr.write(f"cml-simulator: {error}\n")
        return 1
    return 0
