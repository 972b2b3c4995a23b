"""The session controller: `look` observes, `act` touches the lab, `reconcile` leads."""
