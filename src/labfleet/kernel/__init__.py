"""The lowest layer: clock and random number protocols, ids, quantities, errors, back-off arithmetic.

Pure and free of every other room. Start at `errors` to see what can go wrong, at
`clock` to see which of the two time lines a value belongs to.
"""
