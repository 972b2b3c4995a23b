"""Deliberate breaks of learned demand: what the rule `learned` must notice."""

from __future__ import annotations

from typing import Any

import pytest
from product_breaks import Break

from labfleet.decisions import learned_demand
from labfleet.rehearsal.seeds.run import Options
from labfleet.resources.amounts import Amounts
from labfleet.service.kinds import definition_rules

Patch = pytest.MonkeyPatch
LEARNED = Options(hours=2, workers=3, sessions=0, learned=600, harshness="none", replicas=1)
"""A calm day of labs that are counted with what past ones used, and then use far more."""


def forget_the_floor(patch: Patch) -> None:
    """Count a lab with its bound alone, whatever CML reserves for its nodes."""

    async def reserved(*_: Any) -> Amounts:
        return Amounts(labs=1)

    patch.setattr(definition_rules, "reserved", reserved)


def believe_the_bound(patch: Patch) -> None:
    """Count a lab with what was learned, whatever was measured of it since."""
    patch.setattr(learned_demand, "_at_least_used", lambda session, amounts: amounts)


BREAKS: dict[str, Break] = {
    "forget_the_floor": Break("learned", forget_the_floor, LEARNED),
    "believe_the_bound": Break("learned", believe_the_bound, LEARNED),
}
