"""The worker controller: `look` observes, `launch` and `act` touch the outside, `reconcile` leads."""
