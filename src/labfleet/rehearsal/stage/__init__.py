"""Puts worlds, database, replicas and rules together. Start at `stage`; `scheduled` act on it."""
