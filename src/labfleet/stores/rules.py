"""Decides what a batch of commits does, on rows in memory; touches no database.

Both stores load the rows that `needs` names, let `settle` judge the commits one after the
other, and save its `BatchPlan` in one transaction. A commit that fails leaves no trace in the plan,
so one caller's conflict costs the others nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from labfleet.interfaces import store
from labfleet.kernel import errors
from labfleet.resources.meta import Key
from labfleet.stores import history
from labfleet.stores.instants import to_micros

NO_LABELS = "{}"
Outcome = store.Committed | errors.LabfleetError
Port = tuple[str, int]
RunKey = tuple[str, str]
_ABSENT: Any = object()
_encode = msgspec.json.Encoder(order="deterministic").encode


class Row(NamedTuple):
    """An object row without its document. `labels` is JSON, `born` the revision that added it."""

    uid: str
    revision: int
    labels: str
    created_at: int
    born: int


# Columns in the order of the statement `save_event`: revision, kind, namespace, name, uid, type,
# doc, at, actor, request_id, reason, previous. A plain tuple, for there is one per write.
EventRow = tuple[int, str, str, str, str, str, bytes, int, str, str, str, int]


@dataclass(slots=True)
class Needs:
    """The rows that a batch may look at or change."""

    objects: set[Key] = field(default_factory=set)
    documents: set[Key] = field(default_factory=set)
    ledger: set[str] = field(default_factory=set)
    ports: set[tuple[str, str, int]] = field(default_factory=set)
    owned_ports: set[tuple[str, str]] = field(default_factory=set)
    leases: set[str] = field(default_factory=set)
    replies: set[str] = field(default_factory=set)
    runs: set[RunKey] = field(default_factory=set)


@dataclass(slots=True)
class State:
    """What the needed rows are now; a row that is not there is absent from its dict.

    `runs` are the needed runs that the history has, by place; `place` is the last one it gave.
    """

    revision: int
    objects: dict[Key, Row] = field(default_factory=dict)
    documents: dict[Key, bytes] = field(default_factory=dict)
    gone: dict[Key, int] = field(default_factory=dict)
    ledger: dict[str, int] = field(default_factory=dict)
    ports: dict[str, dict[Port, str]] = field(default_factory=dict)
    leases: dict[str, tuple[str, int]] = field(default_factory=dict)
    replies: dict[str, tuple[str, bytes, int]] = field(default_factory=dict)
    runs: dict[RunKey, int] = field(default_factory=dict)
    place: int = 0


@dataclass(slots=True)
class BatchPlan:
    """What to save, net of everything that cancelled out, and each commit's outcome.

    The tuples have the columns of the statement that saves them.
    """

    outcomes: list[Outcome]
    revision: int
    events: list[EventRow]
    added: list[tuple[int, str, str, str, str, str, int]] = field(default_factory=list)
    added_heads: list[tuple[int, int]] = field(default_factory=list)
    moved_heads: list[tuple[int, int]] = field(default_factory=list)
    changed: list[tuple[str, str, int]] = field(default_factory=list)
    dropped: list[tuple[int]] = field(default_factory=list)
    gone: list[tuple[str, str, str, int]] = field(default_factory=list)
    labels_saved: list[tuple[str, str, str, str, str]] = field(default_factory=list)
    labels_dropped: list[tuple[str, str, str, str]] = field(default_factory=list)
    ports_saved: list[tuple[str, str, int, str]] = field(default_factory=list)
    ports_dropped: list[tuple[str, str, int]] = field(default_factory=list)
    ledger: list[tuple[str, int]] = field(default_factory=list)
    replies: list[tuple[str, str, bytes, int]] = field(default_factory=list)
    runs: list[history.RunRow] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        """Tell whether there is nothing to save."""
        ports = self.ports_saved or self.ports_dropped
        return not (self.events or ports or self.replies or self.runs)


def check_size(commit: store.Commit) -> None:
    """Raise Invalid for a commit that no store accepts."""
    if max(len(commit.writes), len(commit.preconditions)) > store.COMMIT_LIMIT:
        message = f"a commit holds at most {store.COMMIT_LIMIT} writes and preconditions each"
        raise errors.Invalid(message, reason="CommitTooLarge")
    if commit.cause.at.tzinfo is None:
        message = "a commit's instant must carry its zone"
        raise errors.Invalid(message, reason="NaiveInstant")


def needs(commits: Iterable[store.Commit]) -> Needs:
    """Return the rows that these commits look at or change."""
    found = Needs()
    for commit in commits:
        if commit.fence is not None:
            found.leases.add(commit.fence.lease)
        for condition in commit.preconditions:
            if isinstance(condition, store.AtRevision):
                found.objects.add(condition.key)
            else:
                found.ledger.add(condition.owner)
        for write in commit.writes:
            if isinstance(write, store.Put):
                found.objects.add(write.key)
            else:
                _needs_of_write(found, write)
    return found


def _needs_of_write(found: Needs, write: store.Write) -> None:
    match write:
        case store.Delete(key=key):
            found.objects.add(key)
            found.documents.add(key)
        case store.TakePorts(worker=worker, ports=ports):
            found.ports.update((worker, transport, number) for transport, number in ports)
        case store.FreePorts(worker=worker, owner=owner):
            found.owned_ports.add((worker, owner))
        case store.Remember(key=name):
            found.replies.add(name)
        case store.TouchLedger(owner=owner):
            found.ledger.add(owner)
        case store.Teach(run=run):
            found.runs.add(history.key_of(run))


def settle(state: State, commits: Sequence[store.Commit]) -> BatchPlan:
    """Apply or reject the commits in order and return what to save. Changes `state`."""
    work = _Work(state)
    outcomes: list[Outcome] = []
    for commit in commits:
        mark = len(work.events)
        revision, place = state.revision, state.place
        try:
            outcomes.append(work.apply(commit))
        except errors.LabfleetError as error:
            work.undo()
            del work.events[mark:]
            state.revision, state.place = revision, place
            outcomes.append(error)
        work.undos.clear()
    return work.plan(outcomes)


class _Work:
    """The rows while a batch is judged: current values, first values, and how to undo."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.start = state.revision
        self.events: list[EventRow] = []
        self.undos: list[tuple[dict[Any, Any], Any, Any]] = []
        self.first_objects: dict[Key, Row | None] = {}
        self.first_gone: dict[Key, int | None] = {}
        self.first_ports: dict[tuple[str, Port], str | None] = {}
        self.first_ledger: dict[str, int | None] = {}
        self.first_replies: dict[str, tuple[str, bytes, int] | None] = {}
        self.taught: dict[RunKey, history.RunRow] = {}

    def set(self, rows: dict[Any, Any], key: Any, value: Any) -> None:
        """Change one row (`_ABSENT` removes it) so that `undo` can take it back."""
        self.undos.append((rows, key, rows.get(key, _ABSENT)))
        if value is _ABSENT:
            del rows[key]
        else:
            rows[key] = value

    def undo(self) -> None:
        for rows, key, value in reversed(self.undos):
            if value is _ABSENT:
                rows.pop(key, None)
            else:
                rows[key] = value

    def apply(self, commit: store.Commit) -> store.Committed:
        """Do one commit on the rows; an error leaves them to `undo`."""
        state = self.state
        if commit.fence is not None:
            _check_fence(state, commit.fence)
        for condition in commit.preconditions:
            if isinstance(condition, store.AtRevision):
                row = state.objects.get(condition.key)
                found = 0 if row is None else row.revision
                if found != condition.revision:
                    raise _stale(condition, found)
            else:
                _check_ledger(state, condition)
        cause = _storable(commit.cause)
        at = to_micros(cause.at)
        place = state.place
        revisions: list[int] = []
        touched: list[str] = []
        for write in commit.writes:
            if isinstance(write, store.Put):
                revisions.append(self._put(write, cause, at))
            elif isinstance(write, store.Delete):
                revisions.append(self._delete(write.key, cause, at))
            elif isinstance(write, store.TouchLedger):
                touched.append(write.owner)
            else:
                self._other(write, at)
        if touched and not revisions:
            message = "a commit that touches a ledger row must write an object, to have a revision"
            raise errors.Invalid(message, reason="LedgerWithoutObject")
        for owner in touched:
            # Last, for the version is the revision of all that the commit wrote.
            self.first_ledger.setdefault(owner, state.ledger.get(owner))
            self.set(state.ledger, owner, state.revision)
        return store.Committed(tuple(revisions), state.revision, state.place - place)

    def _other(
        self, write: store.TakePorts | store.FreePorts | store.Remember | store.Teach, at: int
    ) -> None:
        if isinstance(write, store.TakePorts):
            self._take(write)
        elif isinstance(write, store.FreePorts):
            self._free(write)
        elif isinstance(write, store.Remember):
            self._remember(write, at)
        else:
            self._teach(write, at)

    def _put(self, put: store.Put, cause: store.Cause, at: int) -> int:
        state, key = self.state, put.key
        old = state.objects.get(key)
        if key not in self.first_objects:
            self.first_objects[key] = old
        revision = state.revision = state.revision + 1
        labels = str(_encode(put.labels), "utf-8") if put.labels else NO_LABELS
        if old is None:
            kind, previous = "ADDED", state.gone.get(key, 0)
            row = Row(put.uid, revision, labels, at, revision)
        else:
            kind, previous = "MODIFIED", old.revision
            row = Row(put.uid, revision, labels, old.created_at, old.born)
        # `set` by hand: this is what nearly every write comes through.
        self.undos.append((state.objects, key, _ABSENT if old is None else old))
        state.objects[key] = row
        space, name, why = key.namespace, key.name, cause.reason
        event = (revision, key.kind, space, name, put.uid, kind, put.doc, at, cause.actor,
                 cause.request_id, why, previous)  # fmt: skip
        self.events.append(event)
        return revision

    def _delete(self, key: Key, cause: store.Cause, at: int) -> int:
        state = self.state
        old = state.objects.get(key)
        if old is None:
            message = f"{name_of(key)} does not exist, so it cannot be removed"
            raise errors.Conflict(message, reason="StaleVersion")
        self.first_objects.setdefault(key, old)
        self.first_gone.setdefault(key, state.gone.get(key))
        revision = state.revision = state.revision + 1
        self.set(state.objects, key, _ABSENT)
        self.set(state.gone, key, revision)
        # Written in this batch: then its event is in the list, which has no gaps.
        place = old.revision - self.start - 1
        doc = self.events[place][6] if place >= 0 else state.documents[key]
        why = (cause.actor, cause.request_id, cause.reason, old.revision)
        self.events.append((revision, *key, old.uid, "DELETED", doc, at, *why))
        return revision

    def _take(self, take: store.TakePorts) -> None:
        rows = self.state.ports.setdefault(take.worker, {})
        for port in take.ports:
            holder = rows.get(port)
            if holder is None:
                self.first_ports.setdefault((take.worker, port), None)
                self.set(rows, port, take.owner)
            elif holder != take.owner:
                transport, number = port
                message = (
                    f"port {transport}/{number} of {take.worker} is held by {holder}, "
                    f"so {take.owner} gets none of its {len(take.ports)}"
                )
                raise errors.Conflict(message, reason="PortTaken")

    def _free(self, free: store.FreePorts) -> None:
        rows = self.state.ports.get(free.worker, {})
        for port in [port for port, owner in rows.items() if owner == free.owner]:
            self.first_ports.setdefault((free.worker, port), free.owner)
            self.set(rows, port, _ABSENT)

    def _remember(self, write: store.Remember, at: int) -> None:
        old = self.state.replies.get(write.key)
        if old is not None and old[2] > at:
            message = f"idempotency key {write.key!r} is already in use"
            raise errors.Conflict(message, reason="ReplyKnown")
        self.first_replies.setdefault(write.key, old)
        row = (write.digest, write.reply, to_micros(write.until))
        self.set(self.state.replies, write.key, row)

    def _teach(self, write: store.Teach, at: int) -> None:
        key = history.key_of(write.run)
        if key in self.state.runs:
            return
        row = history.row_of(write.run, self.state.place + 1, at)
        self.state.place += 1
        self.set(self.state.runs, key, self.state.place)
        self.set(self.taught, key, row)

    def plan(self, outcomes: list[Outcome]) -> BatchPlan:
        """Return what differs now from what was loaded."""
        state = self.state
        plan = BatchPlan(outcomes, state.revision, self.events, runs=list(self.taught.values()))
        for key, first in self.first_objects.items():
            row = state.objects.get(key)
            if row is first:
                continue
            _plan_object(plan, key, first, row)
        for key, last in self.first_gone.items():
            if (end := state.gone.get(key)) is not None and end != last:
                plan.gone.append((*key, end))
        self._plan_others(plan)
        return plan

    def _plan_others(self, plan: BatchPlan) -> None:
        state = self.state
        for (worker, port), before in self.first_ports.items():
            holder = state.ports[worker].get(port)
            if holder != before:
                if before is not None:
                    plan.ports_dropped.append((worker, *port))
                if holder is not None:
                    plan.ports_saved.append((worker, *port, holder))
        for owner, version in self.first_ledger.items():
            if (now := state.ledger.get(owner)) is not None and now != version:
                plan.ledger.append((owner, now))
        for name, reply in self.first_replies.items():
            if (kept := state.replies.get(name)) is not None and kept is not reply:
                plan.replies.append((name, *kept))


