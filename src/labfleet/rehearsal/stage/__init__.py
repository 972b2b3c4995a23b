"""Puts worlds, database, replicas and rules together. Start at `stage`; `happenings` act on it."""
