"""When an imported lab may start: its port tags are there, and it is its turn.

Sixty labs started in one minute would share one disk and one CPU set, and random nodes would
fail (cml-api.md F36, ux.md T46): on each worker a bounded number boots at once, the rest wait
in the order in which they came. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec

from labfleet.decisions import port_numbers
from labfleet.decisions.lifecycle.session_draft import Draft, S, Step
from labfleet.resources import conditions, port_tags
from labfleet.resources.session import LabStatus, Session

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def begin(draft: Draft, lab: LabStatus) -> Step:
    """Write back lost tags, wait for the turn, or start."""
    if draft.seen.tags_lost and lab.state == "DEFINED_ON_CORE":
        told = ", ".join(draft.seen.tags_lost[:5])
        return draft.stay(f"the import lost port tags, writing them back: {told}", do="tag")
    turn = conditions.find(draft.status.conditions, "StartTurn")
    if draft.seen.before:
        told = f"{draft.seen.before} labs of its worker boot first"
        draft.fact("StartTurn", "False", "Waiting", "labs of its worker boot first")
        _count_as_progress(draft, lab, after=draft.seen.boot_seconds / 2)
        return draft.stay(f"waits for its turn to start: {told}")
    if turn is not None and turn.status == "False":
        draft.fact("StartTurn", "True", "Given")
        _count_as_progress(draft, lab, after=0)
    return draft.stay("starting the lab", do="start")


def _count_as_progress(draft: Draft, lab: LabStatus, *, after: float) -> None:
    """Never hold the wait for a turn against a lab; rarely, since each time is a write."""
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
