"""Invariants, true under every fault. Start at `invariants`; `truth` reads the worlds' state."""
