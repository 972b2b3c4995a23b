"""In words: with what a session is counted, where that is a bound of past use."""

from __future__ import annotations

from collections.abc import Iterator

from labfleet.decisions import learned_demand
from labfleet.resources.amounts import DIMENSIONS, LABELS
from labfleet.resources.session import Session


def lines(session: Session) -> Iterator[str]:
    """Yield a sentence for each measured dimension, and one for what its lab uses beyond it."""
    demand, held = session.status.demand, session.status.reservation
    if demand is None:
        return
    for each in demand.learned:
        unit = LABELS[each.dimension]
        yield (
            f"Counted with {each.counted:,} {unit}, of {each.declared:,} declared: {each.sentence}."
        )
    real = learned_demand.held(session)
    if held is None or real is None:
        return
    for name in DIMENSIONS:
        more, was = getattr(real.amounts, name), getattr(held.amounts, name)
        if more > was:
            yield (
                f"Its lab used {more:,} {LABELS[name]}, more than the {was:,} that it was counted "
                "with: its worker takes the fewer others, and the lab keeps what it has."
            )
