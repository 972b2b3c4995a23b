"""The session controller. Start at `reconcile`; `observer` observes, `act` touches the lab."""
