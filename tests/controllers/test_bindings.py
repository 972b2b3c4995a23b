"""Placements that are written together: what shares a commit, and what a conflict costs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from labfleet.controllers import bindings
from labfleet.controllers.bindings import Bindings
from labfleet.interfaces import store as stores
from labfleet.kernel import errors
from labfleet.resources.meta import Key, Metadata
from labfleet.resources.session import PortAllocation, Session, SessionSpec, SessionStatus
from labfleet.service.core import ledger_rows

NOW = datetime(2026, 11, 27, 9, tzinfo=UTC)
FENCE = stores.Fence("scheduler", 3)


class Commits:
    """Stands for a controller's context: keeps what is saved, or refuses it for a worker."""

    def __init__(self, refused: dict[str, errors.LabfleetError] | None = None) -> None:
        self.objects = self
        self.refused = refused or {}
        self.saved: list[tuple[list[str], Any, Any]] = []

    def cause(self, actor: str, reason: str) -> stores.Cause:
        """The cause of a commit."""
        return stores.Cause(actor, NOW, "", reason)

    def fence(self) -> stores.Fence:
        """The fence of its lead."""
        return FENCE

    async def save(self, *objects: Session, **how: Any) -> tuple[int, tuple[Session, ...]]:
        """Keep a commit; its revision counts the commits."""
        await asyncio.sleep(0)
        refusal = self.refused.get(objects[0].status.worker or "")
        if refusal is not None:
            raise refusal
        assert how["fence"] is FENCE
        names = [each.name for each in objects]
        self.saved.append((names, how["preconditions"], how["writes"]))
        return len(self.saved), objects


def placed(name: str, worker: str) -> Session:
    """A session as it is stored once it is placed."""
    port = PortAllocation(name="c", node="r1", kind="serial", number=2000)
    return Session(
        metadata=Metadata(name=name, uid=name),
        spec=SessionSpec(definition="two"),
        status=SessionStatus(worker=worker, ports=(port,)),
    )


def key(worker: str) -> Key:
    """The key of a worker."""
    return Key("Worker", "default", worker)


def written(made: Bindings, since: dict[Key, int] | None = None) -> bindings.Written:
    """Write what waits, of a snapshot at revision 40."""
    return asyncio.run(made.write(since or {}, 40))


def bound(context: Commits, *pairs: tuple[str, str]) -> Bindings:
    """Bindings of sessions to workers."""
    made = Bindings(cast("Any", context), "scheduler")
    for name, worker in pairs:
        made.add(placed(name, worker), key(worker))
    return made


def test_sessions_of_one_worker_share_a_commit() -> None:
    """Each worker has one commit: its sessions, their ports, and its ledger row once."""
    context = Commits()
    made = bound(context, ("a", "w1"), ("b", "w2"), ("c", "w1"))
    found = written(made, {key("w2"): 44})
    assert [names for names, _, _ in context.saved] == [["a", "c"], ["b"]]
    assert found.bound == {key("w1"): 1, key("w2"): 2}
    assert (found.revision, found.lost) == (2, ())
    row, other = (ledger_rows.of(key(name)) for name in ("w1", "w2"))
    _, preconditions, writes = context.saved[0]
    assert preconditions == (ledger_rows.untouched(row, 40),)
    assert [each for each in writes if isinstance(each, stores.TouchLedger)] == [
        ledger_rows.touch(row)
    ]
    taken = [each for each in writes if isinstance(each, stores.TakePorts)]
    assert [(each.owner, each.ports) for each in taken] == [
        ("a", (("tcp", 2000),)), ("c", (("tcp", 2000),)),
    ]  # fmt: skip
    assert context.saved[1][1] == (ledger_rows.untouched(other, 44),)


def test_a_conflict_costs_other_workers_nothing() -> None:
    """Where another writer was first nothing is bound; all else is."""
    context = Commits({"w1": errors.Conflict("moved", reason="LedgerMoved")})
    found = written(bound(context, ("a", "w1"), ("b", "w2")))
    assert found.lost == (key("w1"),)
    assert found.bound == {key("w2"): 1}


@pytest.mark.parametrize("error", [errors.Fenced("no lead"), errors.Temporary("closed")])
def test_any_other_error_is_raised_once_all_were_tried(error: errors.LabfleetError) -> None:
    """A lead that was lost, or a store that is away, ends the cycle."""
    context = Commits({"w1": error})
    with pytest.raises(type(error)):
        written(bound(context, ("a", "w1"), ("b", "w2")))
    assert [names for names, _, _ in context.saved] == [["b"]]


def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many of all, or of one worker, are written before more are decided; then none wait."""
    monkeypatch.setattr(bindings, "TOGETHER", 3)
    monkeypatch.setattr(bindings, "ON_ONE_WORKER", 2)
    context = Commits()
    made = bound(context, ("a", "w1"), ("b", "w2"))
    assert not made.full
    made.add(placed("c", "w3"), key("w3"))
    assert made.full
    written(made)
    assert not made.full
    assert written(made) == bindings.Written()
    assert bound(context, ("a", "w1"), ("b", "w1")).full


def test_a_full_commit_is_one_that_stores_take() -> None:
    """Each session of a commit is two writes and a precondition, below the stores' limit."""
    assert 2 * bindings.ON_ONE_WORKER + 1 <= stores.COMMIT_LIMIT
