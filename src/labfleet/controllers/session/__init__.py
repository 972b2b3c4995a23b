"""The session controller. Start at `reconcile`; `look` observes, `act` touches the lab."""
