"""Fault rules: which request goes wrong, how, and how often. Choosing is pure; the app acts."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal[
    "refuse",
    "hang",
    "slow",
    "502",
    "503",
    "504",
    "500",
    "400",
    "401",
    "403",
    "404",
    "409",
    "close_before",
    "close_after",
    "truncated",
    "html",
    "text",
    "empty",
]
KINDS: tuple[str, ...] = get_args(Kind)


@dataclass(slots=True)
class Fault:
    """One ordered rule. `times` None means always; `skip` lets the first matches pass."""

    id: str
    kind: Kind
    method: re.Pattern[str]
    path: re.Pattern[str]
    times: int | None = 1
    skip: int = 0
    delay: float = 0.0
    hits: int = 0
    description: str | None = None


def choose(faults: Iterable[Fault], method: str, path: str) -> Fault | None:
    """Return the first live rule that matches, and count the hit."""
    for fault in faults:
        if fault.times == 0 or not fault.method.fullmatch(method) or not fault.path.search(path):
            continue
        if fault.skip > 0:
            fault.skip -= 1
            continue
        if fault.times is not None:
            fault.times -= 1
        fault.hits += 1
        return fault
    return None
