"""Reads for people and programs, which change nothing. Start at `explain` or `listing`."""
