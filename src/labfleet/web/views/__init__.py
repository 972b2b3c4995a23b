"""Pages of the console, one module each; `view_table` beside this package lists them.

Start at `alerts`.
"""
