"""Alerts of the server itself, which no object carries: its store, its clock, its secrets.

The texts are rows like those of `alerts`; who knows the facts says since when and in which words.
"""

from __future__ import annotations

from datetime import datetime

from labfleet.resources.alerts import Alert, Raised
from labfleet.resources.conditions import Measured

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
    Alert(
        condition="ClockJumped",
        severity="critical",
        cause="The host's clock jumped by more than five minutes, or differs so much from the "
        "fleet's log. The jump is not followed, so that nothing ends before its time.",
        command="labfleet alerts; on the host: timedatectl, chronyc tracking",
        fix="Set the host's clock right: the alert ends by itself. If the new time is the right "
        "one, say so with `labfleet confirm-clock`; what is over by it then ends.",
    ),
    Alert(
        condition="ClockBehind",
        severity="critical",
        cause="The store has a commit of the future: this host's clock is behind, or the clock that "
        "wrote the commit was ahead.",
        command="labfleet alerts; on the host: timedatectl, chronyc tracking",
        fix="Set the host's clock right: the alert ends by itself. If it is right already, say so "
        "with `labfleet confirm-clock`.",
    ),
    Alert(
        condition="SecretsNotAllowed",
        severity="critical",
        cause="Objects name passwords or tokens (secretRefs) that lie outside what this server may "
        "give out; their next log-in, registration or delivery fails.",
        command="labfleet alerts; the server's log, event reference.refused; labfleet explain KIND/NAME",
        fix="Move the file into secrets_folder, or name the variable LABFLEET_SECRET_...; then correct "
        "the reference. Or widen the server's settings secrets_folder and secrets_variables.",
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
    part: str, condition: str, *, since: datetime, reason: str, message: str,
    measured: Measured | None = None, about: str = "",
) -> Raised:  # fmt: skip
    """Return a raised alert of a part of the server; `about` is an object as a command takes it."""
    row = SERVER_ALERTS[condition]
    return Raised(
        object=f"server/{part}",
        condition=condition,
        severity=row.severity,
        since=since,
        reason=reason,
        message=message,
        measured=measured,
        cause=row.cause,
        command=row.command.replace("KIND/NAME", about),
        fix=row.fix,
    )
