"""The production composition root: real clock and random numbers, settings, wiring, roles, logs, metrics.

The only room that knows everything and that nobody imports. Beside it stands `rehearsal`,
which wires the same parts to a virtual clock. Start at `main`, then `wiring`.
"""
