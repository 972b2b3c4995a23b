"""Deliberate breaks of what holds while a provider has no room, or does not answer.

As in `product_breaks`, a break edits the product (never a world, never the checker).
"""

from __future__ import annotations

from product_breaks import Break, Patch

from labfleet.decisions.lifecycle.worker import answers, limits
from labfleet.rehearsal import faults
from labfleet.rehearsal.seeds.run import Options


def count_the_wait(patch: Patch) -> None:
    """Let a launch's limit run while the provider has no room for it."""
    patch.setattr(limits, "_held", lambda draft, known: known)


def say_nothing_of_the_provider(patch: Patch) -> None:
    """Record nothing of a provider that does not answer."""
    patch.setattr(answers, "note", lambda draft: None)


def only(word: str) -> tuple[str, ...]:
    """Return all kinds of faults but one."""
    return tuple(each for each in faults.KINDS if each != word)


BREAKS: dict[str, Break] = {
    "count_the_wait": Break(
        "limit",
        count_the_wait,
        Options(hours=2, workers=2, sessions=20, replicas=1, without=only("no_stock")),
        first=19,
    ),
    "say_nothing_of_the_provider": Break(
        "cause",
        say_nothing_of_the_provider,
        Options(hours=3, workers=6, sessions=120, replicas=1, without=only("ec2_down")),
        first=9,
    ),
}
