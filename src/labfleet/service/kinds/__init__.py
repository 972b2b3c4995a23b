"""The rules of each kind for create, change and delete. `rules` is the table."""
