"""The worker controller. Start at `reconcile`; `look` observes, `launch` and `act` act outside."""
