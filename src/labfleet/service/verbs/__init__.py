"""What can be done: objects of any kind, verbs on workers and sessions, reports, admission."""
