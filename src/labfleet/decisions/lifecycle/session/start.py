"""When a lab may start: its worker has capacity, its port tags are there, and it is its turn.

Sixty labs started in one minute would share one disk and one CPU set, and random nodes would
fail (facts/cml-issues.md#f36, facts/fleet-bugs.md#t46): on each worker a bounded number boots at
once, the rest wait in the order in which they came. A slot that begins where a lab stays beyond its
own end waits until that one is gone, for capacity is never exceeded at any instant. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from labfleet.decisions import ledger, placement, port_holders, port_numbers, wording
from labfleet.decisions.lifecycle.session.draft import Draft, S, Step
from labfleet.decisions.lifecycle.session.phases import STARTED
from labfleet.kernel.quantity import count
from labfleet.resources import conditions, port_tags
from labfleet.resources.amounts import Amounts
from labfleet.resources.session import LabStatus, Session
from labfleet.resources.session_conditions import SessionCondition, SessionReason
from labfleet.resources.worker import Worker

ROOM_PATIENCE = timedelta(minutes=5)
"""How long a booked session waits for its worker's room before another worker is looked for."""

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
SHOWN = 3
TAGS_SHOWN = 5
TAG_WRITES = 3
"""How often tags that a lab lacks are written again."""


def room_held(session: Session, others: Iterable[Session], capacity: Amounts | None) -> str:
    """Return who holds the capacity that a booked session needs now; "" means: it may start.

    `others` hold something on the same worker. Those count whose lab may still exist there,
    however they ended, and those booked before this one. So two that begin at one instant never
    both take the last capacity: all processes compute the same order, without a clock. An
    unknown size blocks nobody; the placement knew one.
    """
    mine = session.status.reservation
    if mine is None or capacity is None:
        return ""
    ahead = []
    for other in others:
        held = other.status.reservation
        if held is None or other.key == session.key:
            continue
        if other.status.phase in STARTED or _booked(other) < _booked(session):
            ahead.append((other.name, held))
    total = ledger.total(held for _, held in ahead)
    short = ledger.shortages(mine.amounts, capacity, total)
    if not short:
        return ""
    late = sorted(name for name, held in ahead if held.end is not None and held.end <= mine.start)
    told = f"{mine.holder} lacks {wording.short(short)}"
    if not late:
        return told
    more = f" and {len(late) - SHOWN} more" if len(late) > SHOWN else ""
    return f"{told}; past their end and still there: {', '.join(late[:SHOWN])}{more}"


def size_of(worker: Worker) -> Amounts | None:
    """Return what a worker has, None while nobody has seen it.

    While its licence does not count (not yet, or not any more) it has the nodes that it shall
    have: those that are seen only grow. Nothing ever hides its CPUs and its memory.
    """
    size, machine = worker.status.capacity, worker.spec.machine
    if size is None or machine is None or worker.status.licence.licensed:
        return size
    wanted = placement.shape(worker.name, worker.spec.track, machine).capacity
    return msgspec.structs.replace(size, nodes=max(size.nodes, wanted.nodes))


def _booked(session: Session) -> tuple[datetime, str]:
    held = session.status.reservation
    return _LONG_AGO if held is None else held.start, session.metadata.uid


def tags_again(draft: Draft, lab: LabStatus) -> Step | None:
    """Compare the tags that were read back; return the step that writes those that are lost.

    After `TAG_WRITES` of them the lab goes on without, since its other ports may serve: the
    condition names what is missing, and a TCP port that stays silent ends it in its own time. Tags
    that somebody added stay, for nobody knows what they are needed for.
    """
    lost, added = draft.seen.tags_lost, draft.seen.tags_added
    if added is None:
        return None
    if lost:
        told = _few(lost)
        draft.fact(SessionCondition.PORTS_TAGGED, "False", SessionReason.TAGS_MISSING, told)
        if lab.tags_written < TAG_WRITES:
            draft.set(lab=msgspec.structs.replace(lab, tags_written=lab.tags_written + 1))
            return draft.stay(f"port tags are missing, writing them again: {told}", do="tag")
    elif added:
        draft.fact(SessionCondition.PORTS_TAGGED, "False", SessionReason.TAGS_ADDED, _few(added))
    elif draft.status.ports:
        draft.fact(SessionCondition.PORTS_TAGGED, "True", SessionReason.TAGS_WRITTEN)
    return None


def _few(tags: Sequence[str]) -> str:
    more = f" and {len(tags) - TAGS_SHOWN} more" if len(tags) > TAGS_SHOWN else ""
    return ", ".join(tags[:TAGS_SHOWN]) + more


def begin(draft: Draft, lab: LabStatus) -> Step:
    """Wait for the turn, or start."""
    turn = conditions.find(draft.status.conditions, SessionCondition.START_TURN)
    if draft.seen.before:
        boot = "boots" if draft.seen.before == 1 else "boot"
        told = f"{count(draft.seen.before, 'lab')} of its worker {boot} first"
        draft.fact(
            SessionCondition.START_TURN,
            "False",
            SessionReason.WAITING,
            "labs of its worker boot first",
        )
        _count_as_progress(draft, lab, after=draft.budget.boot / 2)
        return draft.stay(f"waits for its turn to start: {told}")
    if turn is not None and turn.status == "False":
        draft.fact(SessionCondition.START_TURN, "True", SessionReason.GIVEN)
        _count_as_progress(draft, lab, after=0)
    return draft.stay("starting the lab", do="start")


def _count_as_progress(draft: Draft, lab: LabStatus, *, after: float) -> None:
    """Count waiting for a turn as progress of the lab; rarely, since each time is a write."""
    known = lab.progress_at
    if known is None or draft.now - known >= timedelta(seconds=after):
        draft.set(lab=msgspec.structs.replace(lab, progress_at=draft.now))


def labs_before(session: Session, others: Iterable[Session], at_once: int) -> int:
    """Return how many labs must have booted until it is this one's turn; 0 means now.

    `others` are the sessions of the same worker. All processes work out the same order.
    """
    ahead = 0
    for other in others:
        lab = other.status.lab
        booting = other.status.phase is S.INSTANTIATING and other.name != session.name
        if not booting or lab is None or lab.id is None:
            continue
        effect = other.status.effect
        begun = lab.state == "STARTED" or (effect is not None and effect.kind == "start")
        if begun or _order(other) < _order(session):
            ahead += 1
    return max(0, ahead - at_once + 1)


def _order(session: Session) -> tuple[datetime, str]:
    return session.status.phase_since or _LONG_AGO, session.name


def lost_tags(session: Session, nodes: Iterable[port_numbers.Tagged]) -> dict[str, tuple[str, ...]]:
    """Return label -> the port tags that our import should have made and the server lacks."""
    have: dict[str, set[object]] = {}
    for node in nodes:
        have.setdefault(node.label, set()).update(port_tags.parse(tag) for tag in node.tags)
    wanted = port_numbers.tags(session.status.ports)
    lost = {
        label: tuple(tag for tag in tags if port_tags.parse(tag) not in have[label])
        for label, tags in wanted.items()
        if label in have
    }
    return {label: tags for label, tags in lost.items() if tags}


def added_tags(session: Session, nodes: Iterable[port_numbers.Tagged]) -> tuple[str, ...]:
    """Return the port tags of a lab's nodes with a number that the session was not given."""
    given = port_holders.given_to(session)
    found = []
    for node in nodes:
        for tag in node.tags:
            port = port_tags.parse(tag)
            if port is None or port.outer is None:
                continue
            if (port.transport, port.outer) not in given:
                found.append(f"{tag.strip()} of {node.label}")
    return tuple(found)
