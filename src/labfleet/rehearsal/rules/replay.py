"""The rule that the log replays to exactly the stored objects."""

from __future__ import annotations

from collections.abc import Callable

from labfleet.rehearsal.worlds.database import SharedDatabase
from labfleet.resources import kinds


def look(shared: SharedDatabase, broken: Callable[[str, str], None]) -> None:
    """Compare the log's objects with the stored ones; `broken` takes the rule's word and why."""
    made: dict[tuple[str, str, str], tuple[int, bytes]] = {}
    database, after = shared.inner, 0
    while True:
        rows = database.rows(database.sql["events"], (after, 1000))
        found = [row[3:] for row in rows if row[3] is not None]
        for revision, word, kind, namespace, name, _, doc, *_ in found:
            if word == "DELETED":
                made.pop((kind, namespace, name), None)
            else:
                made[kind, namespace, name] = (revision, bytes(doc))
        if len(found) < 1000:
            break
        after = found[-1][0]
    stored = {}
    for name in kinds.KINDS:
        for row in database.rows(
            database.sql["list"].replace("/*filters*/", ""), (name, "", "", 100_000)
        ):
            if row[2] is not None:
                stored[row[2], row[3], row[4]] = (row[6], bytes(row[7]))
    if made != stored:
        odd = sorted(key for key in made.keys() | stored.keys() if made.get(key) != stored.get(key))
        broken("replay", f"log and objects differ in {odd[:5]}")
