"""Several choices as one draw: what a property draws costs more than what it checks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st


def combinations(*choices: Iterable[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    """Return a strategy of one value out of each; every combination is as likely as another."""
    return st.sampled_from(list(itertools.product(*choices)))