def _plan_object(plan: BatchPlan, key: Key, first: Row | None, row: Row | None) -> None:
    if first is not None and row is not None and row.born == first.born:
        plan.moved_heads.append((row.revision, row.born))
        if row.labels == first.labels and row.uid == first.uid:
            return
        plan.changed.append((row.uid, row.labels, row.born))
    else:
        if first is not None:
            plan.dropped.append((first.born,))
        if row is not None:
            plan.added.append((row.born, *key, row.uid, row.labels, row.created_at))
            plan.added_heads.append((row.revision, row.born))
    _plan_labels(plan, key, first, row)


def _plan_labels(plan: BatchPlan, key: Key, first: Row | None, row: Row | None) -> None:
    before = NO_LABELS if first is None else first.labels
    after = NO_LABELS if row is None else row.labels
    if before == after:
        return
    old, new = decode_labels(before), decode_labels(after)
    plan.labels_dropped.extend((*key, label) for label in old if new.get(label) != old[label])
    plan.labels_saved.extend(
        (*key, label, value) for label, value in new.items() if old.get(label) != value
    )


def decode_labels(text: str) -> dict[str, str]:
    """Return the labels of an object row."""
    return {} if text == NO_LABELS else msgspec.json.decode(text, type=dict[str, str])


def name_of(key: Key) -> str:
    """Return kind, namespace and name for messages."""
    return f"{key.kind} {key.namespace}/{key.name}"


