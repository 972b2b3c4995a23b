"""A private PostgreSQL from Debian's packages: temp folder, free loopback port, gone at the end.

initdb refuses root, so as root the server runs as user postgres.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from held_port import held_port


def find_binaries() -> Path | None:
    """Return the newest installed server's bin folder, or None."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


class PostgresServer:
    """Use as a context manager; `new_place()` returns the URL of an empty schema of its own.

    Nothing is synced: a test's server need not survive the machine, and disks are slow.
    """

    def __init__(self, **settings: str) -> None:
        binaries = find_binaries()
        assert binaries is not None, "no PostgreSQL server binaries"
        self.binaries = binaries
        self.folder = Path(tempfile.mkdtemp(prefix="labfleet-pg-"))
        self.data = self.folder / "data"
        # PostgreSQL cannot be asked for any port; it listens on one that is kept for it.
        self.kept = ExitStack()
        self.port = self.kept.enter_context(held_port())
        self.settings = settings
        self.count = 0

    def run(self, program: str, *arguments: str) -> None:
        command = [str(self.binaries / program), *arguments]
        if os.geteuid() == 0:
            command = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", *command]
        done = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if program != "pg_ctl" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT if program != "pg_ctl" else subprocess.DEVNULL,
            timeout=50,
            cwd="/",
        )
        assert done.returncode == 0, (program, (done.stdout or b"").decode(), self.log())

    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text("utf-8", "replace")[-2000:] if path.exists() else ""

    def __enter__(self) -> Self:
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")
        self.run(
            "initdb", "-D", str(self.data), "-A", "trust", "-U", "postgres", "-E", "UTF8", "-N"
        )
        settings = {
            "listen_addresses": "'127.0.0.1'",
            "port": str(self.port),
            "unix_socket_directories": f"'{self.folder}'",
            "max_connections": "100",
            "shared_buffers": "64MB",
            "fsync": "off",
            "full_page_writes": "off",
            **self.settings,
        }
        text = "".join(f"{name} = {value}\n" for name, value in settings.items())
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write(text)
        self.start()
        return self

    def start(self) -> None:
        log = str(self.folder / "log")
        self.run("pg_ctl", "-D", str(self.data), "-l", log, "-w", "-s", "start")

    def stop(self, mode: str = "immediate") -> None:
        self.run("pg_ctl", "-D", str(self.data), "-m", mode, "-w", "-s", "stop")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.stop()
        finally:
            self.kept.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def new_place(self) -> str:
        """Return the URL of an empty schema, which costs a hundredth of a database."""
        self.count += 1
        url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA fleet{self.count}")
        return f"{url}?options=-csearch_path%3Dfleet{self.count}"

    def new_database(self) -> str:
        self.count += 1
        name = f"labfleet{self.count}"
        self.run("createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", name)
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"
