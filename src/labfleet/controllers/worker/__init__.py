"""The worker controller. Start at `reconcile`; `observer` observes, `launch` and `act` act outside."""