def _storable(cause: store.Cause) -> store.Cause:
    """Return the cause without NUL, which PostgreSQL's texts cannot hold.

    People and servers write such reasons; a refusal here would stop an object for ever.
    """
    if "\0" not in cause.reason and "\0" not in cause.actor:
        return cause
    instead = "\N{REPLACEMENT CHARACTER}"
    return dataclasses.replace(
        cause,
        actor=cause.actor.replace("\0", instead),
        reason=cause.reason.replace("\0", instead),
    )


def _check_fence(state: State, fence: store.Fence) -> None:
    holder, token = state.leases.get(fence.lease, ("", 0))
    if token != fence.token or not holder:
        who = f"{holder} holds it now with token {token}" if holder else "nobody holds it now"
        message = f"the lease {fence.lease} with token {fence.token} is lost: {who}"
        raise errors.Fenced(message)


def _check_ledger(state: State, condition: store.LedgerUntouched) -> None:
    version = state.ledger.get(condition.owner, 0)
    if version > condition.since:
        message = (
            f"reservations of {condition.owner} changed: expected none after revision "
            f"{condition.since}, found one at {version}"
        )
        raise errors.Conflict(message, reason="LedgerMoved")


def _stale(condition: store.AtRevision, found: int) -> errors.Conflict:
    name = name_of(condition.key)
    if condition.revision == 0:
        message = f"{name} exists already: expected none, found revision {found}"
        return errors.Conflict(message, reason="AlreadyExists")
    seen = f"revision {found}" if found else "none"
    message = f"{name} changed: expected revision {condition.revision}, found {seen}"
    return errors.Conflict(message, reason="StaleVersion")
