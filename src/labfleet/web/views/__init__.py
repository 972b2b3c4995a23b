"""Pages of the console that show many objects; each is a row of `view_table`."""
