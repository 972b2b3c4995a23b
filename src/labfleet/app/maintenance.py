"""`labfleet backup` and `labfleet restore`: a consistent copy of the store, and a new store of it."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

from labfleet.app import wiring
from labfleet.app.settings import Settings, load
from labfleet.app.system import SystemClock, SystemIds
from labfleet.kernel import errors
from labfleet.stores import opening
from labfleet.stores.runners import Threads


def main(argv: Sequence[str]) -> int:
    """Run `backup FILE` or `restore FILE`; 0 done, 1 trouble, 2 wrong use."""
    what = argv[0] if argv else "backup"
    words = {
        "backup": "Write a consistent copy of the store to FILE, also while the server runs.",
        "restore": "Make a new store from a backup FILE; refuses to overwrite one.",
    }
    parser = argparse.ArgumentParser(prog=f"labfleet {what}", description=words.get(what))
    parser.add_argument("file")
    parser.add_argument("--config", metavar="FILE", help="settings in TOML")
    parser.add_argument("--data", help="folder of the store (default var)")
    parser.add_argument("--store", help="sqlite:///file or postgresql://...")
    given = vars(parser.parse_args(argv[1:]))
    file, config = given.pop("file"), given.pop("config")
    try:
        settings = load(given, file=config)
        act = _restore if what == "restore" else _backup
        size = asyncio.run(act(settings, file))
    except errors.Invalid as problem:
        sys.stderr.write(f"Error: {problem.message}\n")
        return 2
    except (errors.LabfleetError, OSError) as problem:
        sys.stderr.write(f"Error: {problem}\n")
        return 1
    sys.stderr.write(f"{what}: {size} bytes\n")
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
    wiring.make_folder(settings)
    runner = Threads()
    try:
        return await opening.restore(file, settings.store_url, runner=runner, ids=SystemIds())
    finally:
        runner.close()
