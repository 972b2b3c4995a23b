"""Any record of a session, any sight of its server, and sessions brought to a phase."""

from __future__ import annotations

from datetime import timedelta

import msgspec
from drawn_together import combinations
from hypothesis import strategies as st
from lifecycle_worlds import START, Server, session

from labfleet.decisions.lifecycle.session import decide as lifecycle
from labfleet.resources import conditions
from labfleet.resources.session import (
    FINALIZER_LAB,
    TERMINAL,
    Cancellation,
    LabStatus,
    PortAllocation,
    Session,
    SessionPhase,
    Slot,
)
from labfleet.resources.session_conditions import PhaseReason

S = SessionPhase
LIVE = [phase for phase in S if phase not in TERMINAL]
HOUR = timedelta(hours=1)
LAB_STATES = ["DEFINED_ON_CORE", "STARTED", "STOPPED", "QUEUED", None]
instants = st.integers(-40_000, 40_000).map(lambda seconds: START + timedelta(seconds=seconds))
BOTH = (True, False)
MAYBE = (True, False, None)
PORT = PortAllocation(name="p", node="r1", kind="serial", number=5000)
sometime = st.none() | instants
labs = combinations(["l-1", None], LAB_STATES, range(4), range(4)).map(
    lambda drawn: LabStatus(
        title="t", marker="u-1", id=drawn[0], state=drawn[1], nodes=drawn[2], booted=drawn[3]
    )
)
some_lab = st.none() | labs
records = combinations(
    list(S), BOTH, [None, Cancellation(at=START)], [(), (PORT,)], range(7), [(), (FINALIZER_LAB,)],
    [None, START],
)  # fmt: skip
outcomes = st.sampled_from([None, *TERMINAL])
told = combinations(
    BOTH, BOTH, BOTH, BOTH, ["", "CMLReady: not ready"], [None, 0, 2], MAYBE, MAYBE, [None, "no such image"], BOTH,
    ["", "w1 lacks 1 CPU"],
)  # fmt: skip


@st.composite
def slots(draw: st.DrawFn) -> Slot:
    """Any slot."""
    start, end = draw(sometime), draw(sometime)
    if start is not None and end is not None and end <= start:
        end = start + HOUR
    return Slot(start=start, end=end)


some_slot = slots()


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    """Any record of a session."""
    phase, collected, cancel, ports, placements, held, ended = draw(records)
    known = conditions.put((), "Collected", "True", "Observed", now=START) if collected else ()
    made = session(
        phase,
        spec={"slot": draw(some_slot), "cancel": cancel, "observe_requested": draw(sometime)},
        end=draw(sometime),
        lab=draw(some_lab),
        ports=ports,
        placements=placements,
        conditions=known,
        outcome=draw(outcomes) if phase is S.STOPPING else None,
    )
    status = msgspec.structs.replace(made.status, phase_since=draw(sometime))
    meta = msgspec.structs.replace(made.metadata, finalizers=held, deletion_timestamp=ended)
    return msgspec.structs.replace(made, status=status, metadata=meta)


@st.composite
def sights(draw: st.DrawFn) -> lifecycle.SessionObservation:
    """Any observation."""
    looked, lost, dead, leaving, unfit, active, converged, ports_open, refused, out, room = draw(
        told
    )
    return lifecycle.SessionObservation(
        host_lost=lost,
        host_dead=dead,
        host_leaving=leaving,
        host_unfit=unfit,
        looked=looked,
        lab=draw(some_lab) if looked else None,
        active=active,
        converged=converged,
        ports_open=ports_open,
        refused=refused,
        forced_out=PhaseReason.DRAINED if out else None,
        room_held=room,
    )


def running(**spec: object) -> Server:
    """A server whose session came to RUNNING by living."""
    server = Server(session(spec=spec))
    server.bind()
    server.until(S.RUNNING)
    return server


def brought_to(phase: SessionPhase) -> Server:
    """A server whose session came to a phase by living."""
    server = Server(session())
    if phase is S.PENDING:
        return server
    if phase is S.EXPIRED:
        server.now += lifecycle.ON_DEMAND_PATIENCE
    elif phase is S.CANCELLED:
        server.want(cancel=Cancellation(at=START))
    else:
        server.bind()
    server.refuses = phase is S.FAILED
    server.until(phase)
    return server
