"""For programs in Python that start runs: `admitted` asks, keeps the lease and reports the end.

    from labfleet.client import admitted

    with admitted(chart="waku", nodecount=50, url="http://127.0.0.1:8470", token=token) as run:
        start(label=run.id)

It is the command line's HTTP client with threads and a log, and imports neither the server nor any
library but msgspec. What happens meanwhile is logged as `labfleet.client`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from labfleet.cli.kit import client, environment, gate, settings
from labfleet.cli.kit.exits import Failure
from labfleet.cli.kit.gate import Denied
from labfleet.cli.kit.lease import Lease
from labfleet.resources.history import FIGURES

__all__ = ["Denied", "Failure", "Run", "admitted"]
_log = logging.getLogger("labfleet.client")


class Run:
    """One admitted run.

    `id` is for its labels, `predicted` has upper bounds in base units with their `evidence`, and
    `figures` is what was observed so far.
    """

    def __init__(self, approved: gate.Approved, lease: Lease) -> None:
        self.id = approved.id
        self.predicted: dict[str, int] = dict(approved.reply.get("predicted") or {})
        self.evidence: tuple[str, ...] = tuple(approved.reply.get("evidence") or ())
        self._lease = lease
        self.figures: dict[str, Any] = {}

    @property
    def lost(self) -> str:
        """Return why the server has ended the run, "" while it has not: it holds nothing then."""
        return self._lease.lost

    def observed(self, **figures: float | Mapping[str, float]) -> None:
        """Note what the run used, for the report of its end: `memory_mib=900`, `cpu_milli=1500`.

        A number is a peak; a mapping may give peak, mean, median and p95. ValueError for another
        figure: the report of the end would be refused for it.
        """
        unknown = [name for name in figures if name not in FIGURES]
        if unknown:
            raise ValueError(f"{unknown[0]}: none of {', '.join(FIGURES)}")
        self.figures.update(
            {
                name: dict(value) if isinstance(value, Mapping) else value
                for name, value in figures.items()
            }
        )


@contextmanager
def admitted(
    *,
    params: Mapping[str, Any] | None = None,
    cluster: str | None = None,
    cost: Mapping[str, Any] | None = None,
    duration_seconds: float | None = None,
    queue: bool | str = False,
    priority: int | None = None,
    owner: str | None = None,
    key: str | None = None,
    ttl_seconds: int = 60,
    timeout_seconds: float = 3600.0,
    url: str | None = None,
    token: str | None = None,
    ca_file: str | None = None,
    namespace: str | None = None,
    on_lost: Callable[[str], None] | None = None,
    **parameters: Any,
) -> Iterator[Run]:
    """Hold a run for the `with` block: completed at its end, failed when it raises.

    Every other keyword is a parameter of the run; `params` takes those whose names are taken here.
    `url`, `token` and `namespace` (of cluster and queue) are by default the command line's:
    LABFLEET_URL, LABFLEET_TOKEN or its file, LABFLEET_NAMESPACE, or a context. With `queue` it waits for
    room, at most `timeout_seconds`. A thread reports that the run lives while the block goes on, and
    calls `on_lost` with the reason when the server has ended it. KeyboardInterrupt means cancelled.
    Raises Denied when the run may not start, and its base Failure when that cannot be found out;
    nothing is held then. The end is reported for at most two minutes, and logged when it could not
    be: the block's own result stands.
    """
    asked = {
        "params": {**(params or {}), **parameters},
        "cluster": cluster,
        "cost": None if cost is None else dict(cost),
        "duration_seconds": None if duration_seconds is None else math.ceil(duration_seconds),
        "queue": queue or None,
        "priority": priority,
        "owner": owner,
        "ttl_seconds": ttl_seconds,
    }
    body = {name: value for name, value in asked.items() if value is not None}
    door = _door(url, token, ca_file, namespace)
    try:
        approved = door.enter(body, key=key, seconds=timeout_seconds)
        lost, status = _told(approved.id, on_lost), "failed"
        with Lease(door, approved.id, ttl_seconds=ttl_seconds, on_lost=lost) as lease:
            run = Run(approved, lease)
            try:
                yield run
                status = "completed"
            except KeyboardInterrupt:
                status = "cancelled"
                raise
            except SystemExit as left:
                status = "failed" if left.code else "completed"
                raise
            finally:
                _report(door, run, status)
    finally:
        door.api.close()


def _door(
    url: str | None, token: str | None, ca_file: str | None, namespace: str | None
) -> gate.Gate:
    """Return the gate of the server that is meant, as the command line chooses it."""
    standing = environment.real()
    given = {"url": url, "ca_file": ca_file, "namespace": namespace}
    chosen = settings.resolve(standing, given)
    if token is not None:
        chosen = replace(chosen, token=token, withheld="")
    api = client.Client(chosen, standing, seconds=gate.PATIENCE, keep=True)
    return gate.Gate(api, _log.info, chosen.namespace)


def _told(name: str, on_lost: Callable[[str], None] | None) -> Callable[[str], None]:
    def lost(why: str) -> None:
        _log.error("the server ended %s: %s", name, why)
        if on_lost is not None:
            on_lost(why)

    return lost


def _report(door: gate.Gate, run: Run, status: str) -> None:
    try:
        heard = door.end(run.id, status, run.figures)
    except Failure as failure:
        _log.error("%s was not reported as %s: %s", run.id, status, failure.cause)
    else:
        _log.info("%s is %s", run.id, heard)
