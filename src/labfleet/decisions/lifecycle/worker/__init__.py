"""Which phase of a worker follows which, and what to do next. Start at `decide`."""
