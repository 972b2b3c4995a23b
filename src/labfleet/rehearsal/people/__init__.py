"""Who uses the product in a rehearsal: people with sessions, operators with workers."""
