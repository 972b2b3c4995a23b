"""What the two databases do for the one store: blocking calls, run in the lanes of a runner.

Rows are plain tuples in the column order of the statement. Every method raises kernel errors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from labfleet.interfaces import store
from labfleet.stores import rules

UNSTORABLE = "a value is too large, or has characters that the store cannot keep"
T = TypeVar("T")
Rows = list[tuple[Any, ...]]
Parameters = Sequence[Any]
Run = Callable[[str, Parameters], Rows]


class Database(Protocol):
    """A database, opened. `poll` is how often (machine seconds) others' writes are looked for.

    `poll` None: nobody else can write. `shared` tells that reads need the write lane. `durable` is
    called in the write lane with the events of each batch that is: by whom it is set, if at all.
    """

    sql: dict[str, str]
    poll: float | None
    shared: bool
    durable: Callable[[list[rules.EventRow]], None] | None

    def rows(self, statement: str, parameters: Parameters = ()) -> Rows:
        """Run one reading statement on a snapshot of its own. Read lane."""
        ...

    def write(self, work: Callable[[Run], T]) -> T:
        """Run work in one transaction of its own, durable on return. Write lane."""
        ...

    def commit(self, commits: list[store.Commit]) -> list[rules.Outcome]:
        """Do a batch in one transaction, durable on return. Write lane."""
        ...

    def listed(self, values: tuple[str, ...]) -> Any:
        """Return the parameter that stands for a list of texts."""
        ...

    def backup(self, target: str) -> int:
        """Write a consistent copy to a new file; return its bytes. Read lane."""
        ...

    def listen(
        self,
        wake: Callable[[int], None],
        spare: Callable[[Callable[[], None]], asyncio.Future[None]],
    ) -> None:
        """Call `wake` in the loop with each revision that others announce. Loop thread.

        `spare` runs blocking work in the read lane.
        """
        ...

    def mute(self) -> None:
        """End what `listen` began. Loop thread."""
        ...

    def close(self) -> None:
        """Release files and connections."""
        ...
