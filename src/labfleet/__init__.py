"""Runs fleets of network labs. Start at `entry`, which names every program, or at `app.wiring`."""

__version__ = "0.1.0"
