"""Measures what Labfleet does per second beside a peer or a limit in the same run.

Proves nothing about correctness and gates nothing by wall time: see README.md.
"""
