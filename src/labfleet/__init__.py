"""Runs fleets of network labs."""
