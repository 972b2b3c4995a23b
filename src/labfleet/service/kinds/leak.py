"""The rules of leaks: what a leaked licence costs, and how it is freed."""

from __future__ import annotations

from labfleet.resources.leak import Leak
from labfleet.service.core.kind_table import KindRules


def _about(leak: Leak) -> str:
    doubt = "" if leak.spec.certain else " (it may have gone back after all)"
    return f"{leak.spec.why}{doubt}: {leak.spec.fix} {leak.name}"


RULES = KindRules(name="Leak", about=_about)
