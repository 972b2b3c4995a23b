"""The program: sockets, real clock, real random numbers. Start at `main`."""

FOR_TESTS = "kubernetes_simulator.shell.fixture"
"""Imported by tests of other programs only."""
