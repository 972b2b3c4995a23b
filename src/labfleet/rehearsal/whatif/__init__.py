"""Plays one variant of a what-if plan. Start at `what_if`."""
