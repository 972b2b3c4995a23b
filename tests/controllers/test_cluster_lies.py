"""Figures that cannot be true, told while nobody else can say so."""

from __future__ import annotations

import pytest
from test_cluster_looks import ask, begun, of, safe
from virtual_time import play
from world import world

from labfleet.interfaces.cluster_view import RunPods

NOTHING = {"cpu_milli": 0.0, "memory_mib": 0.0}


@pytest.mark.parametrize("whenBlind", ["deny", "declared"])
def test_what_was_told_while_pods_could_not_be_seen_lets_nothing_in_when_they_are(
    whenBlind: str,
) -> None:
    """A source that says nothing is used, though pods were running when last seen, is silent: its
    word of that time is as old as the last true one."""

    async def story() -> None:
        async with world() as w:
            seen = await begun(w, whenBlind=whenBlind)
            run = await ask(w)
            seen.runs = {run.name: RunPods(running=1)}
            seen.now = {run.name: {"cpu_milli": 500.0}}
            await w.until(lambda: of(w, run).status.phase == "RUNNING")
            seen.load, seen.now, seen.blind = NOTHING, {}, True
            await w.let_pass(300)
            seen.blind = False
            looks = seen.looks
            await w.until(lambda: seen.looks > looks + 1)
            assert safe(w).startswith("True")
            decision = (await ask(w)).status.decision
            assert decision is not None
            if whenBlind == "deny":
                assert (decision.outcome, decision.reason) == ("denied", "SafeMode")
            else:
                assert decision.rule == "declared"
            seen.load = {"cpu_milli": 100.0, "memory_mib": 1000.0}
            await w.until(lambda: safe(w) == "False Measured")

    play(story)


def test_a_source_that_says_nothing_is_believed_where_no_pods_were_seen() -> None:
    """An idle cluster whose API server is away may use nothing."""

    async def story() -> None:
        async with world() as w:
            seen = await begun(w)
            await ask(w)
            seen.load, seen.blind = NOTHING, True
            await w.let_pass(60)
            assert safe(w) == "False Measured"
            seen.blind = False
            await w.let_pass(60)
            assert (await ask(w)).status.phase == "APPROVED"

    play(story)
