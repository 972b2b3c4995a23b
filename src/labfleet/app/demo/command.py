"""`labfleet demo`: options, screen, and the JSON at the end."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from labfleet.app.demo import verdict
from labfleet.app.demo.play import DemoPlan, Play, Stuck, read_json
from labfleet.app.demo.pods import ClusterLost
from labfleet.app.demo.processes import NotStarted
from labfleet.app.demo.screen import Screen
from labfleet.app.settings import Settings
from labfleet.app.system import SystemClock, SystemIds
from labfleet.cli.kit import examples, exits
from labfleet.kernel import errors
from labfleet.stores import opening
from labfleet.stores.runners import Threads

DAY = 1440
PATIENCE = 300.0
"""Real seconds for everything that does not follow fleet time, on a machine that is busy."""
MACHINES = 3600.0
"""Fleet seconds in which machines start and end, with the waits of an order between them."""


def options(argv: Sequence[str]) -> argparse.Namespace:
    """Return the parsed options."""
    parser = argparse.ArgumentParser(
        prog="labfleet demo",
        description="Run the main job on this machine against the simulators.",
        epilog=examples.lines("demo"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--once", action="store_true", help="run to the end and stop")
    parser.add_argument("--json", action="store_true", help="print one JSON object last")
    parser.add_argument("--labs", type=Path, help="folder of CML topology files, a session each")
    parser.add_argument(
        "--speed", type=float, help="fleet seconds a real second (120 with --once, else 30)"
    )
    parser.add_argument("--sessions", type=int, default=4, help="sessions of each built-in lab")
    parser.add_argument("--minutes", type=int, help="length of a session (10 with --once, else 30)")
    parser.add_argument("--workers", type=int, default=4, help="most workers of the pool")
    parser.add_argument("--kill", type=int, default=0, help="kill -9 the server so many times")
    parser.add_argument("--seed", type=int, default=1, help="seed of the moments to kill at")
    parser.add_argument("--port", type=int, default=0, help="port of the API and the page")
    parser.add_argument("--data", type=Path, help="folder to keep; a temporary one without it")
    parser.add_argument("--store", default="", help="postgresql://... instead of a file")
    parser.add_argument(
        "--patience", type=float, help="real seconds to wait (as --minutes and --speed need it)"
    )
    found = parser.parse_args(argv)
    found.speed = (120.0 if found.once else 30.0) if found.speed is None else found.speed
    found.minutes = (10 if found.once else 30) if found.minutes is None else found.minutes
    if found.labs is not None and not found.labs.is_dir():
        parser.error(f"--labs: {found.labs} is not a folder")
    if found.data is not None and (found.data / "labfleet.db").exists():
        parser.error(f"--data: {found.data} holds the store of an earlier run; remove it first")
    if found.speed <= 0 or found.sessions < 1 or found.minutes < 1 or found.workers < 1:
        parser.error("--speed, --sessions, --minutes and --workers are greater than 0")
    if found.minutes > DAY:
        parser.error(f"--minutes: a session of the demo lasts at most a day, {DAY} minutes")
    _patience(parser, found)
    return found


def _patience(parser: argparse.ArgumentParser, found: argparse.Namespace) -> None:
    """Fill in how long to wait, which starts with what it limits; refuse what cannot be enough.

    Sessions run for their whole length with --once only, and may come in two rounds.
    """
    session = found.minutes * 60 / found.speed if found.once else 0.0
    if found.patience is None:
        found.patience = PATIENCE + 2 * session + MACHINES / found.speed
    elif found.patience <= session:
        parser.error(
            f"--patience: a session of {found.minutes} minutes at speed {found.speed:g} takes "
            f"{session:.0f} s; leave --patience out, or change --minutes or --speed"
        )


def main(argv: Sequence[str]) -> int:
    """Run the demo; 0 only if everything is as it must be, 130 when interrupted."""
    chosen = options(argv)
    if chosen.store:
        try:
            opening.check(chosen.store)
        except errors.LabfleetError as problem:
            sys.stderr.write(f"Error: {problem.message}\n")
            return 1
    # A terminal's Ctrl-C and a supervisor's SIGTERM both end the demo in order; a shell that
    # starts us in the background hands SIGINT over ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="labfleet-demo-") as temporary:
        folder = Path(temporary) if chosen.data is None else chosen.data
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return _run(chosen, folder)


def _run(chosen: argparse.Namespace, folder: Path) -> int:
    begun = time.monotonic()
    screen = Screen(quiet=chosen.json, stream=sys.stderr)
    play = Play(
        DemoPlan(
            folder=folder.resolve(),
            speed=chosen.speed,
            port=chosen.port,
            labs=chosen.labs,
            copies=chosen.sessions,
            minutes=chosen.minutes,
            maximum=chosen.workers,
            kills=chosen.kill,
            seed=chosen.seed,
            patience=chosen.patience,
            store=chosen.store,
        ),
        screen.show,
    )
    try:
        told = play.open()
        screen.say(f"page and API: {play.scene.url}/ (token in {folder / 'admin.token'})")
        play.ask(told)
        if chosen.once:
            play.run()
        else:
            play.keep_busy()
        play.close()
        result = _result(play, folder, begun, chosen.speed)
    except KeyboardInterrupt:
        screen.say("interrupted; everything of the demo is stopped")
        return 130
    except (NotStarted, Stuck, ClusterLost, exits.Failure) as problem:
        screen.say(f"the demo failed: {problem}")
        # A temporary folder is gone before anybody could look into it.
        kept = f"logs: {folder}" if chosen.data else "logs are not kept; --data DIR keeps them"
        screen.say(kept)
        _explain(play, screen, folder)
        return 1
    finally:
        play.stage.close()
    screen.result(result)
    if chosen.json:
        sys.stdout.write(json.dumps(result, separators=(",", ":")) + "\n")
    return 0 if result["ok"] else 1


def _explain(play: Play, screen: Screen, folder: Path) -> None:
    """Say what did not end, and show the last lines of the server's log."""
    for each in (*play.scene.sessions, *play.scene.workers, *play.scene.simulations):
        status = each["status"]
        if status["phase"] not in {"COMPLETED", "TERMINATED"}:
            why = status.get("message") or (status.get("decision") or {}).get("message", "")
            screen.say(f"  {each['metadata']['name']}: {status['phase']} {why}")
    log = folder / "server.log"
    if log.exists():
        screen.say(log.read_text(errors="replace")[-2000:])


