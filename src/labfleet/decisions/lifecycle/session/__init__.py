"""Which phase of a session follows which, and what to do next. Start at `decide`."""
