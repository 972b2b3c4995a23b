"""`labfleet server`: one process with the roles it was given, from settings to orderly stop."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence

import uvloop

from labfleet.api import application
from labfleet.api.core import host_names
from labfleet.api.streams.ring import Ring
from labfleet.app import collector, greeting, logs, notifying, open_files, serving, wiring
from labfleet.app.host_secrets import FOLDER
from labfleet.app.settings import ROLES, Settings, load
from labfleet.app.system import SystemIds
from labfleet.cli.kit import examples
from labfleet.engine.feed import Feed
from labfleet.engine.supervisor import Role, Supervisor
from labfleet.kernel import errors
from labfleet.service.core.tokens import Tokens, role_of
from labfleet.stores import opening
from labfleet.web import application as pages
from labfleet.web import doors


def parser() -> argparse.ArgumentParser:
    """Return the options; each overrides a setting of the same name."""
    made = argparse.ArgumentParser(
        prog="labfleet server",
        description="Run the server: API, scheduler and controllers.",
        epilog=examples.lines("server"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("--config", metavar="FILE", help="settings in TOML")
    add("--data", help="folder for the store and its locks (default var)")
    add("--store", help="sqlite:///file or postgresql://...; default sqlite in --data")
    add("--host", help="address to listen on (default 127.0.0.1)")
    add("--port", type=int, help="port to listen on (default 8470; 0 takes a free one)")
    add(
        "--host-names",
        type=_words,
        help="comma-separated: names under which a proxy or clients reach this server",
    )
    add("--tls-cert", help="PEM certificate chain")
    add("--tls-key", help="PEM key")
    add("--roles", type=_words, help=f"comma-separated, of {','.join(ROLES)} (default all)")
    add("--log-format", choices=("console", "json"), help="console for people, json for programs")
    add(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        help="the least that is logged",
    )
    add("--clock-epoch", type=float, help="Unix instant at which a scaled clock starts")
    add("--clock-rate", type=float, help="fleet seconds per real second (demo; default 1)")
    add("--aws-endpoint-url", help="another EC2 than Amazon's")
    add("--aws-access-key-env", help="variable that holds the access key id")
    add("--aws-secret-key-env", help="variable that holds the secret key")
    add("--secrets-folder", help=f"folder of the files that secretRefs may name (default {FOLDER})")
    add(
        "--secrets-variables",
        type=_words,
        help="comma-separated: more variables that secretRefs may name, as NAME or PREFIX*",
    )
    add("--lease-seconds", type=float, help="how long a silent leader keeps its place")
    add("--stop-seconds", type=float, help="how long an orderly stop may take")
    add("--admin-token-file", metavar="FILE", help="write the first admin token here, mode 0600")
    return made


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def main(argv: Sequence[str]) -> int:
    """Run the server until SIGTERM or SIGINT; 0 in order, 1 trouble, 2 wrong settings."""
    given = vars(parser().parse_args(argv))
    file, token_file = given.pop("config"), given.pop("admin_token_file")
    try:
        settings = load(given, file=file)
        serving.check_tls(settings)
    except errors.Invalid as problem:
        sys.stderr.write(f"Error: {problem}\n")
        return 2
    logs.configure(fmt=settings.log_format, level=settings.log_level)
    try:
        opening.check(settings.store_url)
        collector.collect_rarely()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve(settings, token_file))
    except errors.LabfleetError as problem:
        sys.stderr.write(f"Error: {problem}\n")
        return 1
    except OSError as problem:
        sys.stderr.write(f"Error: {problem}\n")
        return 1


async def _serve(settings: Settings, token_file: str | None) -> int:
    log = logs.get("app")
    ids = SystemIds()
    bound = serving.listen(settings) if "api" in settings.roles else None
    outside, installation = await wiring.open_outside(settings)
    try:
        holder = f"{socket.gethostname()}/{os.getpid()}/{ids.uid()[:8]}"
        system = wiring.build(outside, settings, installation, holder=holder)
        tokens = Tokens(outside.store, outside.clock, ids)
        token = await _first_token(tokens, token_file)
        await _surroundings(system)
        await _earlier_roles(tokens)
        base = list(system.feeds)
        url = ""
        if bound is not None:
            host, port = bound.getsockname()[:2]
            url = f"{'https' if settings.tls_cert else 'http'}://{host}:{port}"
            base += _api(system, tokens, settings, bound)
            warning = serving.warn_of_open_door(settings)
            if warning is not None:
                log.warning("server.open", detail=warning)
        base += system.elections
        ground = Supervisor(
            base, rng=outside.rng, observer=system.watcher, deadline=settings.stop_seconds
        )
        system.supervisors["base"] = ground
        steps = greeting.lines(settings, url, token=token, token_file=token_file)
        await _run(system, ground, {"url": url, "installation": installation}, steps)
    finally:
        await outside.hosts.close()
        await outside.compute.close()
        for close in outside.closing:
            await close()
        if outside.deliveries is not None:
            await outside.deliveries.close()
        await outside.store.close()
    return 0


async def _surroundings(system: wiring.System) -> None:
    """Log which compatible variables have no effect; create the webhooks that others ask for."""
    log = logs.get("app")
    environment = system.outside.environment
    if environment.ignored:
        detail = "see docs/reference/settings.md, Upstream variables"
        log.info("environment.ignored", variables=",".join(environment.ignored), detail=detail)
    for variable, detail in environment.differing:
        log.warning("environment.differs", variable=variable, detail=detail)
    for refused in await notifying.ensure(system.services, environment.webhooks):
        log.warning("environment.webhook", detail=refused)


async def _run(
    system: wiring.System, ground: Supervisor, told: dict[str, str], steps: Sequence[str]
) -> None:
    """Run all supervisors, print the server's address and, to a person, what comes next.

    On a signal stop leaders first.
    """
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.set)

    async def wind_down() -> None:
        await asked.wait()
        leading = [each for each in system.supervisors.values() if each is not ground]
        for each in leading:
            each.stop()
        await asyncio.gather(*(tasks[id(each)] for each in leading))
        ground.stop()

    tasks: dict[int, asyncio.Task[None]] = {}
    async with asyncio.TaskGroup() as group:
        for name, each in system.supervisors.items():
            tasks[id(each)] = group.create_task(each.run(), name=f"supervisor/{name}")
        group.create_task(wind_down(), name="wind-down")
        await system.cache.ready()
        sys.stdout.write(json.dumps({"ready": True, **told, "pid": os.getpid()}) + "\n")
        sys.stdout.flush()
        if sys.stderr.isatty():
            sys.stderr.write("\n" + "".join(f"{line}\n" for line in steps))


def _api(system: wiring.System, tokens: Tokens, settings: Settings, bound: object) -> list[Role]:
    """Return the roles of the HTTP API: the ring's feed and the listener."""
    outside = system.outside
    ring = Ring(outside.store)
    ring_feed = Feed(outside.store, ring, outside.clock)
    log = logs.get("api")

    def readiness() -> dict[str, str | None]:
        states: dict[str, str | None] = {}
        for each in system.supervisors.values():
            for name, state in each.readiness().items():
                states[name] = None if state.ready else f"{state.state.value} {state.message}"
        return states

    def defect(request_id: str, error: BaseException) -> None:
        log.error("api.bug", request_id=request_id, exc_info=error)

    app = application.build(
        system.services,
        tokens,
        ring,
        readiness=readiness,
        metrics=system.metrics.text,
        look=None if system.check is None else system.check.look,
        web=pages.build(system.services, tokens),
        credentials=doors.credentials,
        on_defect=defect,
        names=host_names.of(settings.host, settings.host_names),
    )
    refusals = serving.Refusals()
    system.metrics.counted(
        "labfleet_connections_refused",
        "Connections ended at once because as many are open as the limit of open files allows.",
        (),
        lambda: [((), refusals.count)],
    )
    most = open_files.for_clients(open_files.raise_limit())
    listener = serving.server(app, settings, most=most, refusals=refusals, answers=app)

    async def serve() -> None:
        await listener.serve(sockets=[bound])  # type: ignore[list-item]

    def stop() -> None:
        app.shutdown()
        listener.should_exit = True

    return [
        Role("stream", ring_feed.run),
        Role("frames", app.events.latest.run),
        Role("api", serve, stop=stop),
    ]


async def _earlier_roles(tokens: Tokens) -> None:
    """Log which tokens have a role of an earlier version, and what they may do now."""
    for row in await tokens.earlier():
        detail = (
            f"role {row.role} is now {role_of(row)}: it reports and looks after workers; a program "
            "that asks for simulations needs a token of role runner (labfleet token create)"
        )
        logs.get("app").warning("token.role", token=row.id, owner=row.owner, detail=detail)


async def _first_token(tokens: Tokens, token_file: str | None) -> str:
    """Make the first admin token and show it once: on stderr, or in a file of mode 0600.

    Return it if it was made now; it stands on stderr before anything else can fail.
    """
    made: list[str] = []

    def show(text: str) -> None:
        made.append(text)
        if token_file is None:
            sys.stderr.write(f"admin token, shown only now: {text}\n")
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        try:
            with os.fdopen(os.open(token_file, flags, 0o600), "w") as file:
                file.write(text + "\n")
        except OSError as problem:
            message = f"cannot write the admin token to {token_file}: {problem.strerror}"
            raise errors.Invalid(message) from None

    await tokens.first(show)
    return made[0] if made else ""
