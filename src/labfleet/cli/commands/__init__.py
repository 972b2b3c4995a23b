"""One module a command or a family of them; `cli.main` names and loads them. Start at `read`."""
