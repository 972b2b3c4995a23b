"""Reads the history of past runs: who may read an object may read what became of its kind's runs."""

from __future__ import annotations

from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources.history import LEARNED, KeptRun, RunKind
from labfleet.service.core import access, intake
from labfleet.service.core.access import Principal
from labfleet.service.core.service_context import Caller, ServiceContext

OBJECTS = {RunKind.SIMULATION: "Simulation", RunKind.SESSION: "Session", RunKind.BOOT: "Worker"}
"""Kind of run -> kind of the object that ran."""


def visible(principal: Principal) -> tuple[RunKind, ...]:
    """Return the kinds of runs of which the caller may read all, or its own."""
    return tuple(run for run, kind in OBJECTS.items() if access.may(principal, "read", kind))


async def read(
    services: ServiceContext,
    caller: Caller,
    *,
    kind: RunKind | None = None,
    family: str | None = None,
    namespace: str | None = None,
    cursor: str = "",
    limit: int = 100,
    oldest_first: bool = False,
) -> tuple[tuple[KeptRun, ...], str | None]:
    """Return one page of runs, the newest first, and the next page's cursor (None: the end).

    People see the runs of their own sessions, runners those of their own simulations; a role that
    may read no run at all is Denied.
    """
    principal = caller.principal
    if not 1 <= limit <= stores.PAGE_LIMIT:
        raise intake.invalid(("limit", f"must be 1 to {stores.PAGE_LIMIT}"))
    if cursor and not (cursor.isdecimal() and cursor.isascii() and len(cursor) < 19):
        raise intake.invalid(("cursor", "is not the next of a page of past runs"))
    shown = visible(principal)
    if kind is None and len(shown) < len(OBJECTS):
        kind = shown[0] if shown else RunKind.SESSION
    if kind is not None and kind not in LEARNED:
        raise intake.invalid(("kind", f"must be one of {', '.join(LEARNED)}"))
    if kind is not None and kind not in shown:
        said = f"role {principal.role} may not read past runs of kind {kind}"
        raise errors.Denied(said, reason="Forbidden")
    owned = {access.only_owner(principal, OBJECTS[each]) for each in shown if kind in (None, each)}
    owner = next((each for each in owned if each is not None), None)
    found: list[KeptRun] = []
    # Kind by kind: what money is counted by lies among the runs, and would leave pages empty.
    for each in (kind,) if kind is not None else shown:
        if oldest_first:
            found += await services.history.history(
                int(cursor or 0), kind=each, family=family, namespace=namespace, owner=owner,
                limit=limit,
            )  # fmt: skip
        else:
            found += await services.history.newest_runs(
                kind=each, family=family, namespace=namespace, owner=owner,
                before=int(cursor) if cursor else None, limit=limit,
            )  # fmt: skip
    found.sort(key=_place, reverse=not oldest_first)
    page = tuple(found[:limit])
    return page, str(page[-1].place) if len(page) == limit else None


def _place(kept: KeptRun) -> int:
    return kept.place
