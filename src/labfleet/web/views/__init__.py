"""Pages of the console that show many objects, each in a module. Start at `alerts`."""
