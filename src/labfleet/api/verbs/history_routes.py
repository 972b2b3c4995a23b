"""Routes of the history of past runs: read in pages, and brought in from elsewhere."""

from __future__ import annotations

from typing import Annotated

import msgspec
from litestar.params import QueryParameter

from labfleet.api.core.route import Routes
from labfleet.api.kinds.kind_routes import Cursor, Limit, SomeNamespace
from labfleet.resources.history import KeptRun, Run, RunKind
from labfleet.resources.meta import Record
from labfleet.service.core.service_context import Caller, ServiceContext
from labfleet.service.reads import past_runs
from labfleet.service.verbs import past_runs as verbs

Family = Annotated[
    str | None,
    QueryParameter(name="family", max_length=256, description="Only this family; all without."),
]
OfKind = Annotated[
    RunKind | None, QueryParameter(name="kind", description="Only this kind of run; all without.")
]
OldestFirst = Annotated[
    bool, QueryParameter(name="oldestFirst", description="The order in which they were kept.")
]
BODY_BYTES = 2 * 2**20
BODY_VALUES = 64 * 1024


class RunList(Record, frozen=True, kw_only=True):
    """One page of past runs.

    items: The runs, each with its place in the history.
    next: Cursor of the next page; null when this is the last one.
    """

    items: tuple[KeptRun, ...]
    next: str | None = None


class ImportRuns(Record, frozen=True, kw_only=True):
    """Runs that were kept elsewhere.

    runs: The runs, in the order in which they are to be learned.
    """

    runs: Annotated[tuple[Run, ...], msgspec.Meta(max_length=verbs.AT_ONCE)]


class ImportedRuns(Record, frozen=True, kw_only=True):
    """What became of them.

    added: How many are new.
    known: How many were there already, by kind and uid; these stay as they were.
    """

    added: int
    known: int


def routes(services: ServiceContext) -> Routes:
    """Return the routes."""
    made = Routes("history")

    @made.get("/api/v1/history", "Past runs: what was asked, given and used")
    async def list_history(
        who: Caller,
        namespace: SomeNamespace = None,
        *,
        kind: OfKind = None,
        family: Family = None,
        limit: Limit = 100,
        cursor: Cursor = "",
        oldest_first: OldestFirst = False,
    ) -> RunList:
        """Return one page of past runs, the newest first; people and runners see their own."""
        items, following = await past_runs.read(
            services, who, kind=kind, family=family, namespace=namespace, cursor=cursor,
            limit=limit, oldest_first=oldest_first,
        )  # fmt: skip
        return RunList(items=items, next=following)

    @made.post(
        "/api/v1/history/import", "Bring past runs from elsewhere in",
        needs=("create", "Run"), limit=BODY_BYTES, values=BODY_VALUES, required=True,
    )  # fmt: skip
    async def import_history(who: Caller, sent: ImportRuns) -> ImportedRuns:
        """Keep runs with source imported, all of them or none; what is known stays as it is."""
        done = await verbs.bring(services, who, sent.runs)
        return ImportedRuns(added=done.added, known=done.known)

    return made
