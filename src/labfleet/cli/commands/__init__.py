"""One module for each command or family of commands; `cli.main` loads them. Start at `read`."""
