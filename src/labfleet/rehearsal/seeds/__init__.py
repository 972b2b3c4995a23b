"""Plays seeds: one (`run`), many (`playing`), and a failing one made smaller (`shrinking`)."""
