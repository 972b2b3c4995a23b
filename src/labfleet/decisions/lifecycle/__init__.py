"""Which phase may follow which, and what to do next, for workers and sessions."""