def _result(play: Play, folder: Path, begun: float, speed: float) -> dict[str, Any]:
    """Stop the server in order, read the simulators' records, and judge."""
    left, wrong = verdict.books(read_json, play.aws_url, play.cml_url)
    pods = play.pods.left()
    play.stage.server.stop()
    seen = asyncio.run(_replayed(folder, play.plan.store))
    # What visitors asked for is theirs: it is told, and no fault of the demo.
    sessions = [each for each in play.scene.sessions if each["metadata"]["name"] in play.own]
    theirs = [each for each in play.scene.sessions if each["metadata"]["name"] not in play.own]
    phases = [each["status"]["phase"] for each in sessions]
    refused = [each for each in sessions if _refused(each)]
    wrong += seen.violations
    wrong += [
        f"{each['metadata']['name']} was refused without a reason"
        for each in refused
        if not each["status"]["decision"]["message"]
    ]
    cancelled = phases.count("CANCELLED")
    failed = len(phases) - phases.count("COMPLETED") - cancelled - len(refused)
    result: dict[str, Any] = {
        "sessions_requested": len(sessions) + len(play.invalid),
        "sessions_completed": phases.count("COMPLETED"),
        "sessions_failed": failed,
        "sessions_cancelled": cancelled,
        "sessions_refused": len(refused) + len(play.invalid),
        **seen.runs.of(play.runs.names),
        "simulations_played": play.played,
        "workers_provisioned": len(seen.provisioned),
        "workers_terminated": len(seen.terminated & seen.provisioned),
        "instances_left": left["instances_left"],
        "licences_left": left["licences_left"],
        "labs_left": left["labs_left"],
        "ports_left": left["ports_open"],
        "pods_left": pods,
        "port_conflicts": left["port_conflicts"],
        "invariant_violations": len(wrong),
        "wall_s": round(time.monotonic() - begun, 1),
        "simulated_s": round((time.monotonic() - begun) * speed),
        "violations": wrong,
        "refusals": {each["metadata"]["name"]: each["status"]["message"] for each in refused}
        | play.invalid,
        "failures": _failures(sessions),
        "sessions_of_visitors": len(theirs),
        "failures_of_visitors": _failures(theirs),
        "volumes_left": left["volumes_left"],
        "imports": left["imports"],
        "events": seen.events,
        "server_kills": play.scene.kills,
    }
    result["ok"] = _good(result)
    return result


def _failures(sessions: list[dict[str, Any]]) -> dict[str, str]:
    return {
        each["metadata"]["name"]: each["status"]["message"]
        for each in sessions
        if each["status"]["phase"] not in {"COMPLETED", "CANCELLED"} and not _refused(each)
    }


def _refused(session: dict[str, Any]) -> bool:
    decision = session["status"].get("decision") or {}
    return bool(session["status"]["phase"] == "FAILED" and decision.get("outcome") == "refused")


def _good(result: dict[str, Any]) -> bool:
    """Tell whether all of it is as it must be."""
    zero = (
        "sessions_failed", "instances_left", "licences_left", "labs_left", "ports_left",
        "port_conflicts", "invariant_violations", "volumes_left", "pods_left",
    )  # fmt: skip
    runs = (
        "simulations_approved", "simulations_learned", "simulations_denied", "simulations_queued",
        "simulations_crashed",
    )  # fmt: skip
    ends = ("sessions_completed", "sessions_refused", "sessions_cancelled")
    counted = sum(result[key] for key in ends)
    return (
        all(result[key] == 0 for key in zero)
        and counted == result["sessions_requested"]
        and result["sessions_completed"] + result["sessions_cancelled"] > 0
        and result["workers_provisioned"] == result["workers_terminated"]
        and (result["workers_provisioned"] > 0 or result["sessions_completed"] == 0)
        # Who interrupts the demo early sees no more of the runs than were played by then.
        and (not result["simulations_played"] or all(result[key] > 0 for key in runs))
    )


async def _replayed(folder: Path, store_url: str) -> verdict.Replay:
    url = Settings(data=str(folder), store=store_url).store_url
    store = await opening.open_store(url, runner=Threads(), ids=SystemIds(), clock=SystemClock())
    try:
        return await verdict.replay(store)
    finally:
        await store.close()
