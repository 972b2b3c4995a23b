"""What routes are made of. Start at `endpoints`; `problems` says which error has which status."""
