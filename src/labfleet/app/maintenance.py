"""`labfleet backup` and `labfleet restore`: a consistent copy of the store, and a new store of it."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from labfleet.app import data_folder
from labfleet.app.settings import Settings, load
from labfleet.app.system import SystemClock, SystemIds
from labfleet.cli.kit import examples
from labfleet.engine.objects import Objects
from labfleet.interfaces import store as stores
from labfleet.kernel import clock, errors
from labfleet.kernel.quantity import count
from labfleet.resources import fleet_settings
from labfleet.resources.meta import Metadata
from labfleet.stores import opening
from labfleet.stores.runners import Threads

ACTOR = "restore"
WHY_PAUSED = "restored from a backup: look at what runs, then labfleet resume"


def main(argv: Sequence[str]) -> int:
    """Run `backup FILE` or `restore FILE`; 0 done, 1 trouble, 2 wrong use."""
    what = argv[0] if argv else "backup"
    words = {
        "backup": "Write a consistent copy of the store to FILE, also while the server runs.",
        "restore": "Make a new store from a backup FILE; refuses to overwrite one.",
    }
    parser = argparse.ArgumentParser(
        prog=f"labfleet {what}",
        description=words.get(what),
        epilog=examples.lines(what),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file")
    parser.add_argument("--config", metavar="FILE", help="settings in TOML")
    parser.add_argument("--data", help="folder of the store (default var)")
    parser.add_argument("--store", help="sqlite:///file or postgresql://...")
    given = vars(parser.parse_args(argv[1:]))
    file, config = given.pop("file"), given.pop("config")
    try:
        settings = load(given, file=config)
        opening.check(settings.store_url)
        act = _restore if what == "restore" else _backup
        size = asyncio.run(act(settings, file))
    except errors.Invalid as problem:
        sys.stderr.write(f"Error: {problem}\n")
        return 2
    except (errors.LabfleetError, OSError) as problem:
        sys.stderr.write(f"Error: {problem}\n")
        return 1
    sys.stderr.write(f"{what}: {size} bytes\n")
    if what == "restore":
        sys.stderr.write(f"Automatic actions are paused: {WHY_PAUSED}\n")
    return 0


async def _backup(settings: Settings, file: str) -> int:
    store = await opening.open_store(
        settings.store_url, runner=Threads(), ids=SystemIds(), clock=SystemClock()
    )
    try:
        return await store.backup(file)
    finally:
        await store.close()


async def _restore(settings: Settings, file: str) -> int:
    data_folder.private(Path(settings.data))
    url, ids, time = settings.store_url, SystemIds(), SystemClock()

    async def pause() -> None:
        store = await opening.open_store(url, runner=Threads(), ids=ids, clock=time, restoring=True)
        try:
            await paused(Objects(store), ids.uid(), time.now())
            _tell_tokens(await store.tokens(), time.now())
        finally:
            await store.close()

    runner = Threads()
    try:
        return await opening.restore(file, url, runner=runner, ids=ids, first=pause)
    finally:
        runner.close()


def _tell_tokens(rows: Iterable[stores.TokenRow], now: datetime) -> None:
    """Say that tokens are as of the backup: one that was revoked after it works again."""
    alive = [row for row in rows if row.revoked is None and (row.expires or now) >= now]
    if alive:
        work = "works as it" if len(alive) == 1 else "work as they"
        sys.stderr.write(
            f"{count(len(alive), 'token')} {work} did at the backup, also if revoked since: "
            "look with labfleet token list, end them with labfleet token revoke\n"
        )


async def paused(objects: Objects, uid: str, now: datetime) -> None:
    """Pause automatic actions in a restored store, until somebody has looked and resumes.

    A backup is older than the world: machines launched after it carry our owner tag and belong
    to no record, and a copy restored beside a running installation has that one's owner tag.
    Garbage collection would end them.
    """
    old = await objects.find(fleet_settings.REF)
    if old is not None and old.spec.automation.get("paused"):
        return
    metadata = Metadata(name=fleet_settings.NAME, uid=uid, generation=0, creation_timestamp=now)
    base = old or fleet_settings.Settings(metadata=metadata)
    switch = {
        "paused": True, "reason": WHY_PAUSED, "by": ACTOR, "since": clock.format_instant(now),
    }  # fmt: skip
    new = msgspec.structs.replace(
        base,
        metadata=msgspec.structs.replace(base.metadata, generation=base.metadata.generation + 1),
        spec=msgspec.structs.replace(base.spec, automation=switch),
    )
    cause = stores.Cause(ACTOR, now, reason=f"AutomationPaused: {WHY_PAUSED}")
    await objects.save(new, cause=cause)
