"""Runs fleets of network labs."""

__version__ = "0.1.0"
