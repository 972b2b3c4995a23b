"""Which phase may follow which, and what is next. Start at `worker.decide` or `session.decide`."""
