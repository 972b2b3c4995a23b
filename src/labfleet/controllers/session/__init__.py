"""The session controller. Start at `reconcile`; `observer` observes, `act` changes the lab."""
