"""Any open call of a worker, and anything that may be known of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from labfleet.decisions.lifecycle.worker.calls import MISMATCH, Answer, Call, Offer
from labfleet.kernel import errors
from labfleet.resources.machine import MachineStatus
from labfleet.resources.meta import Effect

NOW = datetime(2026, 11, 27, 9, 0, tzinfo=UTC)
KINDS = (
    "launch", "start", "stop", "terminate", "register", "deregister", "stop_labs", "renew",
    "telemetry", "claim", "tags",
)  # fmt: skip
PROBLEMS = st.sampled_from(
    [
        errors.OutOfCapacity("none left", retry_after=60.0),
        errors.QuotaExceeded("the account's limit"),
        errors.Temporary("trouble", reason="ServerTrouble"),
        errors.Temporary("the lease is short", reason="LeaseTooShort"),
        errors.Denied("not yours", reason="NotOurs"),
        errors.Gone("no such instance"),
        errors.Conflict("a token of another request"),
        errors.Ambiguous("no answer", reason="TimedOut"),
    ]
)
PARAMETERS = st.sampled_from(
    [{"attempt": "1", "token": "t"}, {"attempt": "3", "token": "t", "type": "m5", MISMATCH: "yes"}]
)
EFFECTS = st.builds(
    Effect,
    id=st.just("e-1"),
    kind=st.sampled_from(KINDS),
    begun=st.sampled_from([NOW, NOW - timedelta(hours=1)]),
    expires=st.just(NOW + timedelta(seconds=20)),
    parameters=PARAMETERS,
)
MACHINE = MachineStatus(id="i-1", state="booting")
ANSWERS = st.builds(
    Answer,
    problem=st.none() | PROBLEMS,
    machine=st.none() | st.just(MACHINE),
    refused=st.none() | st.just("no such type"),
    nodes_running=st.booleans(),
    cloud_told=st.booleans(),
    returned=st.booleans(),
    telemetry=st.none() | st.booleans(),
    telemetry_refused=st.none() | st.just("not allowed"),
    claimed=st.booleans(),
    tags=st.none() | st.just(("team",)),
    note=st.sampled_from(["", "2 nodes ran"]),
)
CALLS = st.builds(
    Call, state=st.sampled_from(["running", "not_done", "over"]), answer=st.just(Answer())
) | st.builds(Call, state=st.just("answered"), answer=ANSWERS)
OFFERS = st.builds(
    Offer,
    parameters=st.none() | PARAMETERS,
    held=st.none() | st.just(errors.OutOfCapacity("no m5 here", retry_after=90.0)),
    problem=st.none() | PROBLEMS | st.just(errors.Invalid("no such image")),
    wait=st.sampled_from([0.0, 2.5]),
)
