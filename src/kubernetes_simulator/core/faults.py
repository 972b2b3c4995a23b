"""Fault rules: which request goes wrong, how, and how often. Choosing is pure; the app acts."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal[
    "refuse",
    "hang",
    "slow",
    "close_after",
    "truncated",
    "html",
    "400",
    "401",
    "403",
    "404",
    "409",
    "410",
    "429",
    "500",
    "502",
    "503",
    "504",
    "watch_cut",
    "watch_slow",
    "watch_duplicate",
    "watch_gone",
    "watch_silent",
]
KINDS: tuple[str, ...] = get_args(Kind)


@dataclass(slots=True)
class Fault:
    """One ordered rule. `times` None means always; `skip` lets the first matches pass.

    delay: real seconds, of a slow reply or before each event of a slow watch. events: after how
    many events a watch is cut or told that it is too old.
    """

    id: str
    kind: Kind
    method: re.Pattern[str]
    path: re.Pattern[str]
    times: int | None = 1
    skip: int = 0
    delay: float = 0.0
    events: int = 0
    hits: int = 0

    @property
    def of_watch(self) -> bool:
        """Tell whether it is for watches alone."""
        return self.kind.startswith("watch_")


def choose(faults: Iterable[Fault], method: str, path: str, *, watch: bool) -> Fault | None:
    """Return the first live rule that matches, and count the hit."""
    for fault in faults:
        if fault.times == 0 or (fault.of_watch and not watch):
            continue
        if not fault.method.fullmatch(method) or not fault.path.search(path):
            continue
        if fault.skip > 0:
            fault.skip -= 1
            continue
        if fault.times is not None:
            fault.times -= 1
        fault.hits += 1
        return fault
    return None
