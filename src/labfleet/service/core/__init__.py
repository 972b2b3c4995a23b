"""What all verbs and reads stand on: callers, bodies, names, tokens, idempotency."""
