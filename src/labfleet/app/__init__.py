"""The production composition root: real clock, settings, wiring, roles, logs, metrics.

The only package that imports all others and that none imports. `rehearsal` is its counterpart,
which wires the same parts to a virtual clock. Start at `main`, then `wiring`.
"""
