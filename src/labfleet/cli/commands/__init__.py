"""One module a command or a family of commands; `cli.main` names and loads them."""
