"""Puts worlds, database, replicas and rules together, and makes planned faults happen."""
