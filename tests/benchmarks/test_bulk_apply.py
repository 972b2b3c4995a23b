"""The benchmark of a bulk apply judges by medians of neighbours; nothing is started here."""

from __future__ import annotations

from argparse import Namespace

import pytest
from benchmarks import bulk_apply


def figures(wall: float, cpu: float) -> dict[str, float]:
    """What one command cost."""
    return {"wall_s": wall, "command_cpu_s": cpu / 2, "server_cpu_s": cpu / 2, "cpu_s": cpu}


@pytest.mark.parametrize(("now", "met"), [(0.2, True), (0.3, False)])
def test_the_target_is_on_wall_and_cpu_of_what_is_new(now: float, met: bool) -> None:
    """A disturbed round does not decide, and an unchanged apply is told but not judged."""
    before = figures(1.0, 1.0)
    rounds = [{"before": before, "now": figures(share, share)} for share in (now, now, 0.9)]
    found = {"new": rounds, "unchanged": [{"before": before, "now": figures(0.9, 0.9)}]}
    # private _told: the judgement, without two servers
    told = bulk_apply._told(found, Namespace(objects=200, rounds=3, before="x"))
    assert told["ratios"]["new_wall_s_now_to_before"] == now
    assert told["ratios"]["unchanged_cpu_s_now_to_before"] == 0.9
    assert told["met"] is met
    assert [row["name"] for row in told["rows"]] == [
        "new, before", "new, now", "unchanged, before", "unchanged, now",
    ]  # fmt: skip


def test_what_it_applies_is_a_manifest_of_many_sessions() -> None:
    """The texts are valid manifests, a session each."""
    from labfleet.resources import manifests

    text = "---\n".join(bulk_apply.session(1, each) for each in range(3))
    assert [each.kind for each in manifests.load(text)] == ["Session"] * 3
    assert [each.kind for each in manifests.load(bulk_apply.definition())] == ["Definition"]
