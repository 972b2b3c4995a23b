"""How a pool's policy finds the number of its workers: pure. `scaling` decides with it.

Start at `policies`, the table; `need` is the default one, `windows` the times of the week.
"""
