"""Every rule bites: a deliberate break of the product is found within fifty seeds."""

from __future__ import annotations

import admission_breaks
import cluster_breaks
import decision_breaks
import learned_breaks
import product_breaks
import promise_breaks
import provider_breaks
import pytest
import story_breaks
import unfit_breaks

from labfleet.rehearsal.seeds.run import rehearse

BREAKS = {
    **product_breaks.BREAKS,
    **decision_breaks.BREAKS,
    **story_breaks.BREAKS,
    **unfit_breaks.BREAKS,
    **provider_breaks.BREAKS,
    **admission_breaks.BREAKS,
    **cluster_breaks.BREAKS,
    **promise_breaks.BREAKS,
    **learned_breaks.BREAKS,
}
SEEDS = 50


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted(BREAKS))
def test_a_break_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule that the break offends against is the one that is reported."""
    broken = BREAKS[name]
    broken.apply(monkeypatch)
    met: set[str] = set()
    for seed in range(broken.first, broken.first + SEEDS):
        rules = {each.rule for each in rehearse(seed, broken.options).violations}
        met |= rules
        if broken.rule in rules:
            return
    pytest.fail(f"{name}: {broken.rule} was not broken in {SEEDS} seeds, but {sorted(met)}")
