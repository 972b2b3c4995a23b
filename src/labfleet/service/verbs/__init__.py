"""What can be done. Start at `objects` (any kind) and `lifecycle` (workers and sessions)."""
