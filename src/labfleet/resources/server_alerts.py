"""Alerts of the server itself, which no object carries: its store.

The texts are rows like those of `alerts`; who knows the facts says since when and in which words.
"""

from __future__ import annotations

from datetime import datetime

from labfleet.resources.alerts import Alert, Raised

_ROWS = (
    Alert(
        condition="StoreUnreadable",
        severity="critical",
        cause="The store does not answer this server: its database is down, unreachable, damaged or "
        "refuses the credentials.",
        command="GET /readyz of each server; the server's log, event store.trouble",
        fix="Bring the database back; the server goes on by itself. Sessions that run keep running.",
    ),
    Alert(
        condition="StoreBehind",
        severity="critical",
        cause="This server does not follow the store's log, so its lists would be old.",
        command="GET /readyz of each server; the server's log",
        fix="See whether the process is starved of CPU or its connection hangs; restart it.",
    ),
    Alert(
        condition="StoreReadOnly",
        severity="critical",
        cause="The store refuses writes: its disk is full, its file system or database is "
        "read-only, or its connections are used up. Nothing is started, ended or moved meanwhile.",
        command="GET /readyz of each server; the server's log, event store.trouble",
        fix="Free space on the store's disk, or make it writable again; it goes on by itself.",
    ),
)

SERVER_ALERTS = {row.condition: row for row in _ROWS}
"""Condition -> its row."""

STORE_CONDITIONS = {
    "unreadable": "StoreUnreadable",
    "behind": "StoreBehind",
    "read-only": "StoreReadOnly",
}
"""State of the store, as `/readyz` says it -> its alert."""


def of_server(
    part: str, condition: str, *, since: datetime, reason: str, message: str
) -> Raised:  # fmt: skip
    """Return a raised alert of a part of the server."""
    row = SERVER_ALERTS[condition]
    return Raised(
        object=f"server/{part}",
        condition=condition,
        severity=row.severity,
        since=since,
        reason=reason,
        message=message,
        cause=row.cause,
        command=row.command,
        fix=row.fix,
    )
