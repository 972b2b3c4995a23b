"""Needs, loads and targets for the tests of admission."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from hypothesis import strategies as st

from labfleet.decisions.admission import chance
from labfleet.decisions.admission.draws import draws
from labfleet.decisions.admission.load import Load, Need
from labfleet.resources.amounts import Amounts
from labfleet.resources.prediction import LEVELS

NOW = datetime(2026, 11, 29, 9, tzinfo=UTC)
TARGET = Amounts(cpu_milli=8000, memory_mib=8000, network_kbps=7500, storage_mib=1000)


def spread(least: float, most: float) -> tuple[float, ...]:
    """Quantiles of amounts evenly between two."""
    return tuple(least + (most - least) * level for level in LEVELS)


def wanted(
    memory: Sequence[float], *, bound: int | None = None, family: str = "", **more: int
) -> Need:
    """A need of memory alone, with its spread, and of other dimensions for certain."""
    amounts = Amounts(memory_mib=int(memory[-1]) if bound is None else bound, **more)
    rows = ((float(more.get("cpu_milli", 0)),), tuple(memory), (0.0,))
    return Need(spreads=rows, bounds=amounts, declared=amounts, family=family)


def asked(load: Load, need: Need, uid: str = "new", **how):
    """The decision beside a load."""
    drawn = draws(uid, need.spreads)
    return chance.admit(need, drawn, load=load, cluster="c", target=TARGET, now=NOW, **how)


def filled(*needs: Need) -> Load:
    """A load of these runs."""
    load = Load()
    for number, each in enumerate(needs):
        load.add(f"run-{number}", each)
    return load


amounts = st.integers(0, 5000).map(float)
spreads = st.lists(amounts, min_size=len(LEVELS), max_size=len(LEVELS)).map(
    lambda numbers: tuple(sorted(numbers))
)
rows = st.tuples(*[st.one_of(spreads, amounts.map(lambda one: (one,)))] * 3)
vectors = st.builds(
    Amounts, cpu_milli=st.integers(0, 5000), memory_mib=st.integers(0, 5000),
    network_kbps=st.integers(0, 5000), storage_mib=st.integers(0, 900),
)  # fmt: skip
stages = st.lists(st.tuples(st.integers(1, 50).map(float), st.integers(0, 2), spreads), max_size=3)
needs = st.builds(
    Need, spreads=rows, bounds=vectors, declared=vectors, family=st.sampled_from(["f", "g"]),
    later=stages.map(lambda found: tuple(sorted(found))),
)  # fmt: skip
