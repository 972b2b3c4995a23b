"""The rules of clusters."""

from __future__ import annotations

from labfleet.service.core.kind_table import KindRules
from labfleet.service.kinds import machine_rules

RULES = KindRules(name="Cluster", delete=machine_rules.delete_cluster)
