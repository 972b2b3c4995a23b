"""The rules of regions: they are only read."""

from __future__ import annotations

from labfleet.service.core.kind_table import KindRules

RULES = KindRules(name="Region")
