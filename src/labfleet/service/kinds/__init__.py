"""The rules of each kind for create, change and delete. Start at `rules`, the table."""
