"""What a new leader lets in before its first look, by how long nobody had led before it."""

from __future__ import annotations

import pytest
from hand_clock import START
from hypothesis import given
from hypothesis import strategies as st
from test_cluster_looks import ask, begun, safe
from virtual_time import play
from world import World, world

from labfleet.decisions.safe_mode import KUBERNETES, METRICS
from labfleet.resources.cluster import Cluster, ClusterSpec, ClusterStatus
from labfleet.resources.cluster_access import KubernetesAccess, MetricsSource
from labfleet.resources.cluster_conditions import ClusterCondition, ClusterReason
from labfleet.resources.conditions import Condition
from labfleet.resources.meta import Metadata
from labfleet.service.core.cluster_watch import FIRST_LOOK_SECONDS, ClusterWatch

SOURCE = MetricsSource(name="prom", url="http://prom:9090")
GOOD = Condition(
    type=ClusterCondition.SAFE_MODE,
    status="False",
    reason=ClusterReason.MEASURED,
    last_transition_time=START,
)
MEASURED = Cluster(
    metadata=Metadata(name="c1", uid="u1"),
    spec=ClusterSpec(metrics=(SOURCE,), kubernetes=KubernetesAccess()),
    status=ClusterStatus(conditions=(GOOD,)),
)
seconds = st.floats(0, 1e5)


async def led_again(w: World, *, after: float) -> None:
    """Nobody leads for so long, then a process that has stood by all the while."""
    assert w.process is not None
    w.process.kill()
    await w.let_pass(after)
    process = await w.start(run=("admission", "cluster", "upkeep"))
    process.leaders["scheduler"].vacant = after  # none of its controllers has had a turn yet


@given(seconds, seconds)
def test_a_predecessor_is_believed_for_its_first_seconds_without_a_leader(
    vacant: float, since: float
) -> None:
    """However these pass: while nobody leads, or while the next leader has heard nothing yet."""
    watch = ClusterWatch()
    watch.begin(1e6, vacant)
    now = 1e6 + since
    for part in (KUBERNETES, METRICS):
        watch.failed("u1", part, "away")  # a look that fails is no word of the cluster
    believed = now - (1e6 - vacant) <= FIRST_LOOK_SECONDS
    assert (watch.safe_mode(MEASURED, now) is None) == believed


@pytest.mark.parametrize(
    ("blind", "after", "phase", "rule"),
    [
        ("deny", 10, "APPROVED", "chance"),
        ("deny", 237, "DENIED", "chance"),
        ("declared", 10, "APPROVED", "chance"),
        ("declared", 237, "APPROVED", "declared"),
    ],
)
def test_what_was_recorded_before_nobody_led_lets_nothing_in(
    blind: str, after: int, phase: str, rule: str
) -> None:
    """A full disk kept the last leader from saying that it heard nothing: its word is too old."""

    async def story() -> None:
        async with world() as w:
            seen = await begun(w, whenBlind=blind)
            await w.let_pass(60)
            seen.unmeasured = seen.blind = True
            await led_again(w, after=after)
            assert safe(w) == "False Measured"
            run = await ask(w)
            assert run.status.decision is not None
            assert (run.status.phase, run.status.decision.rule) == (phase, rule)
            seen.unmeasured = seen.blind = False
            await w.until(lambda: safe(w) == "False Measured")
            await w.let_pass(60)
            assert (await ask(w)).status.phase == "APPROVED"

    play(story)
