"""The only package with sockets, TLS, the real clock and real random numbers; start at `main`."""

FOR_TESTS = "cml_simulator.shell.fixture"
"""The module that other programs' tests import."""
