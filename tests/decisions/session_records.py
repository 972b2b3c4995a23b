"""Any record of a session, any sight of its server, and sessions brought to a phase."""

from __future__ import annotations

from datetime import timedelta

import msgspec
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

S = SessionPhase
LIVE = [phase for phase in S if phase not in TERMINAL]
HOUR = timedelta(hours=1)
LAB_STATES = ["DEFINED_ON_CORE", "STARTED", "STOPPED", "QUEUED", None]
instants = st.integers(-40_000, 40_000).map(lambda seconds: START + timedelta(seconds=seconds))
maybe = st.sampled_from([True, False, None])


@st.composite
def labs(draw: st.DrawFn) -> LabStatus:
    """Any lab."""
    return LabStatus(
        title="t",
        marker="u-1",
        id=draw(st.sampled_from(["l-1", None])),
        state=draw(st.sampled_from(LAB_STATES)),
        nodes=draw(st.integers(0, 3)),
        booted=draw(st.integers(0, 3)),
    )


@st.composite
def slots(draw: st.DrawFn) -> Slot:
    """Any slot."""
    start, end = draw(st.none() | instants), draw(st.none() | instants)
    if start is not None and end is not None and end <= start:
        end = start + HOUR
    return Slot(start=start, end=end)


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    """Any record of a session."""
    phase = draw(st.sampled_from(list(S)))
    collected = draw(st.booleans())
    known = conditions.put((), "Collected", "True", "Observed", now=START) if collected else ()
    port = PortAllocation(name="p", node="r1", kind="serial", number=5000)
    made = session(
        phase,
        spec={
            "slot": draw(slots()),
            "cancel": draw(st.sampled_from([None, Cancellation(at=START)])),
            "observe_requested": draw(st.none() | instants),
        },
        end=draw(st.none() | instants),
        lab=draw(st.none() | labs()),
        ports=draw(st.sampled_from([(), (port,)])),
        placements=draw(st.integers(0, 6)),
        conditions=known,
        outcome=draw(st.sampled_from([None, *TERMINAL])) if phase is S.STOPPING else None,
    )
    status = msgspec.structs.replace(made.status, phase_since=draw(st.none() | instants))
    held = (FINALIZER_LAB,) if draw(st.booleans()) else ()
    ended = START if draw(st.booleans()) else None
    meta = msgspec.structs.replace(made.metadata, finalizers=held, deletion_timestamp=ended)
    return msgspec.structs.replace(made, status=status, metadata=meta)


@st.composite
def sights(draw: st.DrawFn) -> lifecycle.SessionObservation:
    """Any observation."""
    looked = draw(st.booleans())
    return lifecycle.SessionObservation(
        host_lost=draw(st.booleans()),
        host_dead=draw(st.booleans()),
        host_leaving=draw(st.booleans()),
        host_unfit=draw(st.sampled_from(["", "CMLReady: not ready"])),
        looked=looked,
        lab=draw(st.none() | labs()) if looked else None,
        active=draw(st.sampled_from([None, 0, 2])),
        converged=draw(maybe),
        ports_open=draw(maybe),
        refused=draw(st.sampled_from([None, "no such image"])),
        forced_out=draw(st.booleans()),
        room_held=draw(st.sampled_from(["", "w1 lacks 1 CPU"])),
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
