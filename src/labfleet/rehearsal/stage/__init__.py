"""Wires worlds, database, replicas and rules. Start at `stage`; `scheduled_faults` act on it."""
