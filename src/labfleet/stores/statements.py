"""Loads SQL from the files of `sql/`: named statements and numbered migrations.

A statement begins with a line `-- name: its_name`; comment lines stay out of what is sent.
"""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from labfleet.kernel import errors

_HEAD = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_FOLDER = files("labfleet.stores") / "sql"


class Migration(NamedTuple):
    """One forward step of a schema; the digest tells when a released file was changed."""

    number: int
    name: str
    digest: str
    script: str


@cache
def statements(dialect: str) -> dict[str, str]:
    """Return name -> SQL of `sql/<dialect>.sql`."""
    parts = _HEAD.split((_FOLDER / f"{dialect}.sql").read_text("utf-8"))
    found = {}
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        lines = (line for line in body.splitlines() if not line.startswith("--"))
        found[name] = "\n".join(lines).strip().rstrip(";")
    return found


@cache
def migrations(dialect: str) -> tuple[Migration, ...]:
    """Return all migrations of a dialect in their order."""
    steps = []
    for entry in (_FOLDER / "migrations" / dialect).iterdir():
        number, dash, name = entry.name.removesuffix(".sql").partition("_")
        if dash and number.isdecimal() and entry.name.endswith(".sql"):
            script = entry.read_text("utf-8")
            digest = sha256(script.encode()).hexdigest()
            steps.append(Migration(int(number), name, digest, script))
    return tuple(sorted(steps))


def schema(dialect: str) -> str:
    """Return the schema that all migrations together must make."""
    return (_FOLDER / f"schema_{dialect}.sql").read_text("utf-8")


def pending(
    known: tuple[Migration, ...], applied: dict[int, tuple[str, str]]
) -> tuple[Migration, ...]:
    """Return the steps still to do on a store with these (number -> name, digest) done.

    Permanent "SchemaTooNew" when a newer program has been here, "SchemaAltered" when a step
    was done from a file that is not the one we have.
    """
    newest = known[-1].number
    if applied and max(applied) > newest:
        message = (
            f"the store has schema {max(applied)} and this program knows {newest}: "
            "it was opened by a newer labfleet; run that version or restore an older backup"
        )
        raise errors.Permanent(message, reason="SchemaTooNew")
    for step in known:
        done = applied.get(step.number)
        if done is not None and done[1] != step.digest:
            message = (
                f"migration {step.number} ({step.name}) was applied from another text than "
                f"this program has ({done[1][:12]} and {step.digest[:12]})"
            )
            raise errors.Permanent(message, reason="SchemaAltered")
    return tuple(step for step in known if step.number not in applied)
